"""The worker processes of one run, with one budget, one pace and one progress display."""

import asyncio
import math
import secrets
import shutil
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autorubric.errors import InputError, warn
from autorubric.jobs.lending import Lender, SharedBudget
from autorubric.jobs.sharding import load_job
from autorubric.jobs.talk import Child, Talk, run_ordered
from autorubric.llm.budget import Budget
from autorubric.llm.records.accounts import Spending
from autorubric.llm.sharing import Amount
from autorubric.runs.progress import RunState, StageState
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.shard import WORKERS_FOLDER, Shard, expected_input
from autorubric.runs.stopping import TERMINATED_WITHIN, Stop, StoppableRun

_MODULE = "autorubric.jobs.workers"
_MOST_RESTARTS = 3
"""Maximum restarts of a shard's process after it was killed."""


@dataclass(slots=True, eq=False)
class ShardChild(Child):
    """A shard and the process that runs it."""

    shard: Shard
    folder: Path
    number: int
    state: RunState | None = None
    end: dict[str, Any] | None = None

    @property
    def name(self) -> Hashable:
        """The number of the shard."""
        return self.number


@dataclass
class WorkerProcesses(StoppableRun):
    """Runs the shards of a run, one process each, until all have ended.

    A killed process is restarted and resumes its shard. If this process is killed, its workers detect that and exit.

    Attributes:
        settings: the settings of the whole run.
        passed: the settings of every process, as JSON values.
        processes: the number of processes.
        digest: returns the digest of the input.
    """

    settings: Any
    passed: Mapping[str, Any]
    processes: int
    digest: Callable[[], str | None] = lambda: None
    _shards: list[ShardChild] = field(default_factory=list)
    _lender: Lender = field(default_factory=lambda: Lender(SharedBudget(Amount()), list))
    _notes: set[str] = field(default_factory=set)
    _base: Path | None = None  # the ledger of an earlier session, whose replies all processes find

    async def run(self, directory: Path) -> Mapping[Shard, Path]:
        """Run all shards once; return their directories.

        Raises:
            InputError: a key, a model or a price is wrong; nothing was spent.
        """
        if not self._shards:
            with open_ledger(directory) as ledger:
                self._base = directory / LEDGER_FOLDER if ledger.count else None
                self._lender = Lender(
                    SharedBudget(self._compute_left(ledger.sum_spent()), self.processes), self._list_living
                )
            token = secrets.token_hex(4)
            place = directory / LEDGER_FOLDER / WORKERS_FOLDER
            for index in range(1, self.processes + 1):
                self._shards.append(ShardChild(Shard(index, self.processes), place / f"{token}-{index}", index))
            await self.run_to_end(self.settings.progress, self.settings.stop, self._build_state)
            self._conclude()
        return {worker.shard: worker.folder for worker in self._shards}

    async def execute(self) -> None:
        """Run the process of each shard until it has ended; on an error, stop the others and wait for them."""
        async with asyncio.TaskGroup() as group:
            for worker in self._shards:
                group.create_task(self._supervise(worker))

    def interrupt(self) -> None:
        """Stop at the user's request."""
        self.interrupted = True
        for worker in self._shards:
            worker.tell(stop=self.within)

    def count_in_flight(self) -> int:
        """Return how many calls models are working on."""
        return self._build_state().in_flight

    def expect(self, digest: Callable[[], str]) -> None:
        """Set the function that computes the digest of the input, which all processes must read."""
        self.digest = digest

    def clear(self) -> None:
        """Remove the directories of the shards after they are merged."""
        for worker in self._shards:
            shutil.rmtree(worker.folder, ignore_errors=True)

    def _compute_left(self, spent: Spending) -> Amount:
        return Budget(usd=self.settings.budget_usd, tokens=self.settings.budget_tokens, spent=spent).compute_left()

    async def _supervise(self, worker: ShardChild) -> None:
        for attempt in range(_MOST_RESTARTS + 1):
            if attempt and self.interrupted:
                return
            with worker.started(_MODULE, self._build_order(worker)) as process:
                if self.interrupted:
                    worker.tell(stop=self.within)
                try:
                    while (message := await worker.words.get()) is not None:
                        self._read_message(worker, message)
                except asyncio.CancelledError:
                    worker.tell(stop=0.0)
                    raise
            code = process.returncode
            self._lender.drop(worker)
            if worker.end is not None:
                return
            again = attempt < _MOST_RESTARTS and not self.interrupted
            warn(f"the process of shard {worker.shard} ended with status {code}{'; it is restarted' * again}")
        worker.end = {
            "stopped": f"the process of shard {worker.shard} ended {_MOST_RESTARTS + 1} times without a result"
        }

    def _build_order(self, worker: ShardChild) -> dict[str, Any]:
        """Return the order for the process of a shard."""
        share, rest = divmod(self.settings.concurrency, self.processes)
        own: dict[str, Any] = {
            name: getattr(self.settings, name) for name in ("budget_usd", "budget_tokens", "again")
        }
        own |= {"out": str(worker.folder), "shard": str(worker.shard), "concurrency": share + (worker.number <= rest)}
        if "format" in self.passed:
            own["format"] = ()  # tables are written once, for the whole run
        settings = {name: value for name, value in {**self.passed, **own}.items() if value is not None}
        return {
            "command": self.settings.command,
            "settings": settings,
            "processes": self.processes,
            "left": self._lender.purse.compute_left(),
            "input": self.digest(),
            "base": None if self._base is None else str(self._base),
        }

    def _read_message(self, worker: ShardChild, message: dict[str, Any]) -> None:
        if "state" in message:
            stages = [StageState(**stage) for stage in message["state"].pop("stages")]
            worker.state = RunState(**message["state"], stages=stages)
        for note in {message["note"]} - self._notes if "note" in message else ():
            self._notes.add(note)
            warn(note)
        if "end" in message:
            worker.end = message["end"]
            self.needed = max(self.needed, Amount(*message["needed"]))
        self._lender.read_message(worker, message)

    def _list_living(self) -> list[ShardChild]:
        return [worker for worker in self._shards if worker.end is None]

    def _conclude(self) -> None:
        """Note why the run ended early, if it did; raise input errors if nothing was spent."""
        ends = [worker.end or {} for worker in self._shards]
        problems = dict.fromkeys(problem for end in ends for problem in end.get("problems", ()))
        if problems and not self.interrupted:
            spent = self._read_spent()
            if not (spent.tokens or spent.unpriced):
                self.clear()
                raise InputError(problems, "\n".join(dict.fromkeys(end.get("advice", "") for end in ends)).strip())
        reasons = dict.fromkeys(filter(None, [*problems, *(end.get("stopped") for end in ends)]))
        self.advice = next(filter(None, (end.get("advice") for end in ends)), "")
        self.interrupted |= any(end.get("interrupted") for end in ends)
        self.stopped = "interrupted" if self.interrupted else next(iter(reasons), None)
        self.note_abandoned(sum(end.get("abandoned", 0) for end in ends))

    def _read_spent(self) -> Spending:
        spent = Spending()
        for worker in self._shards:
            with open_ledger(worker.folder) as ledger:
                spent = spent.plus(ledger.sum_spent())
        return spent

    def _build_state(self) -> RunState:
        states = [worker.state for worker in self._shards if worker.state is not None]
        stages: dict[str, StageState] = {}
        for stage in (stage for state in states for stage in state.stages):
            known = stages.get(stage.name, StageState(stage.name, 0, 0, 0, stage.unit))
            sums = (known.done + stage.done, known.in_flight + stage.in_flight, known.failed + stage.failed)
            stages[stage.name] = StageState(stage.name, *sums, stage.unit)
        costs = [state.cost for state in states]
        counts = ("rows", "finished", "calls", "reused", "tokens", "in_flight", "retries", "rate_limited")
        return RunState(
            **{name: sum(getattr(state, name) for state in states) for name in counts},
            stages=list(stages.values()),
            cost=None if None in costs else math.fsum(cost for cost in costs if cost is not None),
            stand_ins=list(dict.fromkeys(text for state in states for text in state.stand_ins)),
            outage=next((state.outage for state in states if state.outage), ""),
        )


_BACKSTOP = TERMINATED_WITHIN + 20.0
"""Seconds after which a process without its parent is forced to end."""


async def run_shard(talk: Talk, order: dict[str, Any]) -> dict[str, Any]:
    """Run the shard that the parent requests; return its result."""
    stop = Stop()

    def receive(message: dict[str, Any]) -> None:
        if "stop" in message:
            stop.within = message["stop"]
            stop()

    def end_soon() -> None:
        stop.within = TERMINATED_WITHIN
        stop()

    def report(state: RunState) -> None:
        talk.say(state=asdict(state))

    expected_input.set(order["input"])
    base = Path(order["base"]) if order["base"] else None
    talk.share(order["processes"], base, left=Amount(*order["left"]))
    talk.listen(receive, end_soon, _BACKSTOP)
    model, job = load_job(order["command"])
    result = await job(model.from_values({**order["settings"], "progress": report, "stop": stop}))
    return _describe_end(result) | ({"abandoned": stop.abandoned} if stop.abandoned else {})


def _describe_end(result: Any) -> dict[str, Any]:
    summary = getattr(result, "summary", None)
    stopped = getattr(result, "stopped", None) or None
    interrupted = getattr(result, "interrupted", False) or getattr(summary, "interrupted", False)
    advice = getattr(result, "advice", "") or getattr(summary, "advice", "")
    return {"stopped": stopped, "interrupted": interrupted, **({"advice": advice} if advice else {})}


if __name__ == "__main__":
    run_ordered(run_shard)
