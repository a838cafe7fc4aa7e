from __future__ import annotations

import subprocess
import sys

import pytest

from autorubric.errors import ConfigError
from autorubric.llm.http.transport import find_proxy


def test_proxies_of_the_environment_are_used_except_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert find_proxy("https://api.openai.com/v1") == "http://proxy.example:3128"
    assert find_proxy("https://inside.example/v1") is None
    for here in ("http://localhost:8000/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1"):
        assert find_proxy(here) is None


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
        find_proxy("http://host.example/v1")
    assert "planted" not in str(caught.value)
    assert find_proxy("http://localhost:8000/v1") is None


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
