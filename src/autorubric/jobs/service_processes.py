"""A service of several processes behind one port: the main one accepts, lends budget and restarts the others."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from autorubric.background import on_shutdown
from autorubric.errors import AutorubricError, InputError, warn
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.jobs.lending import Lender, SharedBudget
from autorubric.jobs.talk import Child
from autorubric.llm.billing import Activity
from autorubric.llm.budget import Budget
from autorubric.llm.http.access import listening_at
from autorubric.llm.records.lock import PROCESSES_FOLDER
from autorubric.llm.sharing import Amount
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.stopping import Stop
from autorubric.training.service.door import Board, Door
from autorubric.training.service.metrics import ServiceMetrics
from autorubric.training.service.reward_server import (
    ServiceSettings,
    describe_service,
    held_service,
    open_service_ledger,
    shown_as_running,
)

_MODULE = "autorubric.jobs.service_worker"
_MOST_FAILED_STARTS = 3
"""Maximum consecutive starts that fail before the process serves."""
_ASKED = 2.0
"""Seconds to wait for a process to report its counts; after that, its last report is used."""


@dataclass(slots=True, eq=False)
class _Worker(Child):
    """One of the processes that compute rewards.

    Attributes:
        place: its index on the board.
        starts: how often it was started.
        failed_starts: consecutive starts that ended before it served.
        channel: the socket over which it receives connections while it serves.
        counts: its last report.
        end: how it ended.
    """

    place: int
    starts: int = 0
    failed_starts: int = 0
    channel: socket.socket | None = None
    counts: dict[str, Any] | None = None
    end: dict[str, Any] | None = None

    @property
    def name(self) -> tuple[int, int]:
        """Its name, unique among all processes at its place."""
        return self.place, self.starts


@dataclass
class ServiceProcesses:
    """Runs the processes of a service until it is stopped.

    Attributes:
        settings: the settings of every process, as JSON values.
        processes: the number of processes.
        concurrency: the limit of concurrent requests, all processes together.
        left: the remaining budget.
        stopped: why a process stopped computing rewards; None if none did.
    """

    settings: Mapping[str, Any]
    processes: int
    concurrency: int
    left: Amount = field(default_factory=Amount)
    stopped: str | None = None
    _workers: list[_Worker] = field(default_factory=list)
    _past: ServiceMetrics = field(default_factory=ServiceMetrics)
    _ending: bool = False
    _problem: AutorubricError | None = None
    _asked: dict[int, tuple[set[int], asyncio.Event]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _notes: set[str] = field(default_factory=set)

    @property
    def executor(self) -> ServiceProcesses:
        """The object that counts calls; see `snapshot`."""
        return self

    def snapshot(self) -> dict[str, Activity]:
        """Return the activity of all processes so far, by role."""
        return self._sum_counts().activity

    async def run(self, listening: socket.socket, announce: Callable[[], object], stop: Stop) -> None:
        """Serve until SIGTERM, Ctrl-C or `stop`, then let processes answer open requests; a second signal kills them.

        Raises:
            InputError: no process can serve with these settings.
        """
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile())
            self._board, self._file = Board.create(file, self.processes), file.fileno()
            self._lender = Lender(SharedBudget(self.left, self.processes), self._list_living)
            self._door, self._announce = Door(listening), announce
            stack.callback(self._door.close)
            stack.enter_context(on_shutdown(self._end))
            stack.enter_context(stop.heard_by(self._end))
            self._workers = [_Worker(place=place) for place in range(self.processes)]
            await asyncio.gather(*(self._supervise(worker) for worker in self._workers))
        if self._problem is not None:
            raise self._problem

    def _end(self) -> None:
        """Let all processes answer open requests and end."""
        self._ending = True
        self._door.close()
        for worker in self._workers:
            worker.tell(stop=True)

    def _list_living(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.channel is not None]

    async def _supervise(self, worker: _Worker) -> None:
        """Run a process until the service ends; restart it if it is killed."""
        while not self._ending:
            try:
                code = await self._run_once(worker)
            except OSError as error:  # the system has no processes or files left; the others answer and end
                self._fail(AutorubricError(f"process {worker.place + 1} of the service did not start: {error}"))
                break
            if self._ending or self._problem is not None:
                break
            worker.failed_starts += worker.end is None or "counts" not in worker.end
            why = (worker.end or {}).get("stopped") or f"ended with status {code}"
            if problems := (worker.end or {}).get("problems"):
                self._fail(InputError(problems))
            elif worker.failed_starts > _MOST_FAILED_STARTS:
                self._fail(AutorubricError(f"process {worker.place + 1} of the service did not start: {why}"))
            else:
                warn(f"process {worker.place + 1} of the service {why}; it is restarted")
                await asyncio.sleep(min(worker.failed_starts - 1, 1))

    async def _run_once(self, worker: _Worker) -> int | None:
        """Start a process and receive its messages until it ends; return its exit status."""
        ours, theirs = socket.socketpair()
        worker.starts, worker.end = worker.starts + 1, None
        order = {**self._build_order(worker), "channel": theirs.fileno(), "board": self._file}
        with ours, worker.started(_MODULE, order, (theirs.fileno(), self._file)) as process:
            theirs.close()
            if self._ending:
                worker.tell(stop=True)
            while (message := await worker.words.get()) is not None:
                self._receive(worker, message, ours)
            self._retire(worker, ours)
        return process.returncode

    def _build_order(self, worker: _Worker) -> dict[str, Any]:
        share, rest = divmod(self.concurrency, self.processes)
        settings = {**self.settings, "concurrency": share + (worker.place < rest)}
        return {"settings": settings, "place": worker.place, "processes": self.processes}

    def _receive(self, worker: _Worker, message: dict[str, Any], channel: socket.socket) -> None:
        if "ready" in message:
            worker.channel, worker.failed_starts = channel, 0
            self._door.add(channel)
            if len(self._list_living()) == self.processes:
                announce, self._announce = self._announce, lambda: None
                announce()
        if "note" in message and message["note"] not in self._notes:
            self._notes.add(message["note"])
            warn(message["note"])
        if "end" in message:
            worker.end = message["end"]
            worker.counts = worker.end.get("counts", worker.counts)
            self.stopped = worker.end.get("refused") or self.stopped
        self._receive_counts(worker, message)
        self._lender.read_message(worker, message)

    def _receive_counts(self, worker: _Worker, message: dict[str, Any]) -> None:
        if "counts" in message:
            worker.counts = message["counts"]
            self._note_report(message.get("to"), worker)
        if "whole" in message:
            task = asyncio.create_task(self._answer_with_sum(worker, message["whole"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _retire(self, worker: _Worker, channel: socket.socket) -> None:
        """Keep the counts of a process that has ended, and take back its unused budget."""
        self._door.remove(channel)
        worker.channel = None
        if worker.end is None:
            self._lender.purse.lent[worker.name] = self._board.read_used(worker.place)
        self._lender.drop(worker)
        self._board.clear(worker.place)
        if worker.counts is not None:
            self._past.add(worker.counts, ended=True)
            worker.counts = None
        for number in list(self._asked):
            self._note_report(number, worker)

    def _fail(self, problem: AutorubricError) -> None:
        self._problem = self._problem or problem
        self._end()

    async def _answer_with_sum(self, worker: _Worker, number: int) -> None:
        """Collect the counts of the other processes, and send the sum to the process that requested it."""
        others = [other for other in self._list_living() if other is not worker]
        waiting, done = self._asked[number] = {other.place for other in others}, asyncio.Event()
        for other in others:
            other.tell(count=number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_ASKED):
                if waiting:
                    await done.wait()
        del self._asked[number]
        whole = self._sum_counts()
        worker.tell(summed=whole.to_dict(whole.activity), to=number)

    def _note_report(self, number: int | None, worker: _Worker) -> None:
        if number in self._asked:
            waiting, done = self._asked[number]
            waiting.discard(worker.place)
            if not waiting:
                done.set()

    def _sum_counts(self) -> ServiceMetrics:
        whole = ServiceMetrics()
        whole.add(self._past.to_dict(self._past.activity))
        for worker in self._workers:
            if worker.counts is not None:
                whole.add(worker.counts)
        return whole


async def serve_by_processes(
    service: ServiceSettings,
    grader: CriterionGrader,
    processes: ServiceProcesses,
    budget: Callable[..., Budget],
    announce: Callable[[str], object],
    stop: Stop,
) -> ServiceProcesses:
    """Serve with several processes until SIGTERM, Ctrl-C or `stop`; return the processes with their counts.

    Args:
        service: the settings of the service.
        grader: the grader of each process.
        processes: the processes to run.
        budget: returns the budget, given what was spent before.
        announce: called with the address once all processes serve.
        stop: ends the service.
    """
    async with AsyncExitStack() as stack:
        content = describe_service(service, grader, None)
        replaces = await stack.enter_async_context(held_service(service, content))
        with open_service_ledger(service, replaces=replaces) as ledger:
            ledger.set_costs((await grader.open_session()).models.values())
            processes.left = budget(spent=ledger.sum_spent()).compute_left()
        listening, url = stack.enter_context(listening_at(service.host, service.port))
        stack.enter_context(shown_as_running(service.out, content, lambda: processes.stopped))
        stack.callback(_record_leftovers, service)
        await processes.run(listening, partial(announce, url), stop)
    return processes


def _record_leftovers(service: ServiceSettings) -> None:
    """Record replies that killed processes had received but not committed."""
    open_ledger(service.out).close()
    shutil.rmtree(service.out / LEDGER_FOLDER / PROCESSES_FOLDER, ignore_errors=True)
