"""Requests to models, replies and failures, as frozen values without IO, and the protocol of models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from autorubric.core.values import value_class
from autorubric.errors import AutorubricError


class Message(NamedTuple):
    """One turn of a conversation; `role` is the protocol's: system, user or assistant."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON Schema a reply has to follow; `name` is what endpoints show in their logs.

    Attributes:
        name: of the schema.
        body: the schema, in the order in which a model is to fill it in.
        encoded: both as JSON, for the keys of the ledger; made once, as many requests share a schema.

    Example:
        >>> ReplySchema("verdict", {"type": "object"}).encoded
        b'["verdict",{"type":"object"}]'
    """

    name: str
    body: Mapping[str, Any]
    encoded: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        encoded = json.dumps((self.name, self.body), separators=(",", ":"), allow_nan=False, default=as_dict).encode()
        object.__setattr__(self, "encoded", encoded)


def as_dict(value: object) -> dict[str, Any]:
    """Return a mapping as the dict that JSON needs; a `TypeError` for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value and cannot be part of a request")


@value_class(frozen=True, slots=True)
class Request:
    """One request to one model.

    `messages`, `schema`, `draw`, `reask`, `seat` and `copy` are part of the ledger's key, and `max_tokens` if it is
    set, together with what the model adds (endpoint, model name, parameters). The rest is metadata.

    Attributes:
        messages: the conversation, oldest turn first.
        role: the part the model plays (reference, response, rubric, merge, augment, judge).
        schema: the shape of a structured reply, or None for plain text.
        draw: which independent sample of the same question this is, from 0.
        reask: how often the same draw was requested before, with an unreadable reply.
        item: the id of the record or dataset row that this is for.
        max_tokens: completion tokens allowed instead of the model's own limit; None for the model's own.
        room: completion tokens that the reply needs, judging by the prompt; 0 if unknown.
        cut_off: how often the request was sent before with a lower limit.
        cut_at: the limit of the last truncated reply; 0 if none was truncated.
        constrained: whether the endpoint has to constrain the reply to `schema`; False if a user's prompt asks for
            another shape.
        seat: which of several judges with the same request about one item this is, from 0.
        copy: which of several equal items this is for, from 0.
    """

    messages: tuple[Message, ...]
    role: str
    schema: ReplySchema | None = None
    draw: int = 0
    reask: int = 0
    item: str = ""
    max_tokens: int | None = None
    room: int = 0
    cut_off: int = 0
    cut_at: int = 0
    seat: int = 0
    copy: int = 0
    constrained: bool = True


@value_class(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls, as the endpoint counted them.

    Attributes:
        prompt_tokens: of the prompts, cached tokens included.
        completion_tokens: of the replies, reasoning included.
        cached_tokens: of the prompts, those read from a cache.
        reasoning_tokens: of the replies, those of reasoning.
        cache_write_tokens: of the prompts, those written to a cache.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


FinishReason: TypeAlias = Literal["stop", "length", "content_filter", "tool_calls", "other"]


@value_class(frozen=True, slots=True)
class Reply:
    """A model's reply, as it was paid for.

    Attributes:
        text: the content; empty if the model sent none.
        finish_reason: why the model stopped; `length` means that the text is truncated.
        refusal: the model's own words if it refused in the protocol's field for refusals.
        reasoning: the thinking trace, if the endpoint sent one.
        model: the model's name as the endpoint reports it.
        usage: tokens as counted by the endpoint; None if it sent no counts.
        cost: dollars, or None if the model's price is unknown (never a made-up 0).
        latency: seconds from sending the successful attempt to its last byte.
        attempts: HTTP requests that this reply took, failed ones included.
        fresh: whether this session paid for it rather than an earlier one.
        limit: the token limit of a truncated reply, 0 if unknown; None for complete replies and for those recorded
            by earlier versions.
    """

    text: str
    finish_reason: FinishReason = "stop"
    refusal: str | None = None
    reasoning: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    latency: float = 0.0
    attempts: int = 1
    fresh: bool = True
    limit: int | None = None


FailureKind: TypeAlias = Literal[
    "auth",  # 401, 403: the key is wrong; ends the run
    "quota",  # 402, or a 429 that says the credit is used up; ends the run
    "unreachable",  # nothing ever answered at the address; ends the run
    "no_model",  # 404 or 400 about the model's name; ends the run
    "unusable",  # no reply of the model was usable; ends the run
    "no_reply",  # no request to the model had a reply; ends the run
    "rejected",  # 400, 413, 422: this request is not acceptable
    "rate_limit",  # 429 after all retries
    "server",  # 5xx after all retries
    "network",  # reset, refused, truncated body, not JSON, after all retries
    "timeout",
    "refusal",  # the model refused, or a content filter did
    "truncated",  # finish_reason=length, and the whole text is needed
    "empty",  # no content
    "unreadable",  # the reply has no usable value, after all re-asks
    "budget",  # the budget does not cover this call
    "stopped",  # the run was stopped before this call was made
    "missing_input",  # an earlier step of the same record failed
]

ENDS_RUN = frozenset(("auth", "quota", "no_model", "unreachable", "unusable", "no_reply", "budget", "stopped"))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no usable reply; returned instead of a result.

    Attributes:
        kind: the class of the failure.
        message: one sentence, with the endpoint's own words if it sent any.
        status: the HTTP status, if there was one.
        attempts: HTTP requests made.
        reply: the unusable reply, kept as evidence.
        sent: False if nothing reached the endpoint (unknown host, refused connection) and so nothing was billed.
        end: the failure that ends the run, if this one completes a series that does; else None.
    """

    kind: FailureKind
    message: str
    status: int | None = None
    attempts: int = 0
    reply: Reply | None = None
    sent: bool = True
    end: Failure | None = None

    @property
    def ends_run(self) -> bool:
        """Whether no further call to this endpoint can succeed."""
        return self.kind in ENDS_RUN or self.end is not None

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class CallError(AutorubricError):
    """A model call failed; `failure` has the reason."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reply without the value that was requested.

    Attributes:
        kind: the kind of failure if re-asks do not help.
        message: what is wrong with the reply, in one sentence; a re-ask quotes it.
        again: whether a re-ask could succeed.
        form: what kind of JSON the reply is instead, in words; empty if it is not JSON.
        ambiguous: whether the reply has several values, so that reading it in another way could find the wrong one.
    """

    kind: FailureKind
    message: str
    again: bool = True
    form: str = ""
    ambiguous: bool = False


@value_class(frozen=True, slots=True)
class Answer(Generic[T]):
    """A value read from a reply, the reply, and notes on what had to be ignored or repaired to read it."""

    value: T
    reply: Reply
    notes: tuple[str, ...] = ()


_MOST_QUOTED = 8000  # characters of the unreadable reply in a re-ask


def build_reask(request: Request, reply: Reply, problem: Unreadable, correction: Iterable[Message]) -> Request:
    """Return the re-ask after an unreadable reply, with the reply and what is wrong with it.

    There is nothing to correct in a truncated or empty reply; the same request is repeated.

    Example:
        >>> asked = Request((Message("user", "Is it met?"),), role="judge")
        >>> problem = Unreadable("unreadable", "the reply holds no JSON object")
        >>> again = build_reask(asked, Reply("Yes."), problem, [Message("user", "Reply as JSON.")])
        >>> [message.content for message in again.messages]
        ['Is it met?', 'Yes.', 'Reply as JSON.']
    """
    if problem.kind != "unreadable":
        return request
    message = Message("assistant", reply.text[:_MOST_QUOTED])
    return replace(request, messages=(*request.messages, message, *correction))


class Model(Protocol):
    """Something that answers requests: an HTTP endpoint, the offline model, or a script.

    A model owns its transport, retries and rate limits. The executor adds the ledger and the budget.
    """

    @property
    def name(self) -> str:
        """The canonical `provider/model` string, as rows and summaries show it."""

    def identity(self) -> tuple[Any, ...]:
        """Return everything of the model that shapes a reply and is not in the request.

        Endpoint, model name, sampling parameters and extra parameters; never a key. JSON values only.
        """

    def ceiling(self, request: Request) -> Usage | None:
        """Return the most tokens this request can be billed for, or None without a bound."""

    def cost(self, usage: Usage) -> float | None:
        """Return the price of `usage` in dollars; None if it is unknown."""

    async def complete(self, request: Request) -> Reply:
        """Answer one request, retries included; a `CallError` if the call fails for good."""

    async def close(self) -> None:
        """Release connections."""
