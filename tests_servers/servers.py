"""The servers: how each is started, under which names it serves models, and what it is known to do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import yaml

HERE = Path(__file__).parent
ROOT = Path(sys.prefix).parent
KEY = "sk-planted-key-of-the-servers"
SECONDS_TO_START = 180

CRITERIA = json.dumps(
    {"criteria": [{"title": f"T{n}", "description": f"Names fact {n}.", "weight": n} for n in (3, 5, 7)]}
)
"""What a mock says where criteria are asked for."""


def verdict(status: str) -> str:
    """What a mock says where it is asked for a verdict."""
    return json.dumps({"explanation": "A mock says so.", "criterion_status": status})


SAID = {
    "writer": "Ice floats because it is less dense than water.",
    "drafter": CRITERIA,
    "says-met": verdict("MET"),
    "says-unmet": verdict("UNMET"),
    "chatty": "I am a mock and know nothing.",
}
"""The models of the servers that say what they are told to."""


@dataclass(frozen=True)
class Server:
    """One server.

    Attributes:
        name: of its environment.
        start: its command, given a folder to write to and its port.
        judges: two models to grade with.
        writer: the model that writes references and responses.
        drafter: the model that writes criteria.
        env: variables that it is started with.
        prepare: what is done in its folder before it starts.
        answers_any_name: whether it serves models under any name.
        failing: models that fail, each with a piece of the server's own words.
    """

    name: str
    start: Callable[[Path, int], list[str]]
    judges: tuple[str, str]
    writer: str
    drafter: str
    env: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], object] = lambda folder: None
    answers_any_name: bool = True
    failing: dict[str, str] = field(default_factory=dict)

    @property
    def says_what_it_is_told(self) -> bool:
        """Whether it serves the models of `SAID`."""
        return self.writer in SAID


def _in(name: str, program: str) -> str:
    return str(ROOT / name / "bin" / program)


def _tiny_model(folder: Path) -> None:
    subprocess.run(
        [_in("transformers", "python"), str(HERE / "tiny_transformers.py"), str(folder / "tiny")], check=True
    )


def _litellm_config(folder: Path) -> None:
    failing = {"limited": "litellm.RateLimitError", "broken": "litellm.InternalServerError"}
    models = [
        {"model_name": name, "litellm_params": {"model": "openai/gpt-4o", "api_key": "mock", "mock_response": text}}
        for name, text in {**SAID, **failing}.items()
    ]
    content = {"model_list": models, "general_settings": {"master_key": KEY}, "router_settings": {"num_retries": 0}}
    (folder / "litellm.yaml").write_text(yaml.safe_dump(content))


def _mockllm_config(folder: Path) -> None:
    content = {"responses": {"hi": "hello"}, "defaults": {"unknown_response": SAID["chatty"]}}
    (folder / "mock.yaml").write_text(yaml.safe_dump(content))


def _aimock_config(folder: Path) -> None:
    fixtures: list[Any] = [{"match": {"model": name}, "response": {"content": text}} for name, text in SAID.items()]
    slow = {"error": {"message": "Throttling.RateQuota: too fast", "type": "throttling"}, "status": 400}
    broken = {"error": {"message": "The engine has crashed; restart it", "type": "server_error"}, "status": 500}
    fixtures += [
        {"match": {"model": "limited"}, "response": slow},
        {"match": {"model": "broken"}, "response": broken},
    ]
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": fixtures}))


_OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
_MOCKED: dict[str, Any] = {
    "judges": ("says-met", "says-unmet"),
    "writer": "writer",
    "drafter": "drafter",
    "answers_any_name": False,
}

SERVERS = (
    Server(
        "llamacpp",
        lambda folder, port: [_in("llamacpp", "python"), str(HERE / "tiny_gguf.py"), str(folder), str(port)],
        ("tiny-random", "another-name"),
        "tiny-random",
        "tiny-random",
    ),
    Server(
        "transformers",
        lambda folder, port: [
            *(_in("transformers", "transformers"), "serve", str(folder / "tiny"), "--host", "127.0.0.1"),
            *("--port", str(port), "--device", "cpu"),
        ],
        ("{folder}/tiny", "{folder}/tiny@main"),
        "{folder}/tiny",
        "{folder}/tiny",
        _OFFLINE,
        _tiny_model,
        answers_any_name=False,
    ),
    Server(
        "litellm",
        lambda folder, port: [
            *(_in("litellm", "litellm"), "--config", str(folder / "litellm.yaml")),
            *("--host", "127.0.0.1", "--port", str(port)),
        ],
        prepare=_litellm_config,
        failing={"limited": "this is a mock rate limit error", "broken": "this is a mock internal server error"},
        **_MOCKED,
    ),
    Server(
        "llm-katan",
        lambda folder, port: [
            *(_in("llm-katan", "llm-katan"), "--model", "echo-model", "--backend", "echo", "--host", "127.0.0.1"),
            *("--port", str(port), "--providers", "openai,azure_openai", "--validate-keys"),
            *("--api-keys", f"openai={KEY},azure_openai={KEY}", "--stats-file", str(folder / "stats.json")),
        ],
        ("echo-model", "another-name"),
        "echo-model",
        "echo-model",
    ),
    Server(
        "mockllm",
        lambda folder, port: [
            *(_in("mockllm", "mockllm"), "start", "-r", str(folder / "mock.yaml"), "-h", "127.0.0.1", "-p", str(port))
        ],
        ("a", "b"),
        "a",
        "a",
        prepare=_mockllm_config,
    ),
    Server(
        "aimock",
        lambda folder, port: [
            *(str(ROOT / "aimock" / "node_modules" / ".bin" / "llmock"), "-p", str(port), "--strict"),
            *("-f", str(folder / "fixtures.json")),
        ],
        prepare=_aimock_config,
        failing={"limited": "Throttling.RateQuota: too fast", "broken": "The engine has crashed; restart it"},
        **_MOCKED,
    ),
    Server(
        "vllm",
        lambda folder, port: [
            _in("vllm", "vllm"),
            "serve",
            str(folder / "tiny"),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ],
        ("{folder}/tiny", "{folder}/tiny@main"),
        "{folder}/tiny",
        "{folder}/tiny",
        _OFFLINE,
        _tiny_model,
        answers_any_name=False,
    ),
    Server(
        "sglang",
        lambda folder, port: [
            *(_in("sglang", "python"), "-m", "sglang.launch_server", "--model-path", str(folder / "tiny")),
            *("--host", "127.0.0.1", "--port", str(port)),
        ],
        ("{folder}/tiny", "another-name"),
        "{folder}/tiny",
        "{folder}/tiny",
        _OFFLINE,
        _tiny_model,
    ),
)


@contextmanager
def running(server: Server, folder: Path) -> Iterator[str]:
    """The server's address without a path, while it runs.

    Raises:
        RuntimeError: it ended, or did not answer in time; with the last lines that it wrote.
    """
    server.prepare(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    environment = {**os.environ, **server.env, "HOME": str(folder)}
    with log.open("w") as output:
        process = subprocess.Popen(
            server.start(folder, port), stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            _wait_for(process, f"http://127.0.0.1:{port}", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    give_up = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with urlopen(f"{url}/v1/models", timeout=5):
                return
        except HTTPError:  # any status is an answer
            return
        except OSError:
            time.sleep(0.3)
    last = log.read_text(encoding="utf-8").splitlines()[-20:]
    raise RuntimeError(f"{process.args!r} did not come up:\n" + "\n".join(last))
