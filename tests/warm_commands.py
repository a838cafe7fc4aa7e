"""Processes of `autorubric`, forked from one that has already imported the package.

Python's start and the imports take most of the time of a command in a test. A forked command has a process of its
own, with the arguments, streams, directory and environment that it is given, and signals and kills reach it. So have
the processes that it starts, but with `FRESH`. The start of a fresh interpreter has tests of its own.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import resource
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
_SIZE = struct.Struct("q")
_COMMAND = """
import _signal, _socket, os, sys
def is_inherited(number):
    try:
        return os.get_inheritable(number)
    except OSError:
        return False
kept = [0, 1, 2, *filter(is_inherited, range(3, 250))]
variables = [name + b"=" + value for name, value in os.environb.items()]
numbers = b" ".join(b"%d" % number for number in kept)
words = [b"%d" % len(sys.argv), *map(os.fsencode, sys.argv)]
asked = b"\\0".join([numbers, os.getcwdb(), *words, *variables])
server = _socket.socket(_socket.AF_UNIX)
server.connect(os.path.dirname(__file__) + "/socket")
rights = b"".join(number.to_bytes(4, sys.byteorder) for number in kept)
size = len(asked).to_bytes(8, sys.byteorder)
server.sendmsg([size], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
server.sendall(asked)
pid = int.from_bytes(server.recv(8), sys.byteorder)
for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
    _signal.signal(number, lambda number, _: os.kill(pid, number))
status = os.waitstatus_to_exitcode(int.from_bytes(server.recv(8), sys.byteorder))
sys.exit(status if status >= 0 else 128 - status)
"""


_FOLDER = "FOLDER_OF_WARM_COMMANDS"
"""The variable that gives the test workers the folder of the process that started them."""


@cache
def warm_folder() -> Path:
    """A directory for PATH with an `autorubric` and a `forked-python`."""
    return Path(os.environ[_FOLDER]) if _FOLDER in os.environ else start("tests.warm_commands")


def start(module: str) -> Path:
    """Start the process of a module that calls `serve`; returns the folder of its commands."""
    folder = tempfile.TemporaryDirectory()
    python = Path(folder.name) / "python"
    python.symlink_to(sys.executable)  # whose path may have spaces, which a first line does not take
    for name in ("autorubric", "forked-python"):
        command = Path(folder.name) / name
        command.write_text(f"#!{python} -IS{_COMMAND}", "utf-8")
        command.chmod(0o700)
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    # Clients that connect before the process is ready wait.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(folder.name) / "socket"))
        listener.listen(100)
        number = listener.fileno()
        # From Python 3.12 on, a fork warns of threads; those of numpy wait for nothing.
        words = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-m", module, str(number)]
        process = subprocess.Popen(words, cwd=SOURCE.parent, env=variables, stdin=subprocess.PIPE, pass_fds=[number])

    @atexit.register
    def end() -> None:
        process.communicate()
        folder.cleanup()

    return Path(folder.name)


_DESCRIPTORS = "DESCRIPTORS_OF_WARM_COMMAND"
"""The variable that gives a forked command its soft and hard limit of open files."""

_PYTHON = "PYTHON_OF_WARM_COMMAND"
"""The variable that gives a forked command the Python of the processes that it starts; they are forked without it."""
FRESH = {_PYTHON: sys.executable}
"""The processes of a forked command start in fresh interpreters."""


def forked_python() -> str:
    """A stand-in for the executable, for `-m MODULE` and `-c CODE` in a shell or as any process."""
    return str(warm_folder() / "forked-python")


def share_with_workers() -> None:
    """Start the one process from which the commands of all test workers are forked."""
    os.environ[_FOLDER] = str(warm_folder())


class WarmProcess(subprocess.Popen[str]):
    """A forked `autorubric` with these words, used like any process.

    Args:
        words: of the command.
        descriptors: the soft and the hard limit of its open files.
        options: of `Popen`.
    """

    program = str(SOURCE / "autorubric" / "__main__.py")

    def __init__(self, words: list[str], descriptors: tuple[int, int] | None = None, **options: Any) -> None:
        if descriptors:
            limits = {_DESCRIPTORS: "{} {}".format(*descriptors)}
            options["env"] = {**(options.get("env") or os.environ), **limits}
        super().__init__(words, text=True, **options)

    # The rest of Popen, which makes the pipes and reads them, calls these three.
    def _execute_child(self, args: list[str], *options: Any) -> None:
        folder: str | Path | None = options[4]
        variables: Mapping[str, str] = os.environ if options[5] is None else options[5]
        pipes = options[9:15]
        child_ends = [end if end >= 0 else number for number, end in enumerate((pipes[0], pipes[3], pipes[5]))]
        parts = [
            "0 1 2",
            str(folder or Path.cwd()),
            *(str(1 + len(args)), self.program, *args),
            *(f"{name}={value}" for name, value in variables.items()),
        ]
        asked = "\0".join(parts).encode("utf-8", "surrogateescape")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(str(warm_folder() / "socket"))
        socket.send_fds(self._server, [_SIZE.pack(len(asked))], child_ends)
        self._server.sendall(asked)
        (self.pid,) = _SIZE.unpack(self._server.recv(8))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        self._server.setblocking(not wait_flags & os.WNOHANG)
        try:
            (status,) = _SIZE.unpack(self._server.recv(8))
        except BlockingIOError:
            return 0, 0
        self._server.close()
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._child_created:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


class WarmPython(WarmProcess):
    """A forked Python with `-c CODE` or `-m MODULE` and more words, used like any process."""

    program = "forked-python"


def serve(python: str) -> None:
    """Fork a process for each command that is asked for, until standard input ends.

    Args:
        python: what its processes are to start, a path or one of the commands in the folder.
    """
    # Old objects are rarely collected. Frozen ones would be counted by each command.
    gc.freeze()
    gc.unfreeze()
    listener = socket.socket(fileno=int(sys.argv[1]))
    python = str(Path(listener.getsockname()).parent / python)
    children: dict[int, socket.socket] = {}
    watched: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest and the workers, whose ends end this
    while True:
        ready = _wait({listener.fileno(), woken, sys.stdin.fileno()}, watched)
        if sys.stdin.fileno() in ready:
            return
        # The client of these is gone, most likely killed: treat both as one process.
        _kill(watched.pop(number) for number in watched.keys() & ready)
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(children)
            watched = {number: pid for number, pid in watched.items() if pid in children}
        if listener.fileno() in ready:
            client, _ = listener.accept()
            pid = os.fork()
            if not pid:
                for end in (listener, *children.values()):
                    end.close()
                os.close(woken)
                os.close(wake)
                _run_child(client, python)
            children[pid] = client
            watched[client.fileno()] = pid
            with suppress(OSError):
                client.sendall(_SIZE.pack(pid))


def _wait(read: Iterable[int], watched: Iterable[int]) -> set[int]:
    """Wait for descriptors that can be read, or whose other end is closed."""
    poll = select.poll()
    for number in read:
        poll.register(number, select.POLLIN)
    for number in watched:
        poll.register(number, select.POLLRDHUP)
    return {number for number, _ in poll.poll()}


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _run_child(client: socket.socket, python: str) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _run(client, python)
    finally:
        os._exit(1)


def _tell_ends(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as client, suppress(OSError):
            client.sendall(_SIZE.pack(status))


def _take(descriptors: list[int], numbers: Iterable[int]) -> None:
    """Make received descriptors those with these numbers."""
    # First move all away: one may have the number of another.
    apart = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 300) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for number, descriptor in zip(numbers, apart, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _run_python() -> None:
    """Run `-m MODULE` or `-c CODE` as Python does; a test worker is started with `-u` before it."""
    if sys.argv[1] in ("-u", "-P"):
        del sys.argv[1]
    _, option, what, *_ = sys.argv
    sys.argv[:3] = [option]
    if option == "-c":
        exec(what, {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


def _run(client: socket.socket, python: str) -> None:
    """Run the command of a client, and exit; `python` replaces the executable."""
    from autorubric.cli import main

    size, descriptors, _, _ = socket.recv_fds(client, 8, 250)
    (length,) = _SIZE.unpack(size)
    asked = client.recv(length, socket.MSG_WAITALL).decode("utf-8", "surrogateescape").split("\0")
    client.close()
    _take(descriptors, map(int, asked.pop(0).split()))
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        # The old streams remember whether their files can seek.
        old = getattr(sys, name)
        stream = os.fdopen(number, mode, 1 if name == "stderr" else -1, encoding=old.encoding, errors=old.errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(asked[0])
    end = 2 + int(asked[1])
    sys.argv = asked[2:end]
    os.environ.clear()
    variables = (variable.partition("=") for variable in asked[end:])
    os.environ.update({name: value for name, _, value in variables})
    sys.executable = os.environ.pop(_PYTHON, python)
    if limits := os.environ.pop(_DESCRIPTORS, None):
        soft, hard = map(int, limits.split())
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    status: Any = 1
    try:
        if Path(sys.argv[0]).name == "forked-python":
            _run_python()
            status = 0
        else:
            main()
    except SystemExit as left:
        status = left.code or 0
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
    # As at the end of Python, but without taking the modules apart.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


_LATE = (
    *("encodings.idna", "encodings.utf_8_sig", "filelock", "opentelemetry.trace", "pyarrow.parquet", "rich.markdown"),
    *("pandas", "pyarrow.pandas_compat", "typer._adapters", "typer.rich_utils", "uvloop", "aiohttp.web"),
    *(f"autorubric.synthesis.{name}" for name in ("gated", "quality", "synthesis_run", "evolution")),
    *("autorubric.files.strict_yaml", "autorubric.jobs.service_processes", "autorubric.testing.offline"),
    *("autorubric.linting.rule_table", "autorubric.synthesis.compiling"),
)
"""Modules that commands import on use, if they are installed."""


def load() -> None:
    """Import and build what commands need."""
    from autorubric import RubricDataset
    from autorubric.cli.app import COMMANDS, _build
    from autorubric.llm.http.prices import load_prices
    from autorubric.prompts.judging import package_judge_prompts

    for module in _LATE:
        with suppress(ImportError):
            import_module(module)
    for name in COMMANDS:
        _build(frozenset([name]))
    package_judge_prompts()
    load_prices()
    RubricDataset.from_json('{"prompt": "Why?", "rubric": [{"requirement": "Is brief."}], "items": []}')
    _prepare()


def _prepare() -> None:
    """Build what is built on first use: patterns and the models of settings."""
    from autorubric.core.wording import _LatePattern
    from autorubric.settings import Settings

    for made in gc.get_objects():
        if type(made) is _LatePattern:
            made.search("")
            made.search("é")
        elif type(made) is type(Settings) and issubclass(made, Settings):
            made.model_rebuild()


if __name__ == "__main__":
    load()
    serve("forked-python")
