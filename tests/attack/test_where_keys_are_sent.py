"""Link-local addresses, redirects and public networks in the clear get no key, and pasted keys no echo."""

from __future__ import annotations

import json
import socket
from contextlib import aclosing
from pathlib import Path

import pytest

from autorubric.cli.app import run
from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.endpoints import Endpoints
from autorubric.llm.http.providers import resolve
from autorubric.llm.request import CallError, Message, Request
from autorubric.testing import LoopbackEndpoint
from autorubric.training import make_rewarder
from autorubric.training.adapters.verl import HttpRewards
from tests.names import names
from tests.offenders import offenders


async def test_the_key_does_not_follow_a_redirect() -> None:
    async with LoopbackEndpoint(faults={"redirect": 1.0}) as endpoint, aclosing(Endpoints()) as endpoints:
        config = LLMConfig("m", api_base=endpoint.base_url, api_key="sk-planted-0123456789", max_retries=0)
        with pytest.raises(CallError, match=r"HTTP 307 to http://\S+ \(redirects are not followed"):
            await ChatModel(config, endpoints).complete(Request((Message("user", "Hi"),), "judge"))
        assert endpoint.counts.requests == 1
        assert endpoint.counts.elsewhere == 0


HOSTS = {
    # Loopback and private networks, where servers without TLS are common.
    "localhost": True,
    "127.0.0.1": True,
    "[::1]": True,
    "10.0.0.5": True,
    "172.16.0.1": True,
    "172.31.255.255": True,
    "192.168.1.20": True,
    "[fd12:3456::1]": True,
    "[::ffff:10.0.0.5]": True,
    "0.0.0.0": True,
    "vllm": True,
    "gpu1.local": True,
    "judge.svc.cluster.local": True,
    "host.docker.internal": True,
    "router.home.arpa": True,
    "GPU1.LOCAL.": True,
    # The rest of the world, in several spellings.
    "gpu.example.com": False,
    "8.8.8.8": False,
    "134744072": False,
    "0x08080808": False,
    "172.32.0.1": False,
    "192.169.0.1": False,
    "100.64.0.1": False,
    "[2001:4860:4860::8888]": False,
    "[::ffff:8.8.8.8]": False,
    "[64:ff9b::a00:5]": False,
    "local.example.com": False,
    "gpu.local.example": False,
    "notlocal": True,
    "example。com": False,
    "8。8。8。8": False,
    "８.８.８.８": False,
}


def test_a_key_crosses_no_public_network_in_the_clear() -> None:
    allowed = r"over plain HTTP.*--allow-plain-http \(LLMConfig\(allow_plain_http=True\)"
    with offenders() as case:
        for host, private in HOSTS.items():
            with case(host):
                plain = f"m@http://{host}:8000/v1"
                if private:
                    assert resolve(LLMConfig(plain, api_key="planted-key")).key is not None
                else:
                    with pytest.raises(ConfigError, match=allowed):
                        resolve(LLMConfig(plain, api_key="planted-key"))
                assert resolve(LLMConfig(plain, api_key="planted-key", allow_plain_http=True)).key is not None
                assert resolve(LLMConfig(f"m@https://{host}:8000/v1", api_key="planted-key")).key is not None


def test_what_carries_no_key_needs_no_leave_and_a_header_with_one_does() -> None:
    url = "http://gpu.example.com/v1"
    assert resolve(LLMConfig("vllm/m", api_base=url), {}).key is None
    with pytest.raises(ConfigError, match="over plain HTTP"):
        resolve(LLMConfig("vllm/m", api_base=url, extra_headers={"X-Auth-Token": "planted"}), {})


@pytest.mark.parametrize(
    "words",
    [
        ["grade", "--submissions", "essays.jsonl", "--rubric", "rubric.json", "-o", "out", "--judge", "m"],
        ["synthesize", "q.jsonl", "-o", "out", "--models", "m"],
        ["serve", "--port", "0", "-o", "out", "--judge", "m"],
        ["select", "final.jsonl", "--candidates", "answers.jsonl", "-o", "out", "--judge", "m"],
        ["select", "final.jsonl", "-o", "out", "--sample", "m", "--judge", "builtin/offline"],
        ["doctor", "--out", ".", "--model", "m"],
    ],
    ids=lambda words: " ".join(words[:1]),
)
def test_every_command_refuses_before_anything_is_sent(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    row = {"question": "Why?", "id": "q", "answer": "So.", "rubrics": [{"criterion": "Is right.", "points": 6}]}
    for name in ("q", "final", "answers"):
        Path(f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    Path("essays.jsonl").write_text('{"id": "e", "submission": "An essay."}\n', encoding="utf-8")
    Path("rubric.json").write_text('[{"requirement": "Is kind."}]', encoding="utf-8")
    # The address is a proxy of ours: what was sent in the clear would be counted.
    with LoopbackEndpoint().in_thread() as endpoint:
        monkeypatch.setenv("HTTP_PROXY", endpoint.url)
        monkeypatch.setenv("http_proxy", endpoint.url)
        assert run([*words, "--base-url", "http://gpu.example.com/v1", "--api-key-env", "OPENAI_API_KEY"]) == 2
        assert endpoint.counts.requests == 0
    told = capsys.readouterr()
    assert "would go to gpu.example.com over plain HTTP" in told.err
    assert "sk-planted" not in told.out + told.err
    assert not Path("out").exists()


async def test_a_key_is_sent_in_the_clear_where_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", names({"gpu.example.com": ["127.0.0.1"]}))
    async with LoopbackEndpoint(key="planted-key") as endpoint:
        url = endpoint.base_url.replace("127.0.0.1", "gpu.example.com")
        async with aclosing(Endpoints()) as endpoints:
            config = LLMConfig("m", api_base=url, api_key="planted-key", allow_plain_http=True)
            await ChatModel(config, endpoints).complete(Request((Message("user", "Hi"),), "judge"))
        assert endpoint.counts.requests == 1


PASTED = "sk-Pasted0123456789abcdefXYZ"
FLAGS = {
    "grade": ("grade", "e.json", "-o", "out", "--judge", "m@http://localhost:9/v1"),
    "select": ("select", "f.jsonl", "-o", "out", "--judge", "m@http://localhost:9/v1"),
    "serve": ("serve", "-o", "out", "--port", "0", "--judge", "m@http://localhost:9/v1"),
    "synthesize": ("synthesize", "q.jsonl", "-o", "out", "--models", "m@http://localhost:9/v1"),
    "doctor": ("doctor", "--out", ".", "--model", "m@http://localhost:9/v1"),
}
KEY_FLAGS = [
    *((name, "--api-key-env") for name in FLAGS),
    *((name, "--judge-key-env") for name in ("grade", "select", "serve")),
    ("serve", "--token-env"),
    ("doctor", "--key-env"),
]


def test_a_key_pasted_where_its_variable_is_named_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with offenders() as case:
        for command, flag in KEY_FLAGS:
            for pasted in (PASTED, "0123456789abcdef0123456789abcdef", "AKIAIOSFODNN7EXAMPLE"):
                for debug in ((), ("--debug",)):
                    with case(f"{command} {flag} {pasted} {debug}"):
                        assert run([*FLAGS[command], flag, pasted, *debug]) == 2
                        told = capsys.readouterr()
                        assert pasted not in told.out + told.err
                        assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    "held",
    [
        f"api_key_env: {PASTED}",
        f"api_key_env: [{PASTED}]",
        f"roles: {{merge: {{model: m, api_key_env: {PASTED}}}}}",
        f"roles: {{merge: {{model: m, api_key_env: {{a: {PASTED}}}}}}}",
    ],
)
def test_a_key_pasted_into_a_config_file_is_not_repeated(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text('{"question": "Why?"}\n', encoding="utf-8")
    Path("synth.yaml").write_text(f"{held}\n", encoding="utf-8")
    words = ["synthesize", "q.jsonl", "-o", "out", "--models", "m", "--base-url", "http://localhost:9/v1"]
    assert run([*words, "--config", "synth.yaml", "--debug"]) == 2
    told = capsys.readouterr()
    assert "api_key_env is not the name of an environment variable" in told.err
    assert PASTED not in told.out + told.err
    assert not Path("out").exists()


def test_python_does_not_repeat_a_pasted_key_either(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(f"model: openai/m\napi_key_env: {PASTED}\n")
    for attempt in (
        lambda: LLMConfig("m", api_key_env=PASTED),
        lambda: LLMConfig.from_yaml(path),
        lambda: make_rewarder("openai/m", api_key_env=PASTED),
        lambda: HttpRewards("http://localhost:9", token_env=PASTED),
    ):
        with pytest.raises(ConfigError, match="not the name of an environment variable") as caught:
            attempt()
        assert PASTED not in str(caught.value)


def test_a_variable_in_small_letters_is_taken_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("my_own_key", "planted-key")
    assert resolve(LLMConfig("openai/m", api_key_env="my_own_key")).key is not None
    with pytest.raises(ConfigError, match="no key for openai/m: set NOT_SET_HERE"):
        resolve(LLMConfig("openai/m", api_key_env="NOT_SET_HERE"))
