"""One worker of a cluster: it runs the blocks that the driver assigns, and reports each one after its commit."""

import asyncio
import getpass
import os
import platform
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from autorubric import __version__
from autorubric.errors import InputError
from autorubric.jobs.talk import Talk, carry_out
from autorubric.jobs.workers import run_shard
from autorubric.llm.http.secrets import read_environment
from autorubric.llm.records.union import read_rows
from autorubric.runs.another_run import NAME_FILE, recover_ledger
from autorubric.runs.blocks import Feed, feed
from autorubric.runs.run_folder import LEDGER_FOLDER

_PATIENCE = 0.5
"""Maximum seconds between two answers from a worker."""

_BASE = "base"


def list_versions() -> dict[str, str]:
    """Return the package versions that must be equal on all machines."""
    return {"autorubric": __version__, "Python": ".".join(platform.python_version_tuple()[:2])}


def make_ledger_folder(run: str) -> Path:
    """Create the folder for workers' ledgers on this machine's local disk, readable only by this user; return it.

    Raises:
        InputError: the folder belongs to another user.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "unnamed"
    top = Path(tempfile.gettempdir()) / f"autorubric-ray-{user}"
    try:
        top.mkdir(mode=0o700, exist_ok=True)
        top.chmod(0o700)
        if top.is_symlink():
            raise PermissionError
    except PermissionError:
        raise InputError(
            f"{top} on {socket.gethostname()} belongs to another user; set TMPDIR where Ray is started"
        ) from None
    place = top / run
    place.mkdir(mode=0o700, exist_ok=True)
    return place


class RemoteTalk(Talk):
    """A connection to the driver over method calls instead of lines of JSON."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(send)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[tuple[Callable[[Any], object], Any]] = []
        self._heard: Callable[[dict[str, Any]], None] = lambda message: None

    def listen(self, heard: Callable[[dict[str, Any]], None], ended: Callable[[], object], most: float) -> None:
        """Receive the driver's messages in the running loop. If the driver ends, Ray ends this process."""
        with self._lock:
            self._heard, self._loop, early = heard, asyncio.get_running_loop(), self._early
        for function, value in early:
            function(value)

    def receive(self, message: dict[str, Any]) -> None:
        """Handle a message of the driver."""
        super().receive(message)
        self._heard(message)

    def call_soon(self, function: Callable[[Any], object], value: Any) -> None:
        """Call a function in the event loop of the run, from any thread."""
        with self._lock:
            if self._loop is None:
                self._early.append((function, value))
                return
        with suppress(RuntimeError):  # the run has ended, and the loop is closed
            self._loop.call_soon_threadsafe(function, value)


class ClusterWorker:
    """The actor of one worker. The driver calls its methods, up to two at a time.

    Args:
        run: identifies the run in all of its sessions.
        session: identifies this session of the run.
        number: the worker's number.
    """

    def __init__(self, run: str, session: str, number: int) -> None:
        self._place = make_ledger_folder(run)
        self._session = session
        self._folder = self._place / f"{session}-{number}"
        self._name = secrets.token_hex(8)
        self._talk = RemoteTalk(self._queue_message)
        self._feed = Feed(self._talk.say)
        self._words: list[dict[str, Any]] = []
        self._state: Any = None
        self._urgent = threading.Condition()
        self._told = 0

    def introduce(self, keys: Sequence[str], marker: str) -> dict[str, Any]:
        """Return what the driver must know about this machine before the run starts.

        Args:
            keys: names of the environment variables with keys.
            marker: a file on the driver's machine.
        """
        path, there = self._folder / NAME_FILE, read_environment()
        before = path.read_text(encoding="utf-8") if path.exists() else None
        self._name = before or self._name
        return {
            "versions": list_versions(),
            "machine": socket.gethostname(),
            "folder": str(self._folder),
            "name": self._name,
            "resumes": before is not None,
            "missing": [key for key in keys if not there.get(key, "").strip()],
            "has_base": Path(marker).exists(),
        }

    def list_leftovers(self) -> list[str]:
        """List the folders that workers of earlier sessions left on this machine."""
        return [path.name for path in self._place.glob("*") if not path.name.startswith(f"{self._session}-")]

    def recover(self, folder: str) -> str:
        """Commit the calls that a killed worker had not committed; return the name of its ledger."""
        return recover_ledger(self._place / folder)

    def read_calls(self, after: int, folder: str) -> tuple[list[Any], dict[str, Any]]:
        """Return the calls of a ledger that follow a given one, and its notes on limits and budgets.

        Args:
            after: the id of that call.
            folder: the ledger's folder.
        """
        return read_rows(self._place / folder / LEDGER_FOLDER, after)

    def remove(self, folder: str) -> None:
        """Remove a ledger that the driver has merged."""
        shutil.rmtree(self._place / folder, ignore_errors=True)
        with suppress(OSError):  # others are left
            self._place.rmdir()

    def receive(self, name: str, place: int, data: bytes) -> None:
        """Write a chunk of the driver's ledger, so that replies in it are found on this machine too."""
        base = self._folder / _BASE
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (base / name).open("r+b" if place else "wb") as file:
            file.seek(place)
            file.write(data)

    def begin(self, order: Mapping[str, Any], told: int) -> None:
        """Start the run.

        Args:
            order: the settings of the run; without `base`, replies are looked up in the received ledger.
            told: the id of the last call of this worker's ledger that the driver already has.
        """
        self._told = told
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / NAME_FILE).write_text(self._name, encoding="utf-8")
        os.environ.update(order["addresses"])
        if Path(order["folder"]).is_dir():
            os.chdir(order["folder"])
        base = order["base"] or (str(self._folder / _BASE) if (self._folder / _BASE).exists() else None)
        own = {**order, "base": base, "settings": {**order["settings"], "out": str(self._folder)}}
        threading.Thread(target=self._run, args=(own,), daemon=True).start()

    def _run(self, order: dict[str, Any]) -> None:
        self._feed.round = order["round"]
        feed.set(self._feed)
        carry_out(self._talk, run_shard(self._talk, order))

    def deliver(self, message: dict[str, Any]) -> None:
        """Receive a message of the driver."""
        if "block" in message:
            self._talk.call_soon(self._feed.give, message["block"])
        else:
            self._talk.call_soon(self._talk.receive, message)

    def wait_for_messages(self) -> list[dict[str, Any]]:
        """Wait for messages to the driver and return them; after a block or at the end, include the calls so far."""
        with self._urgent:
            self._urgent.wait_for(lambda: self._words, _PATIENCE)
            messages, self._words = self._words, []
            if self._state is not None:
                messages.append({"state": self._state})
                self._state = None
        if any("done" in message or "end" in message for message in messages):
            messages.insert(0, self._collect_calls())
        return messages

    def _collect_calls(self) -> dict[str, Any]:
        lines = self._feed.take_lines()
        rows, notes = read_rows(self._folder / LEDGER_FOLDER, self._told)
        while rows and (found := read_rows(self._folder / LEDGER_FOLDER, rows[-1][0]))[0]:
            rows, notes = rows + found[0], found[1]
        self._told = rows[-1][0] if rows else self._told
        return {"rows": rows, "notes": notes, "lines": lines}

    def _queue_message(self, message: dict[str, Any]) -> None:
        with self._urgent:
            if "state" in message:
                self._state = message["state"]
                return
            self._words.append(message)
            self._urgent.notify()
