"""Passes each attempt of a call to watchers: a log with one JSON line per attempt, and OpenTelemetry spans.

Spans follow OpenTelemetry's GenAI conventions and need its API to be installed. This package depends on no part of
OpenTelemetry and configures none: without a tracer provider set up by the user, nothing is recorded or sent.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from autorubric.errors import InputError
from autorubric.files.descriptors import open_nonblocking
from autorubric.files.strict_json import encode_json
from autorubric.llm.request import Failure, Reply, Request

_LONGEST_HEAD = 64 * 2**20  # bytes; with --log-prompts a line holds a prompt
_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai", "azure": "azure.ai.openai"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP request for one call, once it has ended.

    Attributes:
        request: what was requested.
        model: the canonical `provider/model` string.
        served: the model's name at the endpoint.
        base_url: the endpoint's address; empty for a model in this process.
        number: the number of the attempt within its call, from 1.
        ended: seconds since the epoch.
        seconds: from sending to the last byte.
        outcome: the reply, or what went wrong.
        retry_in: seconds until the next attempt of the call; None if this was the last.
    """

    request: Request
    model: str
    served: str
    base_url: str
    number: int
    ended: float
    seconds: float
    outcome: Reply | Failure
    retry_in: float | None = None

    @property
    def reply(self) -> Reply | None:
        """The reply, usable or not."""
        return self.outcome.reply if isinstance(self.outcome, Failure) else self.outcome


Watcher: TypeAlias = Callable[[Attempt], None]

_named = True
"""Whether the environment names a tracer provider, when a model was last opened."""

watchers: list[Watcher] = []
"""Called with each attempt. Models create no `Attempt` without a watcher (`is_watched`)."""


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Call `watcher` with every attempt of this process while the context is open.

    Example:
        >>> import asyncio
        >>> from autorubric.testing.offline import OfflineModel
        >>> seen = []
        >>> with watched_by(seen.append):
        ...     reply = asyncio.run(OfflineModel().complete(Request(messages=(), role="response")))
        >>> [(attempt.model, attempt.number, attempt.outcome is reply) for attempt in seen]
        [('builtin/offline', 1, True)]
    """
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.remove(watcher)


def is_watched() -> bool:
    """Return whether attempts are observed: a log is open, or the user has set up OpenTelemetry."""
    if len(watchers) != 1 or watchers[0] is not _record_span:
        return bool(watchers)
    return _has_destination()


def emit(attempt: Attempt) -> None:
    """Pass an attempt on to all watchers."""
    for watcher in tuple(watchers):
        watcher(attempt)


@contextmanager
def attempt_log(path: Path | None, run: str = "", *, prompts: bool = False) -> Iterator[None]:
    """Append a line to `path` for every attempt that ends while the context is open.

    The lines contain no prompt, no reply and no words of an endpoint, which may quote a prompt, unless `prompts` is
    set. Only the owner can read the file. If the disk fills up, the log ends and the run goes on.

    Args:
        path: the log; `-` for standard output; None for no log at all.
        run: the name of the run in the lines.
        prompts: write messages and replies as well.

    Raises:
        InputError: the file cannot be written.

    Example:
        >>> import asyncio, json, tempfile
        >>> from autorubric.testing.offline import OfflineModel
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with attempt_log(Path(folder) / "calls.jsonl", "demo"):
        ...         _ = asyncio.run(OfflineModel().complete(Request((), "response", item="q1")))
        ...     line = json.loads((Path(folder) / "calls.jsonl").read_text())
        >>> line["run"], line["item"], line["role"], line["attempt"], line["status"]
        ('demo', 'q1', 'response', 1, 'ok')
    """
    if path is None:
        yield
        return
    with _open_log(path) as put:
        failed = False

        def write(attempt: Attempt) -> None:
            nonlocal failed
            if failed:
                return
            try:
                # One write a line and no buffer, so that a kill loses nothing and several processes can share a file.
                put(encode_json(_build_line(attempt, run, prompts)) + b"\n")
            except (OSError, ValueError) as error:
                failed = True
                print(f"autorubric: the log of attempts ends here: {error}", file=sys.stderr)

        with watched_by(write):
            yield


def _build_line(attempt: Attempt, run: str, prompts: bool) -> dict[str, Any]:
    request, reply = attempt.request, attempt.reply
    failure = attempt.outcome if isinstance(attempt.outcome, Failure) else None
    usage = None if reply is None else reply.usage
    time = datetime.fromtimestamp(attempt.ended, UTC).isoformat(timespec="milliseconds")
    line = {
        "time": time.replace("+00:00", "Z"),
        "run": run,
        "item": request.item,
        "role": request.role,
        "draw": request.draw,
        "reask": request.reask + request.cut_off,
        "model": attempt.model,
        "endpoint": urlsplit(attempt.base_url).netloc.rpartition("@")[2],
        "attempt": attempt.number,
        "status": "ok" if failure is None else failure.kind,
        "http_status": None if failure is None else failure.status,
        "seconds": round(attempt.seconds, 4),
        "prompt_tokens": usage and usage.prompt_tokens,
        "completion_tokens": usage and usage.completion_tokens,
        "cached_tokens": usage and usage.cached_tokens,
        "cost": None if reply is None else reply.cost,
        "retry_in": None if attempt.retry_in is None else round(attempt.retry_in, 3),
    }
    if prompts:
        line["messages"] = [{"role": role, "content": text} for role, text in request.messages]
        line["reply"] = None if reply is None else reply.text
        line["error"] = None if failure is None else failure.message
    return line


@contextmanager
def _open_log(path: Path) -> Iterator[Callable[[bytes], object]]:
    if str(path) == "-":
        yield _write_to_standard_output
        return
    _refuse_other_content(path)
    try:
        # Without this, opening a pipe without a reader would block.
        descriptor = open_nonblocking(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise InputError(f"--log-json {path}: cannot be written: {error.strerror}") from error
    try:
        yield partial(os.write, descriptor)
    finally:
        os.close(descriptor)


def _refuse_other_content(path: Path) -> None:
    """Refuse a file that exists and is not an earlier log, such as the input of the run."""
    if not str(path).isprintable():
        raise InputError(
            f"--log-json {str(path)!a}: contains characters that cannot be displayed; choose another name"
        )
    try:
        if not path.is_file() or not path.stat().st_size:
            return
        with path.open("rb") as file:
            head = json.loads(file.readline(_LONGEST_HEAD))
    except OSError as error:
        raise InputError(f"--log-json {path}: cannot be read: {error.strerror}") from error
    except ValueError:
        head = None
    if not isinstance(head, dict) or not head.keys() >= {"time", "run", "attempt", "status"}:
        raise InputError(f"--log-json {path}: exists already and is not a log of attempts; choose another name")


def _write_to_standard_output(line: bytes) -> None:
    # The commands print everything else on standard error meanwhile.
    out = (sys.stdout is sys.stderr and sys.__stdout__) or sys.stdout
    out.write(line.decode("utf-8", "replace"))
    out.flush()


def trace_calls() -> bool:
    """Create a span for every attempt from now on; False if OpenTelemetry's API is not installed."""
    global _named  # noqa: PLW0603 - the environment is one for the process
    _named = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
    if _record_span in watchers:
        return True
    try:
        import opentelemetry.trace  # noqa: F401 - also waits for a thread that is importing it
    except ImportError:
        return False
    watchers.append(_record_span)
    return True


def _has_destination() -> bool:
    """Return whether the user has set up a destination for spans."""
    trace = sys.modules["opentelemetry.trace"]
    # For speed: where nothing is set up, as usual, OpenTelemetry would read the environment at every call.
    if getattr(trace, "_TRACER_PROVIDER", trace) is None and not _named:
        return False
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def find_span_attributes(attempt: Attempt) -> dict[str, Any]:
    """The attributes of an attempt's span that have a value; those not in the conventions start with `autorubric.`.

    Example:
        >>> from autorubric.llm.request import Usage
        >>> asked = Request((), "judge", item="e1")
        >>> reply = Reply("MET", usage=Usage(90, 10))
        >>> found = find_span_attributes(
        ...     Attempt(asked, "openai/m", "m", "http://localhost:80/v1", 1, 0.0, 0.2, reply))
        >>> found["gen_ai.provider.name"], found["gen_ai.request.model"], found["gen_ai.usage.input_tokens"]
        ('openai', 'm', 90)
    """
    request, outcome, reply = attempt.request, attempt.outcome, attempt.reply
    where = urlsplit(attempt.base_url)
    provider = attempt.model.partition("/")[0]
    found: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": attempt.served,
        "gen_ai.output.type": "text" if request.schema is None else "json",
        "server.address": where.hostname,
        "server.port": where.port,
        "http.request.resend_count": attempt.number - 1 or None,
        "autorubric.role": request.role,
        "autorubric.item": request.item,
        "autorubric.draw": request.draw,
        "autorubric.retry_in": attempt.retry_in,
    }
    if isinstance(outcome, Failure):
        found |= {"error.type": outcome.kind, "http.response.status_code": outcome.status}
    if reply is not None:
        found |= {"gen_ai.response.model": reply.model, "gen_ai.response.finish_reasons": (reply.finish_reason,)}
        if reply.usage is not None:
            found["gen_ai.usage.input_tokens"] = reply.usage.prompt_tokens
            found["gen_ai.usage.output_tokens"] = reply.usage.completion_tokens
            found["gen_ai.usage.cache_read.input_tokens"] = reply.usage.cached_tokens
    return {name: value for name, value in found.items() if value is not None}


def _record_span(attempt: Attempt) -> None:
    """Return a span with the times of an attempt that has ended; its parent is the current span."""
    from opentelemetry.trace import SpanKind, StatusCode, get_tracer

    if not _has_destination():
        return
    ended = int(attempt.ended * 1e9)
    span = get_tracer("autorubric").start_span(
        f"chat {attempt.served}",
        kind=SpanKind.CLIENT,
        attributes=find_span_attributes(attempt),
        start_time=ended - int(attempt.seconds * 1e9),
    )
    if isinstance(attempt.outcome, Failure):
        span.set_status(StatusCode.ERROR, attempt.outcome.kind)
    span.end(end_time=ended)
