"""The server around a view: its socket, its signals, and the thread that indexes."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import uvicorn

from autorubric import __version__
from autorubric.background import on_shutdown
from autorubric.errors import InputError
from autorubric.llm.http.access import listening_at, read_token
from autorubric.view.guard import App, Receive, Scope, Send
from autorubric.view.labelling import LabelQueues
from autorubric.view.sources import Source, find_runs, make_index_folder, open_sources
from autorubric.view.view_app import View, make_app
from autorubric.view.view_settings import ViewSettings

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from autorubric.view.index.indexer import Indexer

_SECONDS = 1.0
_HEAD_START = 0.5  # seconds for the first page, which would wait for what indexing loads
_warn_once = cache(logging.getLogger("autorubric.view").warning)


class IndexWorker:
    """Reads the files of runs into their indexes until it is stopped.

    A run is indexed by one process at a time; another one that shows it reads the same index.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._all = sources
        self._sources = [source for source in sources if source.has_items or source.kind == "evaluation"]
        self._locks: dict[int, BaseFileLock] = {}
        self._indexers: dict[int, Indexer] = {}
        self._stopped = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="indexing", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def answer(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer; indexing begins once it has, or half a second after `start`."""
        await app(scope, receive, send)
        self._answered.set()

    def stop(self) -> None:
        """Stop the thread, within a quarter of a second."""
        self._stopped.set()
        self._answered.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._answered.wait(_HEAD_START)
            while not self._stopped.is_set():
                busy = False
                for source in self._sources:
                    busy |= self._step(source)
                if not busy:
                    for source in self._all:
                        with suppress(OSError, InputError):  # pages say what is wrong with the run
                            source.check()
                    self._stopped.wait(_SECONDS)
        finally:
            for number in list(self._indexers):
                self._release(number)

    def _step(self, source: Source) -> bool:
        """Read on in one run; return whether there is more."""
        from filelock import FileLock, Timeout

        from autorubric.view.index.indexer import Indexer

        try:
            indexer = self._indexers.get(source.number)
            if indexer is not None and indexer.is_deleted:
                self._release(source.number)
                indexer = None
            if indexer is None:
                if source.is_gone:
                    return False
                source.place.mkdir(exist_ok=True)
                self._locks.setdefault(source.number, FileLock(source.place / "index.lock")).acquire(timeout=0)
                indexer = self._indexers[source.number] = Indexer(
                    source.directory, source.place, source.choice, self._stopped.is_set
                )
            return indexer.step()
        except Timeout:
            return False
        except (OSError, sqlite3.Error) as error:
            _warn_once("%s: the index cannot be written: %s", source.place, str(error))
            self._release(source.number)
            return False

    def _release(self, number: int) -> None:
        indexer = self._indexers.pop(number, None)
        if indexer is not None:
            with suppress(sqlite3.Error):
                indexer.close()
        if number in self._locks:
            with suppress(OSError):
                self._locks[number].release()


_MOST_CONNECTIONS = 256
_GRACE = 2  # seconds for open requests to end; a live page would never end


def _check_labels(sources: Sequence[Source]) -> None:
    """Raise an error unless the chosen labels are for the graded items of each run."""
    from autorubric.view.index.shown_labels import read_shown_labels

    for source in sources:
        lines = source.open_dataset()
        if lines is not None:
            read_shown_labels(source.directory, lines, source.choice)


async def serve_view(settings: ViewSettings) -> None:
    """Show runs until SIGTERM or Ctrl-C.

    Raises:
        InputError: there is no run in a directory, or the address cannot be bound.
    """
    token = read_token(settings.host, settings.token_env, os.environ)
    with ExitStack() as stack:
        listening, url = stack.enter_context(listening_at(settings.host, settings.port))
        # A run that cannot be shown gets no index. The index in a run has the labels that count by default.
        sources = [
            replace(one, place=make_index_folder(one.directory, stack, in_run=settings.is_default), choice=settings)
            for one in open_sources(find_runs(cast("list[Path]", settings.runs)))
        ]
        if not settings.is_default:
            _check_labels(sources)
        indexing = IndexWorker(sources)
        view = View(sources, __version__, LabelQueues(sources))
        app = make_app(view, token)
        config = uvicorn.Config(
            partial(indexing.answer, app),
            interface="asgi3",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            http="h11",
            ws="none",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE,
        )
        server = _Server(config)
        with on_shutdown(server.end):
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.005)
            if not serving.done():
                settings.announce(f"{url}/")
                indexing.start()
            try:
                await serving
            finally:
                await asyncio.to_thread(indexing.stop)
                view.labelling.close_all()


class _Server(uvicorn.Server):
    """A server that leaves signals to us, on every system alike."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def end(self) -> None:
        """Answer open requests and stop; immediately when called a second time."""
        self.force_exit = self.should_exit
        self.should_exit = True
