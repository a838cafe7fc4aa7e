"""What this machine offers a run, and what would get in its way: one finding a line."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from autorubric import __version__
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.providers import PROVIDERS, resolve
from autorubric.llm.records.directory import filesystem_of

Verdict: TypeAlias = Literal["ok", "note", "problem"]

_OPTIONAL = {
    "opentelemetry-api": "spans of model calls",
}
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb", "smb3", "smbfs", "fuse.sshfs"})
_SYNCS = 40
_BLOCK = 4096
_SLOW_SYNC = 0.02  # seconds; a commit waits this long for the disk
_FEW_FILES = 1024
_MEGABYTES = 16


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what.
        value: what was found.
        verdict: `ok`, `note` (works, but worth knowing) or `problem`.
        advice: what to do about it, or what it means.
    """

    subject: str
    value: str
    verdict: Verdict = "ok"
    advice: str = ""


def environment_findings(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Versions, extras, limits, and the keys that are set, by name.

    Example:
        >>> found = {f.subject: f.value for f in environment_findings({"OPENAI_API_KEY": "sk-planted"})}
        >>> found["keys"]
        'OPENAI_API_KEY'
    """
    yield Finding("autorubric", __version__)
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("system", f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores")
    yield from _packages()
    yield _open_files()
    names = {name for provider in PROVIDERS.values() for name in provider.key_env}
    keys = sorted(name for name in names if environ.get(name))
    if keys:
        yield Finding("keys", ", ".join(keys))
    else:
        yield Finding("keys", "none is set", "note", "set OPENAI_API_KEY or the like, or use a local endpoint")
    for provider in PROVIDERS.values():
        moved = environ.get(provider.base_url_env)
        if moved:
            yield Finding(provider.base_url_env, urlsplit(moved).netloc.rpartition("@")[2] or "no address", "note")


def sqlite_finding(version: str = sqlite3.sqlite_version) -> Finding:
    """The version of SQLite, and which of its known faults it has.

    Example:
        >>> sqlite_finding("3.51.3").verdict, sqlite_finding("3.52.0").verdict, sqlite_finding("3.40.1").verdict
        ('ok', 'note', 'note')
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if numbers == (3, 52, 0):
        return Finding("sqlite", version, "note", "this version was withdrawn; 3.51.3 or 3.53.0 and later are sound")
    if numbers < (3, 51, 3):
        advice = (
            "a race can damage a file in WAL mode that several connections write (mended in 3.51.3); a ledger has "
            "one writing connection and a lock, so it is not met here"
        )
        return Finding("sqlite", version, "note", advice)
    return Finding("sqlite", version)


def disk_findings(directory: Path) -> Iterator[Finding]:
    """Filesystem, free space, writing speed, and how long a write takes to be durable there.

    Example:
        >>> [f.verdict for f in disk_findings(Path("/no/such/folder"))]
        ['problem']
    """
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".autorubric-doctor-") as folder:
            speed, sync = _writing(Path(folder) / "block")
        free = os.statvfs(directory)
    except OSError as error:
        yield Finding(
            "disk", f"{directory}: {error.strerror}", "problem", "choose a run directory that can be written"
        )
        return
    kind = filesystem_of(directory)
    if kind in _NETWORK:
        advice = "locks and syncs cannot be trusted on it; choose a run directory on a local disk"
        yield Finding("filesystem", kind or "", "problem", advice)
    else:
        yield Finding("filesystem", f"{kind or 'unknown'} at {directory.resolve()}")
    yield Finding("free space", f"{free.f_bavail * free.f_frsize / 1e9:.1f} GB")
    yield Finding("writing", f"{speed / 1e6:.0f} MB/s")
    value = f"{sync * 1e3:.1f} ms (median of {_SYNCS})"
    if sync > _SLOW_SYNC:
        yield Finding("sync", value, "note", "each commit of a ledger waits for this; calls in flight share commits")
    else:
        yield Finding("sync", value)


async def endpoint_finding(base_url: str, key_env: str | None = None, timeout: float = 10.0) -> Finding:
    """Whether an endpoint answers, asked for its list of models: nothing is generated and nothing is billed.

    Raises:
        ConfigError: the address is none that a model could have.

    Example:
        >>> import asyncio
        >>> asyncio.run(endpoint_finding("http://127.0.0.1:9/v1")).verdict
        'problem'
    """
    import aiohttp

    endpoint = resolve(LLMConfig("doctor", api_base=base_url, api_key_env=key_env))
    headers = {"Authorization": f"Bearer {endpoint.key.reveal()}"} if endpoint.key else {}
    started = time.perf_counter()
    limit = aiohttp.ClientTimeout(total=timeout)
    try:
        async with aiohttp.ClientSession(timeout=limit) as session:
            url = f"{endpoint.base_url}/models"
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                status = answer.status
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        words = f"no answer within {timeout:g} s" if isinstance(error, TimeoutError) else _plain(error)
        return Finding(
            "endpoint", f"{endpoint.base_url}: {words}", "problem", "is the address right, and it running?"
        )
    return _answered(endpoint.base_url, status, time.perf_counter() - started)


def _answered(base_url: str, status: int, seconds: float) -> Finding:
    value = f"{base_url}: HTTP {status} after {seconds * 1e3:.0f} ms"
    if status in (401, 403):
        return Finding(
            "endpoint", value, "problem", "it wants a key, or another one; name its variable with --key-env"
        )
    if 200 <= status < 300 or status == 405:
        return Finding("endpoint", value)
    if status == 404:
        return Finding("endpoint", value, "note", "it answers, but has no list of models; check the path, often /v1")
    return Finding("endpoint", value, "problem", "it answers, but not well")


def _packages() -> Iterator[Finding]:
    for name in ("aiohttp", "pydantic", "pyarrow", "numpy", "zstandard"):
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "missing", "problem", "install autorubric again")
    for name, purpose in _OPTIONAL.items():
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "not installed", "note", f"only needed for {purpose}")


def _open_files() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _FEW_FILES:
        return Finding("open files", str(soft), "note", f"`ulimit -n {hard}` before runs with a high --concurrency")
    return Finding("open files", "unlimited" if soft < 0 else str(soft))


def _writing(path: Path) -> tuple[float, float]:
    """Bytes a second of one long write, and the median seconds of a small durable one."""
    block, waits = os.urandom(_BLOCK), []
    with path.open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            started = time.perf_counter()
            file.write(block)
            os.fsync(file.fileno())
            waits.append(time.perf_counter() - started)
        large = os.urandom(1 << 20)
        started = time.perf_counter()
        for _ in range(_MEGABYTES):
            file.write(large)
        os.fsync(file.fileno())
        speed = (_MEGABYTES << 20) / (time.perf_counter() - started)
    return speed, statistics.median(waits)


def _plain(error: Exception) -> str:
    return str(error) or type(error).__name__
