"""OpenTelemetry spans of calls to models, by its GenAI conventions, where its API is installed.

This package depends on no part of OpenTelemetry and configures none: without a tracer provider of the user's nothing
is recorded and nothing is sent. Spans hold no prompt and no reply.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from autorubric.llm.attempts import Attempt, watchers
from autorubric.llm.request import Failure

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_SCOPE = "autorubric"
_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai", "azure": "azure.ai.openai"}
_INSTALLED = "opentelemetry.trace"


def trace_calls() -> bool:
    """Make a span of every attempt from now on; False where OpenTelemetry's API is not installed.

    Does nothing the second time.

    Example:
        >>> import importlib.util
        >>> found = trace_calls() == bool(importlib.util.find_spec("opentelemetry"))
        >>> stop_tracing()
        >>> found
        True
    """
    if _record in watchers:
        return True
    if _INSTALLED not in sys.modules:
        try:
            import opentelemetry.trace  # noqa: F401
        except ImportError:
            return False
    watchers.append(_record)
    return True


def stop_tracing() -> None:
    """Make no span any more.

    Example:
        >>> stop_tracing()
    """
    if _record in watchers:
        watchers.remove(_record)


def attributes_of(attempt: Attempt) -> dict[str, Any]:
    """The attributes of an attempt's span, those that have a value.

    `gen_ai.*`, `server.*`, `http.*` and `error.type` are as the conventions have them; ours start with `autorubric.`.

    Example:
        >>> from autorubric.llm.request import Reply, Request, Usage
        >>> asked = Request((), "judge", item="e1")
        >>> reply = Reply("MET", usage=Usage(90, 10))
        >>> found = attributes_of(Attempt(asked, "openai/m", "m", "http://localhost:80/v1", 1, 0.0, 0.2, reply))
        >>> found["gen_ai.provider.name"], found["gen_ai.request.model"], found["gen_ai.usage.input_tokens"]
        ('openai', 'm', 90)
    """
    request, outcome = attempt.request, attempt.outcome
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
    reply = outcome.reply if isinstance(outcome, Failure) else outcome
    if reply is not None:
        found |= {"gen_ai.response.model": reply.model, "gen_ai.response.finish_reasons": (reply.finish_reason,)}
        if reply.usage is not None:
            found["gen_ai.usage.input_tokens"] = reply.usage.prompt_tokens
            found["gen_ai.usage.output_tokens"] = reply.usage.completion_tokens
            found["gen_ai.usage.cache_read.input_tokens"] = reply.usage.cached_tokens
    return {name: value for name, value in found.items() if value is not None}


def _record(attempt: Attempt) -> None:
    """A span with the times of an attempt that has ended; its parent is whatever span is current."""
    from opentelemetry.trace import ProxyTracerProvider, SpanKind, StatusCode, get_tracer_provider

    if isinstance(get_tracer_provider(), ProxyTracerProvider):
        return  # nobody has set up where spans go
    ended = int(attempt.ended * 1e9)
    span = _tracer().start_span(
        f"chat {attempt.served}",
        kind=SpanKind.CLIENT,
        attributes=attributes_of(attempt),
        start_time=ended - int(attempt.seconds * 1e9),
    )
    if isinstance(attempt.outcome, Failure):
        span.set_status(StatusCode.ERROR, attempt.outcome.kind)
    span.end(end_time=ended)


def _tracer() -> Tracer:
    from opentelemetry.trace import get_tracer

    return get_tracer(_SCOPE)
