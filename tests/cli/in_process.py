"""An endpoint and commands in the test's own process, for the parts of a test that kill nothing.

To start a process takes longer than all that it does in these tests.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from autorubric.cli.app import run
from autorubric.testing.endpoint.__main__ import make_endpoint


class NearEndpoint:
    """A `LoopbackProcess` in a thread: it outlives a killed client as well."""

    def __init__(self, *options: str) -> None:
        self._endpoint = make_endpoint(options)
        self._thread = self._endpoint.in_thread()

    @property
    def base_url(self) -> str:
        return self._endpoint.base_url

    def stats(self) -> dict[str, Any]:
        return self._endpoint.counts.summarize()

    def calls_by_body(self) -> dict[str, int]:
        return dict(self._endpoint.counts.calls_by_body)

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.__exit__(kind, error, trace)


class Finished(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def finish(command: Sequence[str]) -> Finished:
    """The end of `PYTHON -m autorubric ...`, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(list(command[3:]))
    return Finished(status, out.getvalue(), err.getvalue())
