"""SIGKILL at random times over every step of batches: `python -m benchmarks.soak.batches 10` kills ten times.

The sessions are forked from this process, which has imported the package, so that kills fall on the steps of a batch
rather than on imports.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import autorubric
from autorubric import Criterion, Rubric
from autorubric.llm.batches.batch_store import BatchStore
from autorubric.llm.records.ledger import Ledger
from benchmarks.batch_services.endpoint import BatchProcess
from benchmarks.soak.work import ENVIRONMENT, Row

DIALECTS = {
    "openai": ("/v1", "OPENAI"),
    "anthropic": ("/v1", "ANTHROPIC"),
    "gemini": ("/v1beta/openai", "GEMINI"),
    "mistral": ("/v1", "MISTRAL"),
    "openrouter": ("/api/v1", "OPENROUTER"),
    "together": ("/v1", "TOGETHER"),
}
FAULTS = ("seconds=0.2", "shuffle=true", "duplicates=true", "cut_downloads=2", "lost_creations=3")
KILLS = 200
ITEMS, CRITERIA, SIZE = 12, 2, 10
INPUT, OUTPUT = 2.0, 8.0
"""Dollars per million tokens at list price; a batch costs half."""


@dataclass
class Found:
    """The effects of the kills.

    Attributes:
        kills: sessions that were killed.
        states: in which state the last batch was on the disk when the kill came, and how often.
        runs: runs brought to their end.
        lost: requests without a reply in the ledger of a finished run.
        asked_twice: requests that were in two batches.
        paid_twice: requests that ran in two batches.
        paid: requests that ran; `collected`: replies in the ledgers.
        over_budget: runs that cost more than their budget.
        unlike: runs whose cost is not that of their tokens.
        longest: seconds of the longest session.
    """

    kills: int = 0
    states: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    lost: int = 0
    asked_twice: int = 0
    paid_twice: int = 0
    paid: int = 0
    collected: int = 0
    over_budget: int = 0
    unlike: int = 0
    longest: float = 1.0

    @property
    def held(self) -> bool:
        """Whether nothing was lost, paid twice or overspent."""
        wrong = self.lost, self.asked_twice, self.paid_twice, self.over_budget, self.unlike
        return not any(wrong) and self.paid == self.collected > 0


def rows() -> Iterator[Row]:
    """One line for the soak; the kills happen in a process of their own, which forks."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(KILLS)], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    held, said = done.returncode == 0, done.stdout.strip() or done.stderr[-300:]
    yield Row("a batch is paid once and collected", "SIGKILL, grade --batch", KILLS, said, held)


def soaked(kills: int) -> Found:
    """The books after that many kills, run by run and dialect by dialect."""
    found, rng = Found(), random.Random(2026)
    names = list(DIALECTS)
    _import_everything()
    while found.kills < kills:
        name = names[found.runs % len(names)]
        options = [word for fault in FAULTS for word in ("--batch", fault)]
        with tempfile.TemporaryDirectory() as folder, BatchProcess(*options) as endpoint:
            run = _Run(Path(folder), name, endpoint.base_url.removesuffix("/v1"))
            run.brought_to_its_end(found, kills, rng)
            run.audited(found, endpoint)
    return found


class _Run:
    """A run directory, resumed until the run is complete."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        path, variable = DIALECTS[name]
        os.environ[f"{variable}_BASE_URL"], os.environ[f"{variable}_API_KEY"] = url + path, "sk-soak"
        self.out = folder / "run"
        self._model = f"{name}/judge"
        prices = folder / "prices.json"
        prices.write_text(json.dumps({self._model: {"input": INPUT, "output": OUTPUT}}), encoding="utf-8")
        self._settings: dict[str, Any] = {
            "rubric": Rubric([Criterion(name=f"c{n}", requirement=f"States fact {n}.") for n in range(CRITERIA)]),
            "judge": self._model,
            "out": str(self.out),
            "prices": str(prices),
            "batch": SIZE,
            "batch_poll": 0.05,
        }
        whole = _forked(self._worst_case)
        # Less than the worst case of all requests together, so that the last ones wait for what the first cost.
        self.budget = 0.7 * float(whole)
        self._settings["budget_usd"] = self.budget

    def _graded(self, **more: Any) -> Any:
        return autorubric.grade([f"Answer number {n}." for n in range(ITEMS)], **{**self._settings, **more})

    def _worst_case(self) -> str:
        row = self._graded(dry_run=True).estimate[0]
        return str(row.model.cost(row.most))

    def brought_to_its_end(self, found: Found, kills: int, rng: random.Random) -> None:
        """Kill sessions until one comes to its end, or there were enough kills."""
        while True:
            started = time.monotonic()
            child = os.fork()
            if not child:
                _in_child(self._graded)
            wait = rng.uniform(0.05, 1.2 * found.longest)
            while time.monotonic() - started < wait or found.kills >= kills:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    if status:
                        raise SystemExit(f"a session ended with {os.waitstatus_to_exitcode(status)}")
                    found.runs += 1
                    found.longest = max(found.longest, time.monotonic() - started)
                    return
                time.sleep(0.005)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            found.kills += 1
            found.states[self._state()] += 1

    def _state(self) -> str:
        records = BatchStore(self.out / "ledger").read_records() if (self.out / "ledger").exists() else []
        if not records:
            return "before"
        last = records[-1]
        return "uploaded" if last.state == "planned" and last.file else last.state

    def audited(self, found: Found, endpoint: BatchProcess) -> None:
        """Compare the ledger with the endpoint's counts."""
        books = endpoint.batches()
        with Ledger.open(self.out / "ledger") as ledger:
            replies = sum(total.calls - total.failed for total in ledger.add_up())
            spent = ledger.sum_spent()
            usage = [total.usage for total in ledger.add_up()]
        cost = sum(one.prompt_tokens * INPUT + one.completion_tokens * OUTPUT for one in usage) / 2 / 1_000_000
        found.lost += ITEMS * CRITERIA - replies
        found.asked_twice += books["asked_twice"]
        found.paid_twice += books["paid_twice"]
        found.paid += books["paid"]
        found.collected += replies
        found.over_budget += spent.cost > self.budget
        found.unlike += abs(spent.cost - cost) > 1e-9


def _import_everything() -> None:
    """Import what a session imports on its way, so that forks need not."""
    import aiohttp  # noqa: F401

    import autorubric.llm.batches.batch_queue
    import autorubric.llm.batches.model  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        autorubric.grade(
            ["One."], rubric=Rubric([Criterion(requirement="Is brief.")]), judge="builtin/offline", out=folder
        )


def _in_child(work: Any) -> None:
    """Run in a forked process, which ends here."""
    status = 1
    with suppress(BaseException):
        result = work()
        status = 0 if result.successful_items == ITEMS else 3
    os._exit(status)


def _forked(work: Any) -> str:
    """The result of a function in a separate process, so that forks share no connection of this one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.write(writing, work().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


if __name__ == "__main__":
    books = soaked(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS)
    print(json.dumps(books.__dict__))
    sys.exit(not books.held)
