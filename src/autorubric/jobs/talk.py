"""Communication between a process and its children: lines of JSON on standard input and output.

The first line of standard input is the order; further lines are messages of the parent. Each line of standard output
is a message of the child. When standard input ends, the parent has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from autorubric.background import new_event_loop
from autorubric.errors import AutorubricError, InputError, Note
from autorubric.files.descriptors import raise_open_file_limit
from autorubric.llm.sharing import Amount, Sharing, sharing

if TYPE_CHECKING:
    from autorubric.llm.budget import Budget

REPORT_SECONDS = 0.25
"""Seconds between two reports on requests to endpoints without known limits."""


@dataclass(slots=True, kw_only=True, eq=False)
class Child:
    """A child process and its messages.

    Attributes:
        process: the last process started; None before the first start.
        words: its messages; None follows the last one.
    """

    process: subprocess.Popen[bytes] | None = None
    words: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)

    def tell(self, **message: Any) -> None:
        """Send a message to the process; ignored if it has ended."""
        if self.process is None or self.process.stdin is None:
            return
        with suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    @contextmanager
    def started(
        self, module: str, order: Mapping[str, Any], files: Iterable[int] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process that runs a module; when the block ends, close its input and wait for it.

        Args:
            module: the module.
            order: the first message.
            files: file descriptors that it inherits.
        """
        # -P: a file in the current folder, such as random.py, must not shadow a module.
        command, pipe, loop = [sys.executable, "-P", "-m", module], subprocess.PIPE, asyncio.get_running_loop()
        kept = tuple(files)
        # A new session, so that Ctrl-C reaches only this process, which stops the children.
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, start_new_session=True, pass_fds=kept
        ) as self.process:
            self.tell(**order, path=[*map(str, sys.path)])
            listener = threading.Thread(target=_listen, args=(self, self.process, loop), daemon=True)
            listener.start()
            try:
                yield self.process
            finally:
                with suppress(OSError):  # it has ended
                    if self.process.stdin is not None:
                        self.process.stdin.close()
                listener.join()


def _listen(child: Child, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Queue the messages of a process, and None when it has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        try:
            message = json.loads(line)
        except ValueError:  # torn by a kill
            continue
        loop.call_soon_threadsafe(child.words.put_nowait, message)
    loop.call_soon_threadsafe(child.words.put_nowait, None)


@cache
def _open_stdin() -> IO[bytes]:
    """Open standard input without a buffer, because a buffer stays locked while a thread reads."""
    return open(0, "rb", buffering=0, closefd=False)


class Talk:
    """The messages between this process and its parent."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._answer: asyncio.Future[Amount | None] | None = None
        self._shared: Sharing | None = None
        self._alone = False

    def say(self, **message: Any) -> None:
        """Send a message to the parent; ignored if it has ended."""
        self._send(message)

    @property
    def budget(self) -> Budget | None:
        """The budget that this process has borrowed; None if it has borrowed none."""
        return None if self._shared is None else self._shared.budget

    def give_back_spare(self) -> Amount:
        """Release the budget that this process has borrowed and not spent, and return its amount."""
        return Amount() if self.budget is None else self.budget.give_spare()

    def share(
        self,
        processes: int,
        base: Path | None = None,
        *,
        used: Callable[[Amount], None] = lambda _: None,
        left: Amount | None = None,
    ) -> None:
        """Share the budget and limits of the parent's processes, from now on in this context.

        Args:
            processes: the number of processes.
            base: see `Sharing`.
            used: see `Sharing`.
            left: see `Sharing`.
        """
        self._shared = Sharing(
            processes,
            base,
            self._borrow,
            lambda traffic: self.say(traffic=traffic),
            tell_usable=lambda usable: self.say(usable=usable),
            used=used,
            left=left,
        )
        sharing.set(self._shared)
        self._reporting = asyncio.get_running_loop().create_task(self._report())

    def listen(self, heard: Callable[[dict[str, Any]], None], ended: Callable[[], object], most: float) -> None:
        """Receive the parent's messages from now on, in the running loop.

        Args:
            heard: called with each message.
            ended: called on another thread when the parent has ended.
            most: seconds after that until this process is forced to exit.
        """
        loop = asyncio.get_running_loop()

        def deliver(message: dict[str, Any]) -> None:
            self.receive(message)
            heard(message)

        def post(call: Callable[..., None], *values: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(call, *values)

        def read() -> None:
            with suppress(ValueError):  # torn by a kill
                for line in _open_stdin():
                    post(deliver, json.loads(line))
            post(self._end_borrowing)
            ended()
            time.sleep(most)
            os._exit(1)

        threading.Thread(target=read, daemon=True).start()

    async def _borrow(self, owned: Amount, missing: Amount) -> Amount | None:
        """Ask the parent for more budget; None once it has ended."""
        if self._alone:
            return None
        self._answer = asyncio.get_running_loop().create_future()
        self.say(borrow=[owned, missing])
        lent = await self._answer
        self._answer = None
        return lent

    def _end_borrowing(self) -> None:
        """Refuse more budget to all waiting callers, because the parent has ended."""
        self._alone = True
        if self._shared is not None:
            self._shared.left = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    async def _report(self) -> None:
        """Report sent requests several times per second."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            if self._shared is not None:
                self._shared.report()

    def receive(self, message: dict[str, Any]) -> None:
        """Handle a message of the parent about shared limits."""
        assert self._shared is not None
        budget = self.budget
        if "left" in message and not self._alone:
            self._shared.left = Amount(*message["left"])
        if "lent" in message and self._answer is not None and not self._answer.done():
            self._answer.set_result(None if message["lent"] is None else Amount(*message["lent"]))
        if "give" in message:
            is_lent = self._answer is not None and self._answer.done()  # to a call that is about to run
            spare = Amount() if is_lent else self.give_back_spare()
            self.say(gave=spare, more=is_lent or (budget is not None and budget.running > 0))
        if "usable" in message:
            self._shared.usable.add(tuple(message["usable"]))
        if "permits" in message:
            self._shared.pass_permits(message["permits"])


def run_ordered(work: Callable[[Talk, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]) -> None:
    """Carry out the parent's order, and report the result.

    Args:
        work: called with the connection and the order; returns the result.
    """
    out = os.dup(1)
    os.dup2(2, 1)  # other prints must not mix with the messages
    order = json.loads(_open_stdin().readline() or b"{}")
    if order:
        # The parent's paths come last, so that its modules are found but shadow no others.
        sys.path += [entry for entry in order.pop("path", ()) if entry not in sys.path]
        talk = Talk(partial(_send, out, threading.Lock()))
        carry_out(talk, work(talk, order))


def _send(out: int, lock: threading.Lock, message: dict[str, Any]) -> None:
    """Write a line of JSON to the parent; ignored if it has ended."""
    line = json.dumps(message).encode() + b"\n"
    with lock, suppress(OSError):
        while line:
            line = line[os.write(out, line) :]


def carry_out(talk: Talk, work: Coroutine[Any, Any, dict[str, Any]]) -> None:
    """Run a coroutine in a new event loop, and report its result to the parent.

    Args:
        talk: the connection to the parent.
        work: returns the result.
    """
    warnings.simplefilter("always", Note)
    warnings.showwarning = lambda message, *_, **__: talk.say(note=str(message))
    raise_open_file_limit()
    try:
        with asyncio.Runner(loop_factory=new_event_loop, debug=False) as runner:
            end = runner.run(work, context=copy_context())
    except InputError as error:
        end = {"problems": list(error.problems), "advice": error.advice}
    except (AutorubricError, OSError) as error:
        end = {"stopped": str(error)}
    except BaseException:
        end = {"stopped": f"a worker failed: {traceback.format_exc()}"}
    needed = Amount() if talk.budget is None else talk.budget.needed
    talk.say(end=end, spare=talk.give_back_spare(), needed=needed)
