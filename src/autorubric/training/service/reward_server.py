"""The process of the service: run directory, lock, ledger, socket, signals and clean shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from autorubric.background import on_shutdown
from autorubric.files.descriptors import count_free_connections
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.llm.http.access import BACKLOG, listening_at
from autorubric.llm.models import find_stand_in_note
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import hold_run
from autorubric.runs.another_run import move_run_away, refuse_another_run
from autorubric.runs.changes import find_grader_changes, find_value_changes
from autorubric.runs.manifest import write_manifest
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.stopping import Stop
from autorubric.training.audit import AuditPlan
from autorubric.training.rewards import DEFAULT_RULE, RewardRule
from autorubric.training.service.engine import RewardEngine
from autorubric.training.service.reward_app import Admission, RewardService, ServiceLimits

if TYPE_CHECKING:
    from autorubric.training.evolution.live import EvolutionPlan

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# Callers could otherwise fill the log with tracebacks of malformed requests.
_malformed = logging.getLogger(f"{__name__}.malformed")
_malformed.setLevel(logging.CRITICAL)

MOST_CONNECTIONS = 8192
_IDLE_SECONDS = 75.0  # without a complete request header
_LINGER_SECONDS = 10.0


class Connections(web.Server):
    """Passes requests to `handle`, and closes connections if there are too many.

    It closes a connection of the client (by address) with the most connections: the longest idle one, or the newest
    if all are in use. So no client can lock others out by many connections or slow sending.

    Args:
        handle: answers a request.
        most: maximum open connections.
        idle_seconds: seconds after which a connection without a request is closed.
        linger_seconds: seconds for which the rest of a refused body is read, so that the caller reads the refusal.
    """

    def __init__(
        self, handle: Handle, most: int, idle_seconds: float = _IDLE_SECONDS, linger_seconds: float = _LINGER_SECONDS
    ) -> None:
        super().__init__(
            self._handle_request,
            handler_cancellation=True,  # a caller that gave up retries; each reward is given and counted once
            keepalive_timeout=idle_seconds,
            lingering_time=linger_seconds,
            auto_decompress=False,
            access_log=None,
            logger=_malformed,
        )
        self._handle = handle
        self._most = most
        self._client: dict[RequestHandler, str] = {}
        self._held: Counter[str] = Counter()
        self._idle: dict[RequestHandler, asyncio.TimerHandle | None] = {}  # longest idle first
        self._idle_seconds = idle_seconds

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count a new connection, and close one if there are too many."""
        super().connection_made(handler, transport)
        client = str((transport.get_extra_info("peername") or ("",))[0])
        self._client[handler] = client
        self._held[client] += 1
        # Older versions of aiohttp close idle connections only after their first request.
        self._idle[handler] = asyncio.get_running_loop().call_later(self._idle_seconds, self._drop, handler)
        if len(self._client) > self._most:
            self._drop_one()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Remove a closed connection from the count."""
        super().connection_lost(handler, exc)
        self._forget(handler)

    async def _handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._end_idling(connection)
        try:
            return await self._handle(request)
        finally:
            if connection in self._client:
                self._idle[connection] = None

    def _end_idling(self, handler: RequestHandler) -> None:
        timer = self._idle.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _drop_one(self) -> None:
        greedy = max(self._held, key=self._held.__getitem__)
        own = (handler for handler in self._idle if self._client[handler] == greedy)
        newest = (handler for handler in reversed(self._client) if self._client[handler] == greedy)
        self._drop(next(own, None) or next(newest))

    def _drop(self, handler: RequestHandler) -> None:
        self._forget(handler)
        if handler.transport is not None:
            handler.transport.abort()

    def _forget(self, handler: RequestHandler) -> None:
        self._end_idling(handler)
        client = self._client.pop(handler, None)
        if client is not None:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]


def compute_connection_limit() -> int:
    """Return the maximum connections of callers: half of the free file descriptors; the judge uses the rest."""
    left = count_free_connections()
    return MOST_CONNECTIONS if left is None else max(1, min(MOST_CONNECTIONS, left // 2))


Open: TypeAlias = Callable[[web.ServerRunner], Awaitable[object]]
"""Starts to accept connections, given a runner that is set up."""


def accept_at(listening: socket.socket) -> Open:
    """Return a function that accepts connections on a listening socket."""
    return lambda runner: web.SockSite(runner, listening, backlog=BACKLOG).start()


async def serve_connections(
    handle: Handle, opened: Open, grace: float, started: Callable[[], object], ends: asyncio.Queue[None]
) -> bool:
    """Serve until the first of `ends`, then answer open requests for `grace` seconds; True if another one occurs."""
    runner = web.ServerRunner(Connections(handle, compute_connection_limit()), shutdown_timeout=grace)
    await runner.setup()
    try:
        await opened(runner)
        started()
        await ends.get()
    finally:
        ending = asyncio.create_task(runner.cleanup())
        second = asyncio.create_task(ends.get())
        await asyncio.wait((ending, second), return_when=asyncio.FIRST_COMPLETED)
        interrupted = not ending.done()
        for task in (ending, second):
            task.cancel()
        await asyncio.gather(ending, second, return_exceptions=True)
    return interrupted


LINGER = 0.004
"""Seconds for which a commit waits for others to join it; short, because trainers wait for rewards."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of the service."""

    out: Path
    host: str = "127.0.0.1"
    port: int = 8100
    room: int = 4096
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    grace: float = 30.0
    prefix_first: bool = True
    repeat_share: float = 0.0
    wait: bool = False
    start_over: bool = False
    replace: bool = False
    record: dict[str, Any] = field(default_factory=dict)
    evolution: EvolutionPlan | None = None


async def serve_rewards(
    settings: ServiceSettings,
    grader: CriterionGrader,
    rule: RewardRule = DEFAULT_RULE,
    audit: AuditPlan | None = None,
    announce: Callable[[str], object] = print,
    stop: Stop | None = None,
) -> RewardEngine:
    """Serve until SIGTERM, Ctrl-C or `stop`, answer open requests, and return the engine."""
    models = list((await grader.open_session()).models.values())
    if audit is not None:
        models += (await audit.grader.open_session()).models.values()
    async with AsyncExitStack() as stack:
        content = describe_service(settings, grader, audit)
        replaces = await stack.enter_async_context(held_service(settings, content))
        ledger = stack.enter_context(open_service_ledger(settings, replaces=replaces))
        ledger.set_costs(models)
        engine = RewardEngine(grader, ledger, rule, audit, settings.repeat_share, prefix_first=settings.prefix_first)
        if settings.evolution is not None:
            from autorubric.training.evolution.live import open_evolution

            evolution = open_evolution(settings.out, settings.evolution, grader, engine.executor, ledger, rule)
            engine.evolution = await stack.enter_async_context(evolution)
        service = RewardService(engine, Admission(settings.room), settings.limits)
        listening, url = stack.enter_context(listening_at(settings.host, settings.port))
        stack.enter_context(shown_as_running(settings.out, content, lambda: engine.stopped))
        ends: asyncio.Queue[None] = asyncio.Queue()
        stack.enter_context(on_shutdown(partial(ends.put_nowait, None)))
        stack.enter_context((stop or Stop()).heard_by(partial(ends.put_nowait, None)))
        try:
            opened, started = accept_at(listening), partial(announce, url)
            engine.interrupted = await serve_connections(service.handle, opened, settings.grace, started, ends)
        finally:
            await engine.finish(0 if engine.interrupted else settings.grace)
    return engine


@asynccontextmanager
async def held_service(settings: ServiceSettings, content: Mapping[str, Any]) -> AsyncIterator[bool]:
    """Lock the run directory for a service; yield whether the service replaces another run there.

    Raises:
        InputError: the directory cannot be locked, or contains another run.
    """
    with await hold_run(settings.out / LEDGER_FOLDER, wait=settings.wait):
        changes = partial(_find_changes, content)
        yield refuse_another_run(settings.out, "service", changes, replace=settings.replace)


@contextmanager
def open_service_ledger(settings: ServiceSettings, *, replaces: bool) -> Iterator[Ledger]:
    """Open the ledger of a service; a run that the service replaces is moved away."""
    with open_ledger(settings.out, start_over=settings.start_over, linger=LINGER) as ledger:
        if replaces:
            move_run_away(settings.out)
            ledger.begin_observations()
        yield ledger


@contextmanager
def shown_as_running(out: Path, content: Mapping[str, Any], stopped: Callable[[], str | None]) -> Iterator[None]:
    """Record in the manifest that the service runs and, at the end, that it completed or why it stopped."""
    write_manifest(out, {**content, "status": "running"})
    try:
        yield
    finally:
        error = stopped()
        ended = {"status": "completed"} if error is None else {"status": "stopped", "error": error}
        with suppress(OSError) if error else nullcontext():  # on a full disk, `error` is the better message
            write_manifest(out, {**content, **ended})


def describe_service(settings: ServiceSettings, grader: CriterionGrader, audit: AuditPlan | None) -> dict[str, Any]:
    """Return the manifest, without the status."""
    return {
        "kind": "service",
        **settings.record,
        "grader": grader.describe(),
        "audit": None if audit is None else {**_describe_plan(audit), "grader": audit.grader.describe()},
        "stand_ins": list(find_stand_in_note(spec.llm_config.model for spec in grader.recipe.specs)),
    }


def _describe_plan(audit: AuditPlan) -> dict[str, Any]:
    return {"share": audit.share, "seed": audit.seed, "tolerance": audit.tolerance, "on_gap": audit.on_gap}


def _find_changes(content: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    """List the differences that affect rewards from the service in a manifest.

    Manifests without settings come from a version with another default formula.
    """
    rules = ("formula", "gates", "overlong", "dropout", "evolution") if "settings" in manifest else ()
    names = [name for name in rules if name in manifest and name in content]
    rule = find_value_changes({name: manifest[name] for name in names}, {name: content[name] for name in names})
    found = [*rule, *find_grader_changes(manifest.get("grader"), content["grader"])]
    before, now = manifest.get("audit"), content["audit"]
    if before is not None and now is not None:
        found += [f"audit {change}" for change in find_grader_changes(before.get("grader"), now["grader"])]
    return found
