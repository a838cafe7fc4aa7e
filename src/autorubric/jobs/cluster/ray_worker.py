"""One worker of a cluster: it runs the blocks that the driver gives it, and answers each one after its commit."""

from __future__ import annotations

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
from autorubric.llm.http.secrets import environment
from autorubric.llm.records.union import read_rows
from autorubric.runs.another_run import NAME_FILE, recovered_name
from autorubric.runs.blocks import Feed, feed
from autorubric.runs.run_folder import LEDGER_FOLDER

_PATIENCE = 0.5
"""Seconds after which the driver hears from a worker at least."""

_BASE = "base"


def versions() -> dict[str, str]:
    """What has to be equal on all machines."""
    return {"autorubric": __version__, "Python": ".".join(platform.python_version_tuple()[:2])}


def own_place(run: str) -> Path:
    """Where the workers of a run keep their ledgers on this machine, on its own disk; only this user can read it.

    Raises:
        InputError: another user has taken the name.
    """
    top = Path(tempfile.gettempdir()) / f"autorubric-ray-{getpass.getuser()}"
    try:
        top.mkdir(mode=0o700, exist_ok=True)
        top.chmod(0o700)
        if top.is_symlink():
            raise PermissionError
    except PermissionError:
        raise InputError(
            f"{top} on {socket.gethostname()} belongs to somebody else; set TMPDIR where Ray is started"
        ) from None
    place = top / run
    place.mkdir(mode=0o700, exist_ok=True)
    return place


class RemoteTalk(Talk):
    """The connection to a driver, whose messages are calls instead of lines."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(send)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[tuple[Callable[[Any], object], Any]] = []
        self._heard: Callable[[dict[str, Any]], None] = lambda word: None

    def listen(self, heard: Callable[[dict[str, Any]], None], ended: Callable[[], object], most: float) -> None:
        """Receive messages of the driver in the running loop; when it ends, Ray ends this process."""
        with self._lock:
            self._heard, self._loop, early = heard, asyncio.get_running_loop(), self._early
        for function, value in early:
            function(value)

    def hear(self, word: dict[str, Any]) -> None:
        """Handle a message of the driver."""
        super().hear(word)
        self._heard(word)

    def call_soon(self, function: Callable[[Any], object], value: Any) -> None:
        """Call a function in the event loop of the run, from any thread."""
        with self._lock:
            if self._loop is None:
                self._early.append((function, value))
                return
        with suppress(RuntimeError):  # the run has ended, and the loop is closed
            self._loop.call_soon_threadsafe(function, value)


class ClusterWorker:
    """The actor of one worker. Its methods are called by the driver, and may run at the same time.

    Args:
        run: names the run; equal for all of its sessions.
        session: names this session of the run.
        number: of the worker.
    """

    def __init__(self, run: str, session: str, number: int) -> None:
        self._place = own_place(run)
        self._session = session
        self._folder = self._place / f"{session}-{number}"
        self._name = secrets.token_hex(8)
        self._talk = RemoteTalk(self._take_word)
        self._feed = Feed(self._talk.say)
        self._words: list[dict[str, Any]] = []
        self._state: Any = None
        self._urgent = threading.Condition()
        self._told = 0

    def introduce(self, keys: Sequence[str], marker: str) -> dict[str, Any]:
        """What the driver has to know before the run starts.

        Args:
            keys: names of the environment variables that hold keys.
            marker: a file on the driver's machine.
        """
        path, there = self._folder / NAME_FILE, environment()
        before = path.read_text(encoding="utf-8") if path.exists() else None
        self._name = before or self._name
        return {
            "versions": versions(),
            "machine": socket.gethostname(),
            "folder": str(self._folder),
            "name": self._name,
            "resumes": before is not None,
            "missing": [key for key in keys if not there.get(key, "").strip()],
            "has_base": Path(marker).exists(),
        }

    def left_over(self) -> list[str]:
        """The folders that workers of earlier sessions have left on this machine."""
        return [path.name for path in self._place.glob("*") if not path.name.startswith(f"{self._session}-")]

    def recover(self, folder: str) -> str:
        """Add what a killed worker had not committed; returns the name of its ledger."""
        return recovered_name(self._place / folder)

    def rows(self, after: int, folder: str) -> tuple[list[Any], dict[str, Any]]:
        """The calls of a ledger after one of them, and its notes on limits and budgets.

        Args:
            after: the id of the call.
            folder: of the ledger.
        """
        return read_rows(self._place / folder / LEDGER_FOLDER, after)

    def remove(self, folder: str) -> None:
        """Remove a ledger that the driver has taken over."""
        shutil.rmtree(self._place / folder, ignore_errors=True)
        with suppress(OSError):  # others are left
            self._place.rmdir()

    def receive(self, name: str, place: int, data: bytes) -> None:
        """Write a part of a file of the driver's ledger, whose replies are found on this machine too."""
        base = self._folder / _BASE
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (base / name).open("r+b" if place else "wb") as file:
            file.seek(place)
            file.write(data)

    def begin(self, order: Mapping[str, Any], told: int) -> None:
        """Start the run.

        Args:
            order: what is run; without `base` it is what was received.
            told: the id of the last call of this worker's ledger that the driver has.
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

    def hear(self, word: dict[str, Any]) -> None:
        """Receive a message of the driver."""
        if "block" in word:
            self._talk.call_soon(self._feed.give, word["block"])
        else:
            self._talk.call_soon(self._talk.hear, word)

    def talk(self) -> list[dict[str, Any]]:
        """The words for the driver, as soon as there are any; with a block that is done, all calls since the last."""
        with self._urgent:
            self._urgent.wait_for(lambda: self._words, _PATIENCE)
            words, self._words = self._words, []
            if self._state is not None:
                words.append({"state": self._state})
                self._state = None
        if any("done" in word or "end" in word for word in words):
            words.insert(0, self._answer())
        return words

    def _answer(self) -> dict[str, Any]:
        lines = self._feed.take_lines()
        rows, notes = read_rows(self._folder / LEDGER_FOLDER, self._told)
        while rows and (found := read_rows(self._folder / LEDGER_FOLDER, rows[-1][0]))[0]:
            rows, notes = rows + found[0], found[1]
        self._told = rows[-1][0] if rows else self._told
        return {"rows": rows, "notes": notes, "lines": lines}

    def _take_word(self, word: dict[str, Any]) -> None:
        with self._urgent:
            if "state" in word:
                self._state = word["state"]
                return
            self._words.append(word)
            self._urgent.notify()
