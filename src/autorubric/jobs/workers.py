"""The processes that work on one run, and what they share: one budget, one pace, one progress display."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from autorubric.errors import InputError
from autorubric.llm.budget import Budget
from autorubric.llm.executor import Executor
from autorubric.llm.http.lease import Leases
from autorubric.llm.records.accounts import Spent
from autorubric.llm.sharing import Sum, Traffic
from autorubric.runs.progress import Progress, RunState, StageState, reported
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.shard import WORKERS_FOLDER, Shard
from autorubric.runs.stopping import Stop

_MODULE = "autorubric.jobs.worker"
_MOST_RESTARTS = 3
"""How often the process of a shard is started again after it was killed."""

_PIECES = 4
"""Each process borrows at most this part, divided by the number of processes, of what is left of a budget."""


@dataclass(slots=True)
class Purse:
    """A budget that is lent to several processes: what they hold together never exceeds it.

    Example:
        >>> purse = Purse(Sum(100, math.inf), processes=2)
        >>> purse.lend("a", Sum(), Sum(30, 0)), purse.lend("b", Sum(), Sum(80, 0))
        (Sum(tokens=30, pico=0), None)
        >>> purse.give_back("a", Sum(20, 0))
        >>> purse.lend("b", Sum(), Sum(80, 0))
        Sum(tokens=80, pico=0)
    """

    limit: Sum
    processes: int = 1
    lent: dict[Any, Sum] = field(default_factory=dict)

    def lend(self, to: Any, held: Sum, missing: Sum) -> Sum | None:
        """More for a process that holds `held` and lacks `missing`; None if that is not left."""
        self.lent[to] = _finite(held)
        left = self.limit
        for one in self.lent.values():
            left = left.minus(one)
        if not missing.within(left):
            return None
        pieces = _PIECES * self.processes
        more = Sum(
            *(max(lack, here // pieces) if here < math.inf else 0 for lack, here in zip(missing, left, strict=True))
        )
        self.lent[to] = self.lent[to].plus(more)
        return more

    def give_back(self, by: Any, spare: Sum) -> None:
        """Take back what a process does not need."""
        self.lent[by] = self.lent.get(by, Sum()).minus(spare)


def _finite(one: Sum) -> Sum:
    return Sum(*(part if part < math.inf else 0 for part in one))


@dataclass(slots=True)
class ShardLink:
    """A shard and the process that runs it."""

    shard: Shard
    folder: Path
    number: int
    process: subprocess.Popen[bytes] | None = None
    words: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)
    state: RunState | None = None
    end: dict[str, Any] | None = None

    @property
    def account(self) -> Any:
        """Whose budget is lent."""
        return self.number

    def tell(self, **word: Any) -> None:
        """Send a word to the process; one that has ended hears nothing."""
        if self.process is None or self.process.stdin is None:
            return
        try:
            self.process.stdin.write(json.dumps(word).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            return


@dataclass
class WorkerProcesses:
    """Runs the shards of a run, one process each, until all have ended.

    A process that was killed is started again and resumes its shard. If this process is killed, the others notice
    and end.

    Attributes:
        command: of the run.
        settings: that shape the results, as JSON values.
        processes: how many.
        concurrency: the limit of concurrent requests, all processes together.
        usd: the budget in dollars.
        tokens: the budget in tokens.
        progress: called with the state of the whole run.
        stop: ends the run early.
        stopped: why it ended early.
        interrupted: whether a person stopped it.
    """

    command: str
    settings: Mapping[str, Any]
    processes: int
    concurrency: int
    usd: float | None = None
    tokens: int | None = None
    progress: Progress | None = None
    stop: Stop | None = None
    stopped: str | None = None
    interrupted: bool = False
    executor: Executor | None = None
    _shards: list[ShardLink] = field(default_factory=list)
    _purse: Purse = field(default_factory=lambda: Purse(Sum()))
    _notes: set[str] = field(default_factory=set)
    _returns: dict[int, tuple[asyncio.Future[None], set[int]]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _lending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _leases: Leases = field(default_factory=Leases)

    @classmethod
    def of(cls, settings: Any, passed: Mapping[str, Any], processes: int) -> Self:
        """The processes of a run with these settings.

        Args:
            settings: of the whole run.
            passed: settings of every process.
            processes: how many.
        """
        budget = (settings.concurrency, settings.budget_usd, settings.budget_tokens)
        return cls(settings.command, passed, processes, *budget, settings.progress, settings.stop)

    def order(self, one: ShardLink) -> dict[str, Any]:
        """What a process is to do."""
        share, rest = divmod(self.concurrency, self.processes)
        own: dict[str, Any] = {"out": str(one.folder), "shard": str(one.shard)}
        own |= {"concurrency": share + (one.number <= rest)}
        own |= {"budget_usd": self.usd, "budget_tokens": self.tokens}
        if "format" in self.settings:
            own["format"] = ()  # tables are written once, of the whole run
        settings = {name: value for name, value in {**self.settings, **own}.items() if value is not None}
        return {"command": self.command, "settings": settings, "processes": self.processes}

    async def run(self, directory: Path) -> Mapping[Shard, Path]:
        """Run all shards to their end, once; the directory of each.

        Raises:
            InputError: a key, a model or a price is wrong; nothing was spent.
        """
        if not self._shards:
            base, spent = _recorded(directory)
            self._purse = Purse(self._left(spent), self.processes)
            token = secrets.token_hex(4)
            place = directory / LEDGER_FOLDER / WORKERS_FOLDER
            for index in range(1, self.processes + 1):
                self._shards.append(ShardLink(Shard(index, self.processes), place / f"{token}-{index}", index))
            with (self.stop or Stop()).bound(self):
                async with reported(self.progress, self._state):
                    await asyncio.gather(*(self._supervise(one, base) for one in self._shards))
            self._conclude()
        return {one.shard: one.folder for one in self._shards}

    def interrupt(self) -> None:
        """Stop because a person asked for it."""
        self.interrupted = True
        for one in self._shards:
            one.tell(stop=True)

    def expect(self, digest: Callable[[], str]) -> None:
        """These processes read the same file; nothing is to be compared."""

    def clear(self) -> None:
        """Remove the directories of the shards, which the run directory has taken in."""
        for one in self._shards:
            shutil.rmtree(one.folder, ignore_errors=True)

    def _left(self, spent: Spent) -> Sum:
        return Budget(usd=self.usd, tokens=self.tokens, spent=spent).left()

    async def _supervise(self, one: ShardLink, base: Path | None) -> None:
        """Run the process of a shard until the shard has ended."""
        for attempt in range(_MOST_RESTARTS + 1):
            if attempt and self.interrupted:
                return
            with self._started(one, base) as process:
                while (word := await one.words.get()) is not None:
                    self._hear(one, word)
            code = process.returncode
            self._gone(one)
            if one.end is not None:
                return
            warnings.warn(f"the process of shard {one.shard} ended with status {code}", UserWarning, stacklevel=2)
        one.end = {"stopped": f"the process of shard {one.shard} ended {_MOST_RESTARTS + 1} times without a result"}

    @contextmanager
    def _started(self, one: ShardLink, base: Path | None) -> Iterator[subprocess.Popen[bytes]]:
        """The process of a shard; at the end of the block it hears that nobody listens, and is waited for."""
        command, pipe, loop = [sys.executable, "-m", _MODULE], subprocess.PIPE, asyncio.get_running_loop()
        # In a session of its own: Ctrl-C reaches this process alone, which tells the others.
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as one.process:
            one.tell(**self.order(one), base=None if base is None else str(base))
            listener = threading.Thread(target=_listen, args=(one, one.process, loop), daemon=True)
            listener.start()
            if self.interrupted:
                one.tell(stop=True)
            try:
                yield one.process
            finally:
                with suppress(OSError):  # it has ended
                    if one.process.stdin is not None:
                        one.process.stdin.close()
                listener.join()

    def _hear(self, one: ShardLink, word: dict[str, Any]) -> None:
        if "state" in word:
            stages = [StageState(**stage) for stage in word["state"].pop("stages")]
            one.state = RunState(**word["state"], stages=stages)
        for note in {word["note"]} - self._notes if "note" in word else ():
            self._notes.add(note)
            warnings.warn(note, UserWarning, stacklevel=2)
        if "traffic" in word:
            self._grant(word["traffic"])
        if "borrow" in word:
            task = asyncio.create_task(self._lend(one, *(Sum(*part) for part in word["borrow"])))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if "gave" in word:
            self._purse.give_back(one.account, Sum(*word["gave"]))
            self._returned(word["to"], one.number)
        if "end" in word:
            one.end = word["end"]
            self._purse.give_back(one.account, Sum(*word["spare"]))

    def _grant(self, traffic: Mapping[str, Sequence[int]]) -> None:
        """Divide the rates of endpoints, once a limit has shown, evenly among the processes that still run."""
        running = [one for one in self._shards if one.end is None]
        told = {name: Traffic(*counts) for name, counts in traffic.items()}
        rates = {
            name: rate / max(len(running), 1)
            for name, rate in self._leases.heard(told, time.monotonic()).items()
            if rate < math.inf
        }
        for one in running if rates else ():
            one.tell(rates=rates)

    async def _lend(self, one: ShardLink, held: Sum, missing: Sum) -> None:
        """Lend from what is left, or from what the other processes can spare."""
        async with self._lending:
            lent = self._purse.lend(one.account, held, missing)
            if lent is None:
                await self._collect(one)
                lent = self._purse.lend(one.account, held, missing)
        one.tell(lent=lent)

    async def _collect(self, one: ShardLink) -> None:
        """Take back what the other processes can spare."""
        others = {o.number for o in self._shards if o is not one and o.end is None}
        number, done = secrets.randbits(30), asyncio.get_running_loop().create_future()
        self._returns[number] = done, others
        for other in self._shards:
            if other.number in others:
                other.tell(give=number)
        if others:
            await done
        del self._returns[number]

    def _returned(self, number: int, by: int) -> None:
        done, others = self._returns.get(number, (None, set()))
        others.discard(by)
        if done is not None and not others and not done.done():
            done.set_result(None)

    def _gone(self, one: ShardLink) -> None:
        for number in list(self._returns):
            self._returned(number, one.number)

    def _conclude(self) -> None:
        """Say why the run ended early, if it did; raise what is wrong with the input if nothing was spent."""
        ends = [one.end or {} for one in self._shards]
        spent = self._spent_now()
        problems = dict.fromkeys(problem for end in ends for problem in end.get("problems", ()))
        if problems and not (spent.tokens or spent.unpriced) and not self.interrupted:
            self.clear()
            raise InputError(problems)
        reasons = dict.fromkeys(filter(None, [*problems, *(end.get("stopped") for end in ends)]))
        self.interrupted |= any(end.get("interrupted") for end in ends)
        self.stopped = "interrupted" if self.interrupted else next(iter(reasons), None)
        if self.stopped is not None and self.stopped.startswith("budget of "):
            head = self.stopped.partition(" after ")[0]
            self.stopped = (
                f"{head} by {self.processes} processes: {spent.tokens:,} tokens, ${spent.cost:.4g} spent in this "
                "session; a higher budget goes on from here"
            )

    def _spent_now(self) -> Spent:
        """What this session has spent."""
        spent = Spent()
        for one in self._shards:
            spent = spent.plus(_spent(one.folder))
        return spent

    def _state(self) -> RunState:
        """The progress of all processes together."""
        states = [one.state for one in self._shards if one.state is not None]
        stages: dict[str, StageState] = {}
        for stage in (stage for state in states for stage in state.stages):
            known = stages.get(stage.name, StageState(stage.name, 0, 0, 0, stage.unit))
            sums = (known.done + stage.done, known.in_flight + stage.in_flight, known.failed + stage.failed)
            stages[stage.name] = StageState(stage.name, *sums, stage.unit)
        costs = [state.cost for state in states]
        return RunState(
            rows=sum(state.rows for state in states),
            finished=sum(state.finished for state in states),
            stages=list(stages.values()),
            calls=sum(state.calls for state in states),
            reused=sum(state.reused for state in states),
            tokens=sum(state.tokens for state in states),
            cost=None if None in costs else math.fsum(cost for cost in costs if cost is not None),
            in_flight=sum(state.in_flight for state in states),
            retries=sum(state.retries for state in states),
            rate_limited=sum(state.rate_limited for state in states),
            stand_ins=list(dict.fromkeys(text for state in states for text in state.stand_ins)),
        )


def _recorded(directory: Path) -> tuple[Path | None, Spent]:
    """The ledger of a run directory, if calls are recorded in it, and what they cost."""
    with open_ledger(directory) as ledger:
        return (directory / LEDGER_FOLDER if ledger.count else None), ledger.spent()


def _spent(folder: Path) -> Spent:
    with open_ledger(folder) as ledger:
        return ledger.spent()


def _listen(one: ShardLink, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Pass on what a process says, and None when it has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        try:
            word = json.loads(line)
        except ValueError:  # torn by a kill
            continue
        loop.call_soon_threadsafe(one.words.put_nowait, word)
    loop.call_soon_threadsafe(one.words.put_nowait, None)
