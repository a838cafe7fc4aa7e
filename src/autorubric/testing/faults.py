"""Faults of model endpoints by name, plans of when they occur, and latencies of simulated calls."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal, TypeAlias

from autorubric.errors import ConfigError
from autorubric.testing.completion import Completion

Action: TypeAlias = Literal["answer", "reset", "hang", "cut", "endless", "huge"]
Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: its name in counts.
        status: the HTTP status of the answer.
        headers: headers added to the answer.
        body: sent instead of the completion.
        change: changes the completion, if the answer is a 200 with a completion.
        action: what happens to the connection: `reset` and `hang` never answer, `cut` closes in the middle
            of the body, `endless` never stops sending one, `huge` sends 200 MB.

    Example:
        >>> Fault("teapot", status=418, body=b"{}").status
        418
    """

    name: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    change: Callable[[Completion], Completion] | None = None
    action: Action = "answer"


def dump_error(message: str, kind: str, code: str | None = None, param: str | None = None) -> bytes:
    """Return the body of an error as OpenAI-compatible endpoints send it.

    Example:
        >>> dump_error("No such model.", "invalid_request_error", "model_not_found")
        b'{"error": {"message": "No such model.", "type": "invalid_request_error", "param": null, "code":
        "model_not_found"}}'
    """
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


def build_unsupported(parameter: str) -> Fault:
    """Return the 400 of an endpoint that does not support `parameter`, in OpenAI's words.

    Args:
        parameter: a key of the request body, or `response_format.json_schema` for one kind of it.

    Example:
        >>> json.loads(build_unsupported("temperature").body)["error"]["code"]
        'unsupported_value'
    """
    name = parameter.partition(".")[0]
    if name == "temperature":
        message = (
            "Unsupported value: 'temperature' does not support this value with this model."
            " Only the default (1) value is supported."
        )
        return _build_error(400, message, "unsupported_value", param=name)
    if name == "response_format":
        message = "Invalid parameter: 'response_format' of this type is not supported with this model."
        return _build_error(400, message, None, param=name)
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}.get(name)
    advice = f" Use '{other}' instead." if other else ""
    message = f"Unsupported parameter: '{name}' is not supported with this model.{advice}"
    return _build_error(400, message, "unsupported_parameter", param=name)


def _build_error(status: int, message: str, code: str | None, *, param: str | None = None, name: str = "") -> Fault:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return Fault(name or str(status), status, body=dump_error(message, kind, code, param))


def _build_rate_limit(name: str, retry_after: str | None) -> Fault:
    headers = () if retry_after is None else (("Retry-After", retry_after),)
    body = dump_error("Rate limit reached for requests.", "requests", "rate_limit_exceeded")
    return Fault(name, 429, headers, body)


def _alter(name: str, change: Callable[[Completion], Completion]) -> Fault:
    return Fault(name, change=change)


def _truncate(completion: Completion) -> Completion:
    content = completion.content or ""
    return Completion(content[: len(content) // 2], "length")


def _strip_fence(completion: Completion) -> str:
    """Return the content without a fence around it."""
    content = (completion.content or "").strip()
    if content.startswith("```"):
        content = content.split("\n", 1)[-1].rsplit("```", 1)[0].strip()
    return content


_REFUSAL = "I'm sorry, but I can't help with that."
_NO_CREDIT = "You exceeded your current quota, please check your plan and billing details."
_FILTERED = "The response was filtered due to the prompt triggering the content management policy."

_ALL: tuple[Fault, ...] = (
    # rate limits and credit
    _build_rate_limit("429", None),
    _build_rate_limit("429-seconds", "1"),
    _build_rate_limit("429-date", "Wed, 21 Oct 2015 07:28:00 GMT"),
    _build_rate_limit("429-nan", "NaN"),
    _build_rate_limit("429-huge", "86400000"),
    Fault("429-quota", 429, body=dump_error(_NO_CREDIT, "insufficient_quota", "insufficient_quota")),
    _build_error(402, "Insufficient credits. Add more to go on.", None),
    # client errors
    _build_error(401, "Incorrect API key provided.", "invalid_api_key"),
    _build_error(403, "You are not allowed to use this model.", None),
    _build_error(404, "The model does not exist or you do not have access to it.", "model_not_found"),
    _build_error(413, "Request too large.", None),
    _build_error(422, "Unprocessable entity.", None),
    _build_error(400, _FILTERED, "content_filter", name="400-content-filter"),
    *(
        replace(build_unsupported(p), name=f"400-{p.replace('_', '-')}")
        for p in ("max_tokens", "max_completion_tokens", "temperature", "response_format")
    ),
    # server errors
    _build_error(500, "The server had an error while processing your request. You can retry your request.", None),
    Fault("502", 502, (("Content-Type", "text/html"),), b"<html><body><h1>502 Bad Gateway</h1></body></html>"),
    _build_error(503, "The engine is currently overloaded.", None),
    _build_error(529, "Overloaded.", "overloaded_error"),
    # connection errors
    Fault("reset", action="reset"),
    Fault("hang", action="hang"),
    Fault("truncated-body", action="cut"),
    Fault("endless-body", action="endless"),
    Fault("huge-body", action="huge"),
    Fault("redirect", 307, body=b""),
    # a 200 without a completion
    Fault("html", headers=(("Content-Type", "text/html"),), body=b"<html><body>Welcome</body></html>"),
    Fault("no-choices", body=b'{"id": "x", "object": "chat.completion", "choices": []}'),
    Fault("error-in-200", body=dump_error("Provider returned error.", "server_error")),
    # a completion that cannot be used unchanged
    _alter("prose", lambda c: Completion("Here is what I think: it depends on the case.")),
    _alter("wrong-schema", lambda c: Completion('{"verdict_text": "fine", "items": {"first": 1}}')),
    _alter("broken-json", lambda c: Completion(_strip_fence(c)[:-2] + ",,")),
    _alter("prose-around", lambda c: Completion(f"Sure [as asked]:\n\n```json\n{_strip_fence(c)}\n```\n\nDone [1].")),
    _alter("fenced", lambda c: Completion(f"```json\n{_strip_fence(c)}\n```")),
    _alter("think", lambda c: Completion(f"<think>Perhaps [3 to 5] items.</think>\n{c.content or ''}")),
    _alter("refusal", lambda c: Completion(None, refusal=_REFUSAL)),
    _alter("content-filter", lambda c: Completion("", "content_filter")),
    _alter("empty", lambda c: Completion("")),
    _alter("null", lambda c: Completion(None)),
    _alter("length", _truncate),
)
FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _ALL}
"""Every named fault; `429-quota` and `402` mean that there is no credit, `429-huge` states a wait of 1,000 days, and
`redirect` leads to another host."""


def find_fault(name: str | Fault) -> Fault:
    """Return the fault of that name; a `Fault` is returned unchanged.

    Raises:
        ConfigError: the fault is unknown; the message lists the known ones.

    Example:
        >>> find_fault("reset").action
        'reset'
    """
    if isinstance(name, Fault):
        return name
    if name not in FAULTS:
        raise ConfigError(f"unknown fault {name!r}; expected one of {', '.join(FAULTS)}")
    return FAULTS[name]


@dataclass(frozen=True)
class FaultPlan:
    """When each fault happens; the precedence is `choose`, `schedule`, `rates`.

    Attributes:
        rates: the share of calls, 0 to 1, that get each fault.
        schedule: the faults of the first calls in order of arrival; None means no fault.
        choose: returns the fault for a request body, or None.

    Raises:
        ConfigError: a fault is unknown, or the rates are not shares of one.

    Example:
        >>> plan = FaultPlan(schedule=["500", None])
        >>> [fault and fault.name for fault in (plan.choose_fault({}, n, Random(0)) for n in range(3))]
        ['500', None, None]
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    schedule: Sequence[str | Fault | None] = ()
    choose: Callable[[Body], str | Fault | None] | None = None

    def __post_init__(self) -> None:
        for name in (*self.rates, *(n for n in self.schedule if n is not None)):
            find_fault(name)
        if any(not 0 <= rate <= 1 for rate in self.rates.values()) or sum(self.rates.values()) > 1 + 1e-9:
            raise ConfigError(f"fault rates {dict(self.rates)} are not shares of one")

    def choose_fault(self, body: Body, index: int, random: Random) -> Fault | None:
        """Return the fault of the request with this index, or None."""
        name = self.choose(body) if self.choose else None
        if name is None and index < len(self.schedule):
            name = self.schedule[index]
        elif name is None and self.rates:
            name = self._draw(random.random())
        return None if name is None else find_fault(name)

    def _draw(self, point: float) -> str | None:
        for name, rate in self.rates.items():
            if point < rate:
                return name
            point -= rate
        return None


Faults: TypeAlias = (
    FaultPlan | Mapping[str, float] | Sequence[str | Fault | None] | Callable[[Body], str | Fault | None]
)


def build_fault_plan(faults: Faults) -> FaultPlan:
    """Return the plan of a mapping of rates, a schedule, or a function of the body.

    Example:
        >>> build_fault_plan({"500": 0.02}).rates
        {'500': 0.02}
    """
    if isinstance(faults, FaultPlan):
        return faults
    if isinstance(faults, Mapping):
        return FaultPlan(rates=faults)
    if callable(faults):
        return FaultPlan(choose=faults)
    return FaultPlan(schedule=faults)


_NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
_FORM = re.compile(
    rf"(?:fixed:(?P<fixed>{_NUMBER})|lognormal:(?P<median>{_NUMBER}),(?P<sigma>{_NUMBER}))"
    rf"(?:\+(?P<share>{_NUMBER})@(?P<slow>{_NUMBER}))?"
)


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of latencies: a median, a spread, and a share of very slow calls.

    Attributes:
        median: the median in seconds.
        sigma: the standard deviation of the logarithm (lognormal); with 0 every call takes `median`.
        slow_share: the share of calls, 0 to 1, that take `slow_seconds` instead.
        slow_seconds: seconds of a slow call.
    """

    median: float = 0.0
    sigma: float = 0.0
    slow_share: float = 0.0
    slow_seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Latency:
        """Return the distribution that `text` describes.

        Args:
            text: `fixed:SECONDS` or `lognormal:MEDIAN,SIGMA`, either followed by `+SHARE@SECONDS`.

        Raises:
            ConfigError: `text` has another form, or a share above 1.

        Example:
            >>> Latency.parse("lognormal:0.2,0.8+0.002@20")
            Latency(median=0.2, sigma=0.8, slow_share=0.002, slow_seconds=20.0)
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or float(match["share"] or 0) > 1:
            raise ConfigError(
                f"latency {text!r} is not 'fixed:SECONDS' or 'lognormal:MEDIAN,SIGMA',"
                " either followed by '+SHARE@SECONDS' with a share from 0 to 1"
            )
        return cls(
            float(match["fixed"] or match["median"]),
            float(match["sigma"] or 0),
            float(match["share"] or 0),
            float(match["slow"] or 0),
        )

    def sample(self, random: Random) -> float:
        """Return the duration of the next call in seconds.

        Example:
            >>> Latency.parse("fixed:0.2").sample(Random(1))
            0.2
        """
        if self.slow_share and random.random() < self.slow_share:
            return self.slow_seconds
        if not self.sigma or not self.median:
            return self.median
        return random.lognormvariate(math.log(self.median), self.sigma)
