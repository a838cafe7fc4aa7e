"""One endpoint, one run directory, and the tables of what can go wrong between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.cli.app import run
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure
from autorubric.testing import LoopbackEndpoint
from tests.faults.commands import BAD, Command, names

Meets: TypeAlias = Callable[[dict[str, Any]], str | None]
"""Which fault a request meets; None for an answer."""
KEY = "sk-planted-in-the-fault-matrix"
RETRIES = 1

SENT_AGAIN = {
    **dict.fromkeys(("429", "429-seconds", "429-date", "429-nan"), "rate_limit"),
    **dict.fromkeys(("500", "502", "503", "529", "no-choices", "error-in-200"), "server"),
    **dict.fromkeys(("reset", "truncated-body", "huge-body", "html"), "network"),
    **dict.fromkeys(("hang", "endless-body"), "timeout"),
}
"""Faults that pass, by what they are called when they do not."""
REFUSED = {"413": "rejected", "422": "rejected", "400-content-filter": "refusal"}
"""Faults of one request that no second attempt mends."""
ENDING = {"401": 2, "403": 2, "404": 2, "redirect": 2, "402": 1, "429-quota": 1, "429-huge": 1}
"""Faults that every request would meet, and the exit status: 2 where the command line is wrong."""
UNUSABLE = ("wrong-schema", "broken-json", "prose", "refusal", "content-filter", "empty", "null", "length")
"""Replies that were paid for and do not hold what was asked."""


@dataclass
class Scene:
    """One endpoint, one run directory, and what commands have printed so far."""

    folder: Path
    endpoint: LoopbackEndpoint
    meets: Meets
    read: Callable[[], Any]
    told: str = ""
    timeout: float = 30.0  # a busy machine answers late, so it is short only where a fault takes all of it

    @property
    def flags(self) -> list[str]:
        return ["--retry", str(RETRIES), "--timeout", str(self.timeout), "-j", "4"]

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def fault(self, body: dict[str, Any]) -> str | None:
        return self.meets(body)

    def run(self, command: Command) -> int:
        status = run(command.words(self.folder, self.flags))
        printed = self.read()
        self.told += printed.out + printed.err
        assert "Traceback" not in self.told
        return status

    def failures(self) -> list[Failure]:
        with Ledger.open(self.out / "ledger") as ledger:
            return [call.failure for call in ledger.read_failures() if call.failure is not None]

    def good_answers(self) -> int:
        counts = self.endpoint.counts
        return counts.requests - counts.by_fault.total()

    def assert_finishes(self, command: Command) -> None:
        """Without faults the same command completes every row, and what was answered is not asked again."""
        self.meets, self.timeout = lambda body: None, 30.0
        assert self.run(command) == 0, self.told
        assert command.whole(self.out) == names()
        assert command.failed(self.out) == []
        assert self.good_answers() == command.calls
        self.assert_no_secret()

    def assert_no_secret(self) -> None:
        assert KEY not in self.told
        for path in self.folder.rglob("*"):
            assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
        assert self.endpoint.counts.elsewhere == 0


def in_one_row(fault: str, is_bad: Callable[[str], bool] = lambda prompt: BAD in prompt) -> Meets:
    return lambda body: fault if is_bad(str(body["messages"])) else None
