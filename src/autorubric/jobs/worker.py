"""One of several processes that work on one run: it runs a shard, and talks to the process that started it.

The first line of standard input is the order; further lines are `Word`s of the parent. Each line of standard output
is a word of this process. When standard input ends, the parent has gone, and the run is stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autorubric.background import new_event_loop
from autorubric.errors import AutorubricError, InputError
from autorubric.files.descriptors import raise_open_file_limit
from autorubric.jobs.divided import JOBS
from autorubric.llm.sharing import Sharing, Sum, sharing
from autorubric.runs.progress import RunState
from autorubric.runs.stopping import GRACE_SECONDS, Stop

_stdin = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 (a buffer is locked while a thread reads)

_LEASED_SECONDS = 1.0

_BACKSTOP = GRACE_SECONDS + 20.0
"""Seconds after which a process whose parent has gone ends, whatever it does."""


class Worker:
    """The talk with the parent: progress and requests out, answers and commands in.

    Args:
        say: passes a word on to the parent.
    """

    def __init__(self, say: Callable[..., None]) -> None:
        self.stop = Stop()
        self.say = say
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._early: list[tuple[Callable[[Any], object], Any]] = []
        self._answer: asyncio.Future[Sum | None] | None = None
        self._shared: Sharing | None = None

    def told(self, state: RunState) -> None:
        """Report progress."""
        self.say(state=asdict(state))

    async def borrow(self, held: Sum, missing: Sum) -> Sum | None:
        """Ask the parent for more budget."""
        self._answer = asyncio.get_running_loop().create_future()
        self.say(borrow=[held, missing])
        return await self._answer

    def spare(self) -> Sum:
        """What this process has borrowed and not spent, which it no longer has from now on."""
        budget = None if self._shared is None else self._shared.budget
        return Sum() if budget is None else budget.give_spare()

    async def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run the shard; how it ended."""
        base = Path(order["base"]) if order["base"] else None
        self._shared = Sharing(order["processes"], base, self.borrow, self._tell_traffic)
        sharing.set(self._shared)
        with self._lock:
            self._loop, early = asyncio.get_running_loop(), self._early
        for function, value in early:
            function(value)
        model, job = JOBS[order["command"]]
        values = {**order["settings"], "progress": self.told, "stop": self.stop}
        renewal = asyncio.create_task(self._renew())
        try:
            return _end(await job(model.checked(values)))
        finally:
            renewal.cancel()

    async def _renew(self) -> None:
        """Ask once a second how fast endpoints may be called."""
        while True:
            await asyncio.sleep(_LEASED_SECONDS)
            self._tell_traffic()

    def _tell_traffic(self) -> None:
        traffic = {} if self._shared is None else self._shared.take_traffic()
        if traffic:
            self.say(traffic=traffic)

    def carry_out(self, order: dict[str, Any]) -> None:
        """Run the shard in a loop of its own, and say how it ended."""
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: self.say(note=str(message))
        raise_open_file_limit()
        try:
            with asyncio.Runner(loop_factory=new_event_loop, debug=False) as runner:
                end = runner.run(self.run(order), context=copy_context())
        except InputError as error:
            end = {"problems": list(error.problems)}
        except AutorubricError as error:
            end = {"stopped": str(error)}
        except BaseException:
            end = {"stopped": f"a worker failed: {traceback.format_exc()}"}
        self.say(end=end, spare=self.spare())

    def hear(self, word: dict[str, Any]) -> None:
        """Take a word of the parent, on any thread."""
        self.call(self._heed, word)

    def call(self, function: Callable[[Any], object], value: Any) -> None:
        """Call a function in the event loop of the run, from any thread."""
        with self._lock:
            if self._loop is None:
                self._early.append((function, value))
                return
        with suppress(RuntimeError):  # the run has ended, and the loop is closed
            self._loop.call_soon_threadsafe(function, value)

    def _heed(self, word: dict[str, Any]) -> None:
        assert self._shared is not None
        if "lent" in word and self._answer is not None and not self._answer.done():
            self._answer.set_result(None if word["lent"] is None else Sum(*word["lent"]))
        if "give" in word:
            self.say(gave=self.spare(), to=word["give"])
        if "rates" in word:
            self._shared.renew(word["rates"])
        if "stop" in word:
            self.stop()


def _end(result: Any) -> dict[str, Any]:
    summary = getattr(result, "summary", None)
    stopped = getattr(result, "stopped", None) or getattr(summary, "stopped", None) or None
    interrupted = getattr(result, "interrupted", False) or getattr(summary, "interrupted", False)
    return {"stopped": stopped, "interrupted": interrupted}


def main() -> None:
    """Run the shard that the parent orders."""
    out = os.dup(1)
    os.dup2(2, 1)  # what else prints does not disturb the talk
    order = json.loads(_stdin.readline() or b"{}")
    if not order:
        return
    lock = threading.Lock()

    def say(**word: Any) -> None:
        # A parent who has gone hears nothing.
        with lock, suppress(OSError):
            os.write(out, json.dumps(word).encode() + b"\n")

    worker = Worker(say)
    threading.Thread(target=_listen, args=(worker,), daemon=True).start()
    worker.carry_out(order)


def _listen(worker: Worker) -> None:
    for line in _stdin:
        worker.hear(json.loads(line))
    worker.stop()
    time.sleep(_BACKSTOP)
    os._exit(1)


if __name__ == "__main__":
    main()
