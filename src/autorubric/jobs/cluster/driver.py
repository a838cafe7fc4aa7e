"""The driver of a run on a cluster: it assigns blocks to workers and merges their records into the main ledger."""

import asyncio
import json
import os
import secrets
import shutil
import socket
import sqlite3
from collections.abc import Coroutine, Hashable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from autorubric.errors import InputError, LedgerError, pluralize, warn
from autorubric.jobs.cluster.ray_cluster import ClusterGone, RayCluster, RemoteWorker, WorkerGone, call_ray
from autorubric.jobs.cluster.ray_worker import list_versions
from autorubric.jobs.lending import Lender, SharedBudget
from autorubric.jobs.workers import ShardChild, WorkerProcesses
from autorubric.llm.http.providers import keys_used
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.database import connect
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.llm.records.union import add_rows, find_last_added
from autorubric.runs.blocks import BlockQueue
from autorubric.runs.manifest import ITEMS_FILE, write_manifest
from autorubric.runs.progress import RunState
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.shard import MACHINES_FILE, WORKERS_FOLDER, Shard

_WHOLE = Shard(1, 1)
_KINDS = {"grade": "evaluation", "select": "selection", "synthesize": "synthesis"}
_MOST_DEATHS = 10
"""Maximum consecutive restarts of a worker without a completed block."""

_START_SECONDS = 120.0
"""Seconds that Ray may take to start a worker's process."""


@dataclass(slots=True, eq=False)
class WorkerLink(ShardChild):
    """A worker, its machine, and the blocks that it works on."""

    remote: RemoteWorker | None = None
    node: str | None = None
    machine: str = ""
    is_here: bool = False
    ledger: str = ""
    told: int = 0
    taken: int = 0
    is_ready: bool = False
    is_waiting: bool = False
    blocks: set[int] = field(default_factory=set)
    again: list[int] = field(default_factory=list)
    deaths: int = 0

    @property
    def name(self) -> Hashable:
        """The name of its ledger, to which budget is lent, so that the spending of a lost ledger still counts."""
        return self.ledger

    def tell(self, **message: Any) -> None:
        """Send a message to the worker; ignored if it has ended."""
        if self.remote is not None:
            self.remote.tell(message)


@dataclass
class RayWorkers(WorkerProcesses):
    """Runs the records of a run on the workers of a Ray cluster, a block at a time.

    A killed worker is restarted on its machine and reads its own ledger again. If its machine is lost, other workers
    take over its blocks. In the second of two rounds, every worker can read all calls recorded in the first.
    """

    _keys: set[str] = field(default_factory=set)
    _spool: Path = Path()
    _main: Path = Path()
    _records: sqlite3.Connection = field(init=False)
    _cluster: RayCluster | None = None
    _names: tuple[str, str] = ("", "")
    _round: int = 0
    _blocks: BlockQueue = field(default_factory=BlockQueue)
    _is_open: bool = False
    _before: Spending = field(default_factory=Spending)
    _taking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        keys_used.set(self._keys)

    async def run(self, directory: Path) -> Mapping[Shard, Path]:
        """Process all records; return the folder with the lines of their results.

        Raises:
            InputError: Ray, a version, a key, the input, a model or a price is wrong; nothing was spent.
        """
        if self._cluster is None:
            self._prepare(directory)
            loop = asyncio.get_running_loop()
            asked = None if self.settings.processes is None else self.processes
            self._cluster = await loop.run_in_executor(None, RayCluster, self.settings.ray_address, asked)
            self.processes = asked or min(self._cluster.cpus, self.settings.concurrency)
            try:
                # One connection for all blocks: closing the last one copies the write-ahead log into the file.
                with closing(connect(self._main / LEDGER_FILE)) as self._records:
                    await self.run_to_end(self.settings.progress, self.settings.stop, self._build_state)
            finally:
                with suppress(ClusterGone):
                    await call_ray(self._cluster.close)
            self._conclude()
        return {_WHOLE: self._spool}

    async def execute(self) -> None:
        """Make one pass over all records; if candidates are sampled, make a second pass to grade them."""
        for number in range(2 if getattr(self.settings, "sample", None) else 1):
            if not self._is_over():
                await self._run_round(number)

    def clear(self) -> None:
        """Remove the lines after they are merged into the run directory."""
        shutil.rmtree(self._spool, ignore_errors=True)

    def _prepare(self, directory: Path) -> None:
        path = str(directory.resolve())
        run = blake2b(f"{socket.gethostname()} {path}".encode(), digest_size=8).hexdigest()
        self._names = run, ""
        self._main = directory / LEDGER_FOLDER
        self._spool = self._main / WORKERS_FOLDER / secrets.token_hex(4)
        self._spool.mkdir(parents=True, mode=0o700)
        (self._spool / MACHINES_FILE).touch()
        open_ledger(directory).close()  # creates it for a new run

    async def _run_round(self, number: int) -> None:
        """Make one pass over all records; budget that a lost worker borrowed in an earlier round counts as spent."""
        self._round = number
        links = [WorkerLink(_WHOLE, Path(), number) for number in range(1, self.processes + 1)]
        self._shards = [*links]
        self._names = self._names[0], secrets.token_hex(4)
        self._blocks, self._is_open = BlockQueue(), False
        await _run_all(self._start_first_time(link) for link in links)
        for link in links:
            assert link.remote is not None
            for folder in await link.remote.call("list_leftovers"):  # left by a session whose driver was killed
                await self._merge_ledger(link, folder)
        with open_ledger(self._main.parent) as ledger:
            spent, recorded = ledger.sum_spent(), ledger.count
        if recorded:
            self._base = await asyncio.to_thread(_snapshot_ledger, self._main, self._spool / f"base{number}")
        if not number:
            self._before = spent
            self._lender = Lender(SharedBudget(self._compute_left(spent), self.processes), self._list_living)
        await _run_all(self._supervise_remote(link) for link in links)
        left = len(self._blocks) + sum(len(link.blocks) for link in links)
        if left and not self._is_over():
            links[0].end = {"stopped": f"{pluralize(left, 'block')} of records could not be processed"}

    async def _start_first_time(self, link: WorkerLink) -> None:
        try:
            await self._start(link)
        except (WorkerGone, TimeoutError) as error:
            why = str(error) or f"its process did not start within {_START_SECONDS:.0f} s"
            raise InputError(f"Ray cannot start worker {link.number}: {why}") from None

    async def _start(self, link: WorkerLink) -> bool:
        """Start the process of a worker; return whether it found its own ledger.

        Raises:
            InputError: its versions differ, or it lacks a key.
        """
        assert self._cluster is not None
        link.remote = self._cluster.start(*self._names, link.number, node=link.node)
        machines = self._spool / MACHINES_FILE
        introduced = link.remote.call("introduce", sorted(self._keys), str(machines.resolve()))
        report = await asyncio.wait_for(introduced, _START_SECONDS)
        link.node = await link.remote.call("find_node")
        with machines.open("a", encoding="utf-8") as file:
            file.write(json.dumps([report["machine"], str(Path(report["folder"]).parent)]) + "\n")
        link.machine, link.folder, link.is_here = report["machine"], Path(report["folder"]), report["has_base"]
        link.ledger, link.told = report["name"], self._find_last_added(report["name"])
        self._check(report)
        return bool(report["resumes"])

    def _check(self, report: Mapping[str, Any]) -> None:
        where = f"the worker on {report['machine']}"
        problems = [
            f"{where} has {name} {there}, this machine {here}; install the same version on both"
            for name, here in list_versions().items()
            if (there := report["versions"].get(name)) != here
        ]
        problems += [
            f"{where} has no key: set {key} in the environment in which Ray is started on that machine"
            for key in report["missing"]
        ]
        if problems:
            raise InputError(problems)

    def _find_last_added(self, name: str) -> int:
        with closing(connect(self._main / LEDGER_FILE)) as connection:
            return find_last_added(connection, name)

    async def _merge_ledger(self, link: WorkerLink, folder: str) -> None:
        """Merge all calls of a ledger on a worker's machine, including uncommitted ones, then remove it."""
        assert link.remote is not None
        name = await link.remote.call("recover", folder)
        while (found := await link.remote.call("read_calls", self._find_last_added(name), folder))[0]:
            await self._add(name, *found)
        await link.remote.call("remove", folder)

    async def _add(self, name: str, rows: Sequence[Any], notes: Mapping[str, Any]) -> int:
        async with self._taking:
            return await asyncio.to_thread(add_rows, self._records, name, rows, notes)

    async def _supervise_remote(self, link: WorkerLink) -> None:
        """Receive a worker's messages until it ends; restart it if it was killed."""
        while True:
            try:
                await self._begin(link)
                while link.end is None:
                    assert link.remote is not None
                    for message in await link.remote.call("wait_for_messages"):
                        await self._receive(link, message)
                await self._dismiss(link)
                return
            except WorkerGone as error:
                self._lender.drop(link)
                if link.end is not None or not await self._restart(link, str(error)):
                    self._assign_blocks()
                    return

    async def _dismiss(self, link: WorkerLink) -> None:
        assert link.remote is not None
        try:
            await self._merge_ledger(link, link.folder.name)
        except LedgerError as error:
            warn(
                f"the last replies of worker {link.number} stay in {link.folder} on {link.machine}, and the next "
                f"session reads them: {error}"
            )
        link.remote.end()
        link.remote = None
        self._lender.drop(link)
        self._assign_blocks()

    async def _restart(self, link: WorkerLink, why: str) -> bool:
        """Restart a killed worker; if that is impossible, give its blocks to the others."""
        link.deaths += 1
        link.is_ready = link.is_waiting = False
        if link.deaths > _MOST_DEATHS or self.interrupted:
            return self._give_up(link, why)
        assert self._cluster is not None
        warn(f"worker {link.number} ended; it is restarted: {why}")
        try:
            is_lost = link.node is not None and not await self._cluster.has(link.node)
        except ClusterGone as error:
            how = "start it again, or leave out --engine ray"
            link.end = {"stopped": f"the Ray cluster is unreachable ({error}); {how}"}
            return False
        if is_lost:
            # Another node may have no free CPU, so the other workers get its blocks before it has restarted.
            link.node = None
            self._hand_over_blocks(link)
            self._assign_blocks()
        try:
            resumes = await self._start(link)
        except WorkerGone as error:
            return await self._restart(link, str(error))
        except (TimeoutError, InputError) as error:
            return self._give_up(link, str(error) or why)
        if resumes:
            link.again = sorted(link.blocks)
        else:
            self._hand_over_blocks(link)
        return True

    def _give_up(self, link: WorkerLink, why: str) -> bool:
        if link.remote is not None:
            link.remote.end()
        if not self.interrupted:  # else the next session merges its ledger
            self._hand_over_blocks(link)
        link.end = {}
        link.end = {} if self._list_living() else {"stopped": f"no worker can be kept alive; the last one: {why}"}
        return False

    def _hand_over_blocks(self, link: WorkerLink) -> None:
        """Give the blocks of a lost machine to other workers; warn how many calls may be paid for twice."""
        if link.state is None and not link.blocks:
            return
        made = 0 if link.state is None else link.state.calls + link.state.in_flight
        calls, blocks = pluralize(max(made - link.taken, 0), "call"), pluralize(len(link.blocks), "block")
        warn(
            f"the machine of worker {link.number} was lost: up to {calls} and {blocks} of records will be sent again"
        )
        self._blocks.put_back(link.blocks)
        link.blocks.clear()
        link.taken, link.state = 0, None

    async def _begin(self, link: WorkerLink) -> None:
        assert link.remote is not None
        order = self._build_order(link)
        order["settings"].pop("out")
        addresses = {
            name: value
            for name, value in os.environ.items()
            if name.endswith("_BASE_URL") and "@" not in value and "?" not in value
        }
        if self._base is not None and not link.is_here:
            await link.remote.send(self._base / LEDGER_FILE)
        order |= {"base": str(self._base.resolve()) if self._base and link.is_here else None}
        order |= {"folder": str(Path.cwd()), "addresses": addresses, "round": self._round}
        await link.remote.call("begin", order, link.told)

    async def _receive(self, link: WorkerLink, message: dict[str, Any]) -> None:
        """Receive a worker's message; rows are durable before their blocks count as done."""
        link.is_ready |= "ready" in message
        if "rows" in message:
            link.taken += await self._add(link.ledger, message["rows"], message["notes"])
            with (self._spool / ITEMS_FILE).open("ab") as file:
                file.writelines(line + b"\n" for line in message["lines"])
        if "beyond" in message:
            self._blocks.end_at(message["beyond"])
        if "done" in message:
            link.blocks.discard(message["done"])
            link.deaths = 0
        link.is_waiting |= "want" in message
        self._read_message(link, message)
        if "done" in message or "ready" in message:
            await asyncio.to_thread(self._write_progress)
        self._assign_blocks()

    def _assign_blocks(self) -> None:
        """Assign blocks to waiting workers, once all workers have read the input."""
        links = [link for link in self._shards if isinstance(link, WorkerLink)]
        self._is_open = self._is_open or all(link.is_ready or link.end is not None for link in links)
        if not self._is_open:
            return
        over = self._is_over()
        for link in links:
            if link.is_waiting and link.end is None:
                block = None if over else link.again.pop(0) if link.again else self._blocks.take()
                busy = any(other.blocks for other in links if other.end is None)
                if block is None and busy and not over:
                    continue  # a block of a lost worker may come back
                link.is_waiting = False
                if block is not None:
                    link.blocks.add(block)
                link.tell(block=block)

    def _write_progress(self) -> None:
        """Write what `autorubric status` shows until the lines are merged into the run directory."""
        state = self._build_state()
        rows, kind = state.rows or None, _KINDS[self.settings.command]
        counts = {"total_items": rows, "counts": {"rows": rows, "finished": state.finished}}
        write_manifest(self._spool, {"kind": kind, "status": "running", "again": self.settings.again, **counts})

    def _is_over(self) -> bool:
        """Return whether no more blocks are assigned."""
        ends = (worker.end or {} for worker in self._shards)
        return self.interrupted or any(end.get("stopped") or end.get("problems") for end in ends)

    def _build_state(self) -> RunState:
        rows = max((worker.state.rows for worker in self._shards if worker.state is not None), default=0)
        return replace(super()._build_state(), rows=rows)

    def interrupt(self) -> None:
        """Stop at the user's request."""
        super().interrupt()
        self._assign_blocks()

    def _read_spent(self) -> Spending:
        with open_ledger(self._main.parent) as ledger:
            return ledger.sum_spent().compute_excess(self._before)


def _snapshot_ledger(ledger: Path, folder: Path) -> Path:
    """Write a snapshot of a ledger to a new folder, and return the folder."""
    folder.mkdir(mode=0o700)
    with closing(sqlite3.connect(ledger / LEDGER_FILE)) as connection:
        connection.execute("VACUUM INTO ?", (str(folder / LEDGER_FILE),))
    return folder


async def _run_all(works: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Run all coroutines; if one fails, cancel the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failed:
        wrong = [error for error in failed.exceptions if isinstance(error, InputError)]
        if not wrong:
            raise failed.exceptions[0] from None
        raise InputError(problem for error in wrong for problem in error.problems) from None
