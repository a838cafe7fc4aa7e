"""A worker process of a service: it computes rewards for the connections that the main process hands to it."""

import asyncio
import os
import secrets
import socket
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from autorubric.background import ignore_ending, rare_collections
from autorubric.jobs.judges import make_grader
from autorubric.jobs.serve import ServeSettings, build_limits
from autorubric.jobs.talk import Talk, run_ordered
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import PROCESSES_FOLDER, run_lock
from autorubric.runs.run_folder import LEDGER_FOLDER, SPENT_FILE
from autorubric.training.service.door import Board, HandedSite, SharedSeats
from autorubric.training.service.engine import RewardEngine
from autorubric.training.service.metrics import ServiceMetrics
from autorubric.training.service.reward_app import Admission, RewardService
from autorubric.training.service.reward_server import LINGER, serve_connections

_BACKSTOP = 20.0
"""Seconds, in addition to twice the grace period, after which a process without its parent is forced to exit."""
_TELL = 1.0
"""Seconds between two reports; if a process is killed, the counts since its last report are lost, but no records."""


class _TotalCounts:
    """Requests the counts of all processes from the main process."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def __call__(self, counts: dict[str, Any]) -> ServiceMetrics:
        number = secrets.randbits(30)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self._talk.say(whole=number, counts=counts)
        whole = ServiceMetrics()
        try:
            whole.add(await answer)
        finally:
            del self._asked[number]
        return whole

    def receive(self, number: int, counts: dict[str, Any]) -> None:
        answer = self._asked.get(number)
        if answer is not None and not answer.done():
            answer.set_result(counts)


async def serve_part(talk: Talk, order: dict[str, Any]) -> dict[str, Any]:
    """Serve until the main process sends a stop message or ends."""
    ignore_ending()  # the signal reaches the whole group; the main process stops the others
    settings = ServeSettings.from_values(order["settings"])
    place, processes = order["place"], order["processes"]
    board, channel = Board(order["board"], processes), socket.socket(fileno=order["channel"])
    talk.share(processes, used=partial(board.note_used, place))
    grader, out = make_grader(settings), Path(settings.out)
    logs = out / LEDGER_FOLDER / PROCESSES_FOLDER / str(place + 1)
    ends: asyncio.Queue[None] = asyncio.Queue()
    with ExitStack() as stack:
        stack.enter_context(channel)
        stack.enter_context(rare_collections())
        stack.enter_context(run_lock(logs, wait=True))
        ledger = stack.enter_context(Ledger.open(out / LEDGER_FOLDER, linger=LINGER, shared=True, logs=logs))
        ledger.keep_spending(out / SPENT_FILE)
        await grader.open_session()
        engine = RewardEngine(grader, ledger, settings.build_reward_rule(), prefix_first=settings.prefix_first)
        whole = _TotalCounts(talk)
        admission = Admission(settings.queue, SharedSeats(board, place))
        service = RewardService(engine, admission, build_limits(settings, os.environ), whole)

        def receive(message: dict[str, Any]) -> None:
            if "count" in message:
                talk.say(counts=service.collect_counts(), to=message["count"])
            if "summed" in message:
                whole.receive(message["to"], message["summed"])
            if "stop" in message:
                ends.put_nowait(None)

        loop = asyncio.get_running_loop()
        gone = partial(loop.call_soon_threadsafe, ends.put_nowait, None)
        talk.listen(receive, gone, 2 * settings.grace + _BACKSTOP)
        telling = asyncio.create_task(_report_counts(talk, service))
        try:
            engine.interrupted = await serve_connections(
                service.handle,
                lambda runner: HandedSite(runner, channel).start(),
                settings.grace,
                lambda: talk.say(ready=True),
                ends,
            )
        finally:
            await engine.finish(0 if engine.interrupted else settings.grace)
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling
        return {"counts": service.collect_counts(), "refused": engine.stopped}


async def _report_counts(talk: Talk, service: RewardService) -> None:
    while True:
        await asyncio.sleep(_TELL)
        talk.say(counts=service.collect_counts())


if __name__ == "__main__":
    run_ordered(serve_part)
