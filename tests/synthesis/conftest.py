"""A loopback endpoint, and the command run against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint


def model_flags(base_url: str, prefix: str = "m") -> list[str]:
    """Flags that give every slot a model of its own name at one endpoint."""
    flags: list[str] = []
    for slot in ("reference", "response-a", "response-b", "rubric-a", "rubric-b", "merge", "augment"):
        part, _, letter = slot.partition("-")
        name = f"{part}-model-{letter}" if letter else f"{part}-model"
        flags += [f"--{name}", f"{prefix}-{slot}", f"--{slot}-base-url", base_url]
    return flags


def jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def write_queries(path: Path, *questions: str, ids: bool = True) -> Path:
    rows = [{"id": f"q{i}", "question": text} if ids else {"question": text} for i, text in enumerate(questions)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@dataclass
class Bench:
    """A directory with an input file and an endpoint to run against."""

    folder: Path
    endpoint: LoopbackEndpoint

    @property
    def input(self) -> Path:
        return self.folder / "q.jsonl"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def asked(self) -> list[str]:
        """The model name of every request so far, in order."""
        return [received.body["model"] for received in self.endpoint.received]

    def write(self, *questions: str, ids: bool = True) -> None:
        write_queries(self.input, *questions, ids=ids)

    def synthesize(self, *more: str, prefix: str = "m") -> int:
        flags = ["--id-column", "id", "--retry", "1", *model_flags(self.endpoint.base_url, prefix)]
        return run(["synthesize", str(self.input), "--out", str(self.out), *flags, *more])

    def rows(self, name: str = "final.jsonl") -> list[dict[str, Any]]:
        return jsonl(self.out / name)

    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((self.out / "manifest.json").read_text())
        return manifest


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Makes a bench; keyword arguments go to the endpoint."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(*questions: str, **options: Any) -> Bench:
            endpoint = stack.enter_context(LoopbackEndpoint(**options).in_thread())
            made = Bench(tmp_path, endpoint)
            if questions:
                made.write(*questions)
            return made

        yield make
