"""Checks of the installation, disk, keys and endpoints."""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import platform
import re
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from autorubric import __version__
from autorubric.errors import pluralize
from autorubric.files import parse_json
from autorubric.files.descriptors import open_file_limits
from autorubric.llm.config import LLMConfig
from autorubric.llm.failure_groups import find_advice
from autorubric.llm.http.address import WEB_PAGE
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.providers import AZURE_KEY, Endpoint, is_builtin, list_providers, resolve
from autorubric.llm.http.retry import Fault
from autorubric.llm.http.transport import HttpReply, translate_error
from autorubric.llm.http.wire import read_answer
from autorubric.llm.records.lock import NETWORK, find_filesystem
from autorubric.llm.request import CallError, Message, Request

if TYPE_CHECKING:
    import aiohttp


DISTRIBUTION = "autorubric-hub"
PACKAGE = "autorubric"
_SYNCS = 40
_BLOCK = 4096
_SLOW_SYNC = 0.02  # seconds that a commit waits for the disk
_FEW_FILES = 1024
_MEGABYTES = 16


def check_environment(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Check versions, extras, limits, and which API keys are set (by name).

    Example:
        >>> found = {f.subject: f.value for f in check_environment({"OPENAI_API_KEY": "sk-planted"})}
        >>> found["keys"]
        'OPENAI_API_KEY'
    """
    yield DoctorFinding("autorubric", __version__)
    yield DoctorFinding("python", f"{platform.python_version()} ({sys.executable})")
    yield DoctorFinding(
        "system", f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores"
    )
    yield from _find_other_projects()
    yield from _check_packages()
    yield _check_open_files()
    providers = list_providers().values()
    names = {AZURE_KEY, *(name for provider in providers for name in provider.key_env)}
    keys = sorted(name for name in names if environ.get(name))
    if keys:
        yield DoctorFinding("keys", ", ".join(keys))
    else:
        yield DoctorFinding("keys", "none is set", "note", "set OPENAI_API_KEY or the like, or use a local endpoint")
    for provider in providers:
        if moved := environ.get(provider.base_url_env):
            address = urlsplit(moved).netloc.rpartition("@")[2] or "no address"
            yield DoctorFinding(provider.base_url_env, address, "note", f"used instead of {provider.base_url}")


_BACKPORTS = ((3, 44, 6), (3, 50, 7))
"""Earlier versions that also have the fix of 3.51.3 (https://sqlite.org/wal.html#walresetbug)."""


def check_sqlite(version: str = sqlite3.sqlite_version) -> DoctorFinding:
    """Check the version of SQLite for known bugs.

    Example:
        >>> check_sqlite("3.51.3").verdict, check_sqlite("3.52.0").verdict, check_sqlite("3.40.1").verdict
        ('ok', 'note', 'note')
        >>> check_sqlite("3.50.7").verdict, check_sqlite("3.50.6").verdict
        ('ok', 'note')
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if numbers == (3, 52, 0):
        advice = "this version was withdrawn; 3.51.3 or 3.53.0 and later are not affected"
    elif numbers < (3, 51, 3) and not any(fixed <= numbers < (3, fixed[1] + 1) for fixed in _BACKPORTS):
        advice = (
            "versions before 3.51.3, except 3.44.6 and 3.50.7, can corrupt a WAL file that several connections "
            "write; a ledger has one writer at a time, so it is not affected"
        )
    else:
        return DoctorFinding("sqlite", version)
    return DoctorFinding("sqlite", version, "note", advice)


def check_disk(directory: Path) -> Iterator[DoctorFinding]:
    """Check the filesystem, the free space, the writing speed, and the duration of a durable write.

    Example:
        >>> [f.verdict for f in check_disk(Path("/no/such/folder"))]
        ['problem']
    """
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".autorubric-doctor-") as folder:
            speed, sync = _measure_writing(Path(folder) / "block")
        free = shutil.disk_usage(directory).free
    except OSError as error:
        yield DoctorFinding(
            "disk", f"{directory}: {error.strerror}", "problem", "choose a run directory that can be written"
        )
        return
    kind = find_filesystem(directory) or "unknown"
    advice = "its locks and syncs cannot be trusted; choose a local disk for runs" if kind in NETWORK else ""
    yield DoctorFinding("filesystem", f"{kind} at {directory.resolve()}", "problem" if advice else "ok", advice)
    yield DoctorFinding("free space", f"{free / 1e9:.1f} GB")
    yield DoctorFinding("writing", f"{speed / 1e6:.0f} MB/s")
    slow = sync > _SLOW_SYNC
    advice = "each commit of a ledger waits for this; calls in flight share commits" if slow else ""
    yield DoctorFinding("sync", f"{sync * 1e3:.1f} ms (median of {_SYNCS})", "note" if slow else "ok", advice)


def _find_other_projects() -> Iterator[DoctorFinding]:
    """Find other distributions with a package called autorubric; the one installed last replaces our files."""
    others = {
        re.sub(r"[-_.]+", "-", found.name or "").lower(): found.version
        for found in (
            *importlib.metadata.distributions(name=PACKAGE),
            *filter(_has_our_package, importlib.metadata.distributions()),
        )
    }
    others.pop(DISTRIBUTION, None)
    for name, version in sorted(others.items()):
        advice = (
            f"another project that installs a package of the same name; run: pip uninstall {name}, "
            f"then: pip install --force-reinstall --no-deps {DISTRIBUTION}"
        )
        yield DoctorFinding(name, version, "problem", advice)


def _has_our_package(found: importlib.metadata.Distribution) -> bool:
    # `files` builds a path for each of some 30,000 lines, which took most of the command's time.
    if record := found.read_text("RECORD"):
        lines = f"\n{record}"
        return f"\n{PACKAGE}/" in lines or f'\n"{PACKAGE}/' in lines  # several times faster than a regex
    return any(file.parts[0] == PACKAGE for file in found.files or ())


def _check_packages() -> Iterator[DoctorFinding]:
    for name in ("aiohttp", "pydantic", "pyarrow", "numpy", "opentelemetry-api"):
        try:
            yield DoctorFinding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            if name == "opentelemetry-api":
                yield DoctorFinding(name, "not installed (optional: spans of model calls)")
            else:
                yield DoctorFinding(name, "missing", "problem", "run: pip install autorubric-hub")


def _check_open_files() -> DoctorFinding:
    limits = open_file_limits()
    if limits is None:
        return DoctorFinding("open files", "no limit is known on this system")
    soft, hard = limits
    if 0 <= soft < _FEW_FILES:
        return DoctorFinding(
            "open files", str(soft), "note", f"`ulimit -n {hard}` before runs with a high --concurrency"
        )
    return DoctorFinding("open files", "unlimited" if soft < 0 else str(soft))


def _measure_writing(path: Path) -> tuple[float, float]:
    """Bytes per second of one long write, and the median seconds of a small durable one."""
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


Verdict: TypeAlias = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that was checked.

    Attributes:
        subject: what was checked.
        value: what was found.
        verdict: `ok`, `note` (works, with a remark) or `problem`.
        advice: what to do, or what it means.
    """

    subject: str
    value: str
    verdict: Verdict = "ok"
    advice: str = ""


_NO_SUCH_PATH = frozenset({404, 405, 410, 501})
_SHORT_REPLY = 16  # tokens; some endpoints refuse a lower limit
_MOST_LISTED = 5
_TIMEOUT = 10.0  # seconds per answer
_LOADING_TIMEOUT = 120.0  # the same for a reply of a model, which servers such as Ollama load at the first request


@dataclass(frozen=True, slots=True)
class _ModelListing:
    """The answer to a request for the list of models; `models` is None if the endpoint does not list them."""

    status: int
    models: tuple[str, ...] | None
    seconds: float


async def check_endpoint(
    base_url: str | None = None,
    models: Sequence[str] = (),
    key_env: str | None = None,
    plain_http: bool = False,
) -> list[DoctorFinding]:
    """Check whether an endpoint answers, and whether each of the named models does.

    No tokens are generated, except a reply of a few tokens from each named model.

    Args:
        base_url: the address; by default that of the provider of the first model.
        models: the models to look for, all at this endpoint.
        key_env: the variable that contains the key.
        plain_http: whether the key may be sent over plain HTTP to any host.

    Raises:
        ConfigError: the address, the name or the key is invalid for any model.

    Example:
        >>> import asyncio
        >>> [found] = asyncio.run(check_endpoint("http://127.0.0.1:9/v1"))
        >>> found.verdict, found.advice
        ('problem', 'check the address, and that the server is running')
    """
    import aiohttp

    settings: dict[str, Any] = {
        "api_base": base_url,
        "api_key_env": key_env,
        "timeout": _LOADING_TIMEOUT,
        "allow_plain_http": plain_http,
    }
    configs = [LLMConfig(model, max_tokens=_SHORT_REPLY, max_retries=0, **settings) for model in models]
    endpoint = resolve(configs[0] if configs else LLMConfig("doctor", **settings))
    if is_builtin(endpoint.name):
        return [DoctorFinding("model", f"{endpoint.name}: runs in this process")]
    # A connection per request: servers silently close connections after an error.
    connector = aiohttp.TCPConnector(force_close=True)
    listed = None
    try:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT), connector=connector
        ) as session:
            listing = await _request_listing(session, endpoint)
            listed = listing.models
            found = await _assess_endpoint(session, endpoint, listing)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        words = translate_error(error, _TIMEOUT)
        is_cut = words.kind == "network" and words.maybe_billed  # a request with text may be answered
        verdict: Verdict = "note" if configs and is_cut else "problem"
        advice = "check the address, and that the server is running" + "; --model tries a model" * is_cut
        found = DoctorFinding("endpoint", f"{endpoint.base_url}: {words}", verdict, advice)
    if found.verdict == "problem":
        return [found]
    if configs:  # the findings on the models say more than an empty request
        found = replace(found, verdict="ok", advice="")
    return [found, *[await _check_model(config, listed) for config in configs]]


async def _request_listing(session: aiohttp.ClientSession, endpoint: Endpoint) -> _ModelListing:
    started = time.perf_counter()
    url, headers = endpoint.build_url("/models"), endpoint.build_authorization()
    async with session.get(url, headers=headers, allow_redirects=False) as answer:
        body = await answer.content.read(1 << 22)
        models = _parse_model_names(body) if answer.status == 200 else None
        return _ModelListing(answer.status, models, time.perf_counter() - started)


def _parse_model_names(body: bytes) -> tuple[str, ...] | None:
    """Return the names in a list of models, or None if the body is something else."""
    try:
        content: Any = parse_json(body.decode())
    except ValueError:
        return None
    entries = content.get("data", content.get("models")) if isinstance(content, dict) else content
    if not isinstance(entries, list):
        return None
    names = (entry.get("id", entry.get("name")) if isinstance(entry, dict) else entry for entry in entries)
    return tuple(name.removeprefix("models/") for name in names if isinstance(name, str))


async def _assess_endpoint(
    session: aiohttp.ClientSession, endpoint: Endpoint, listing: _ModelListing
) -> DoctorFinding:
    where, took = endpoint.base_url, f"after {listing.seconds * 1e3:.0f} ms"
    value = f"{where}: HTTP {listing.status} {took}"
    if 300 <= listing.status < 400:
        advice = "it redirects, and keys are not sent to other addresses; correct the base URL"
        return DoctorFinding("endpoint", value, "problem", advice)
    status = listing.status if listing.status in (401, 403) else await _request_chat_status(session, endpoint)
    if status in (401, 403):
        advice = "the key is missing or wrong; name its environment variable with --api-key-env"
        return DoctorFinding("endpoint", f"{where}: HTTP {status} {took}", "problem", advice)
    if status in _NO_SUCH_PATH or 300 <= status < 400:
        value = f"{where}: HTTP {listing.status} for /models, HTTP {status} for /chat/completions"
        return DoctorFinding("endpoint", value, "problem", await _suggest_address(session, endpoint))
    if listing.models is not None:
        return DoctorFinding("endpoint", f"{value}, {pluralize(len(listing.models), 'model')}")
    if status >= 500:
        value = f"{where}: HTTP {listing.status} for /models, HTTP {status} for an empty request"
        return DoctorFinding("endpoint", value, "note", "name a model with --model to see whether it answers")
    return DoctorFinding(
        "endpoint", f"{where}: takes chat completions; has no list of models (HTTP {listing.status})"
    )


async def _request_chat_status(session: aiohttp.ClientSession, endpoint: Endpoint) -> int:
    """Return the HTTP status of a request without messages, which generates nothing; the answer may correct it."""
    url, headers = endpoint.build_url("/chat/completions"), endpoint.build_authorization()
    async with session.post(url, json={}, headers=headers, allow_redirects=False) as answer:
        found = read_answer(HttpReply(answer.status, await answer.content.read(1 << 22)), 0.0)
        if not isinstance(found, Fault):
            return answer.status
        if found.kind == "auth" and answer.status != 403:
            return 401  # Gemini and xAI: 400
        is_missing = found.kind == "no_model" or found.message == WEB_PAGE  # LM Studio; pages to sign in
        return 404 if answer.status == 200 and is_missing else answer.status


async def _suggest_address(session: aiohttp.ClientSession, endpoint: Endpoint) -> str:
    """Return the corrected base URL, if something answers there."""
    root = urlsplit(endpoint.base_url)._replace(path="/v1").geturl()
    for base_url in dict.fromkeys((endpoint.build_url("/v1"), root)):
        other = replace(endpoint, base_url=base_url)
        if await _request_chat_status(session, other) not in _NO_SUCH_PATH:
            return f"the base URL is probably {other.base_url}, which answers"
    return "no chat completions endpoint found here; check the base URL, which usually ends in /v1"


async def _check_model(config: LLMConfig, listed: Sequence[str] | None) -> DoctorFinding:
    endpoint = resolve(config)
    name, where = endpoint.model, endpoint.base_url
    model = ChatModel(config)
    try:
        reply = await model.complete(Request((Message("user", "Hi"),), "doctor"))
    except CallError as error:
        failure = error.failure
        is_unknown = failure.kind in ("no_model", "rejected")
        advice = _suggest_models(name, listed) if is_unknown else find_advice(failure.kind, failure.message)
        return DoctorFinding("model", failure.message, "problem", advice)
    finally:
        await model.close()
    if listed is None or {name, f"{name}:latest"} & {*listed, reply.model}:
        return DoctorFinding("model", f"{name}: answers at {where}")
    served = f" as {reply.model!r}" if reply.model else ""
    return DoctorFinding(
        "model", f"{name}: answers at {where}{served}", "note", f"it is not listed; {_suggest_models(name, listed)}"
    )


def _suggest_models(name: str, listed: Sequence[str] | None) -> str:
    if not listed:
        return "check the model's name and the key"
    near = difflib.get_close_matches(name, listed, n=_MOST_LISTED, cutoff=0.4) or listed[:_MOST_LISTED]
    more = f" and {len(listed) - len(near)} more" if len(listed) > len(near) else ""
    return f"the endpoint lists {', '.join(near)}{more}"
