from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings

import pytest
from aiohttp import web

from autorubric.errors import ConfigError
from autorubric.llm.http.transport import HttpReply, Transport, TransportError, proxy_for


async def serving(status: int = 200) -> tuple[web.AppRunner, str]:
    async def serve(request: web.Request) -> web.Response:
        return web.Response(status=status, text="there")

    app = web.Application()
    app.router.add_post("/", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/"


def test_a_transport_is_made_without_an_event_loop_and_moves_between_them() -> None:
    transport = Transport()

    async def post() -> HttpReply:
        runner, url = await serving()
        try:
            return await transport.post(url, {}, b"{}", 5.0)
        finally:
            await runner.cleanup()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [asyncio.run(post()).body for _ in range(3)] == [b"there"] * 3
        gc.collect()
        asyncio.run(transport.close())
        gc.collect()


async def test_a_closed_transport_can_be_used_again() -> None:
    transport = Transport()
    await transport.close()
    runner, url = await serving(status=500)
    for _ in range(2):
        assert (await transport.post(url, {}, b"", 5.0)).status == 500
        await transport.close()
    await runner.cleanup()


async def test_a_refused_connection_was_certainly_not_billed() -> None:
    transport = Transport()
    with pytest.raises(TransportError) as caught:
        await transport.post("http://127.0.0.1:1/", {}, b"", 5.0)
    assert (caught.value.kind, caught.value.maybe_billed) == ("network", False)
    await transport.close()


def test_proxies_of_the_environment_are_used_except_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert proxy_for("https://api.openai.com/v1") == "http://proxy.example:3128"
    assert proxy_for("https://inside.example/v1") is None
    for here in ("http://localhost:8000/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1"):
        assert proxy_for(here) is None


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("proxy.example:3128", "is not an HTTP proxy"),
        ("proxy", "is not an HTTP proxy"),
        ("socks5://proxy.example:1080", "is not an HTTP proxy"),
        ("http://", "is not an HTTP proxy"),
        ("http://proxy.example:0", "is not an HTTP proxy"),
        ("http://proxy\n.example", "is not an HTTP proxy"),
        ("http://me:planted@proxy.example:99999", "is not a URL"),
        ("me:planted@proxy.example:3128", "is not an HTTP proxy"),
        ("http://169.254.169.254:80", "is a link-local address"),
        ("http://[::ffff:a9fe:a9fe]:80", "is a link-local address"),
    ],
)
@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
def test_a_proxy_that_is_none_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str, reason: str
) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(ConfigError, match=f"{variable.upper()} .* {reason}") as caught:
        proxy_for("http://host.example/v1")
    assert "planted" not in str(caught.value)
    assert proxy_for("http://localhost:8000/v1") is None


def test_describing_a_model_imports_nothing_heavy() -> None:
    code = """
import sys
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.providers import resolve
resolve(LLMConfig('vllm/m'), {})
print([name for name in ('aiohttp', 'yaml', 'numpy') if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "[]"
