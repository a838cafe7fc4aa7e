"""Completion limits of requests, and the tokens and cost to expect under them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autorubric.core.values import copy_with
from autorubric.llm.config import DEFAULT_CEILING
from autorubric.llm.records.call_rows import compute_key
from autorubric.llm.records.stores import Records
from autorubric.llm.request import Failure, Model, Reply, Request, Unreadable, Usage

_SMALLEST_STEP = 2048
_GUESSED_LENGTH = 4096  # assumed for an endpoint that was given no limit and counts no tokens
NOTE = "reply limits"


class Limit(NamedTuple):
    """The limits of one model.

    Attributes:
        own: completion tokens by its configuration, part of its identity; None if it sets none.
        ceiling: the highest limit of any request.
        fixed: whether a user chose `own`; otherwise a request that needs more room starts higher.
        allowed: the highest limit that the endpoint accepts; None while it has refused none.
    """

    own: int | None = None
    ceiling: int = DEFAULT_CEILING
    fixed: bool = True
    allowed: int | None = None

    @property
    def most(self) -> int:
        """The ceiling, or the model's own limit if that is higher; no more than the endpoint accepts."""
        most = max(self.ceiling, self.own or 0)
        return most if self.allowed is None else min(most, self.allowed)


def find_limit(model: Model) -> Limit:
    """Return the limits of a model; the default for models that state none."""
    found: Limit | None = getattr(model, "limit", None)
    return Limit() if found is None else found


def find_first_limit(model: Model, request: Request) -> int | None:
    """Return the limit that `request` starts with before anything is known about its role.

    None for the model's own limit, if it is high enough or was chosen by a user.

    Example:
        >>> from autorubric.testing import ScriptedModel
        >>> class Roomy(ScriptedModel):
        ...     limit = Limit(2048, fixed=False)
        >>> find_first_limit(Roomy({}), Request((), "merge", room=5000))
        8192
        >>> find_first_limit(Roomy({}), Request((), "judge", room=100)) is None
        True
    """
    if not request.room:
        return None
    limit = find_limit(model)
    if limit.own is None or limit.fixed or request.room <= limit.own:
        return None
    # Powers of two, so that a reply has to be looked up under few limits.
    return _cap_limit(limit, 1 << (request.room - 1).bit_length())


def compute_most_room(model: Model) -> int:
    """The completion tokens to plan for one reply of a model, which leaves room for one doubling of the limit."""
    return find_limit(model).most // 2


@dataclass(slots=True)
class _RoleLimits:
    """The limits that were used for one role of one model, and the highest that was needed."""

    used: Sequence[int] = ()
    worked: int = 0


_NOTHING = _RoleLimits()


class ReplyLimits:
    """The limits that requests were sent with, and those that worked, by role and model.

    The limit is part of a reply's key unless it is the model's own. The limits in use are recorded with the replies,
    so that a later session looks up each of them before it makes a call.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._known: dict[tuple[str, str], _RoleLimits] = {}
        self._read()

    def apply_limit(self, model: Model, request: Request) -> Request:
        """`request` with the lowest limit under which a reply is recorded, otherwise with the limit to send."""
        if self._read_at != self._records.version:
            self._read()  # others may have found a limit that works
        first = find_first_limit(model, request) if request.room else None
        known = self._known.get((request.role, model.name), _NOTHING)
        if first is None and known is _NOTHING:
            return request
        recorded = self._find_recorded(model, request, (None, *known.used))
        if recorded is not None:
            return recorded
        limit = find_limit(model)
        enough = known.worked <= (first or limit.own or 0)
        return _with_limit(request, first if enough else _cap_limit(limit, known.worked))

    def raise_limit(self, model: Model, request: Request, reply: Reply, problem: Unreadable) -> Request | Failure:
        """`request` with a higher limit after a truncated `reply`; a failure at the highest.

        The limit is doubled, unless a reply with a higher one is recorded.
        """
        limit = find_limit(model)
        asked = request.max_tokens or limit.own
        spoken = reply.usage.completion_tokens if reply.usage else 0
        tried = asked or reply.limit or spoken or _GUESSED_LENGTH
        if asked and reply.limit and reply.limit < asked:
            return _give_up(reply, f"{problem.message}; {explain_limit(reply.limit)}")
        if request.cut_off and reply.fresh and 0 < spoken <= tried // 2:
            # No longer than with the lower limit: the context is full. A later session may find a larger one.
            allowed = f"a limit of {tried:,} tokens did not make it longer"
            return _give_up(reply, f"{problem.message}; {allowed}; shorten the input or use another model")
        if limit.allowed is not None and tried >= limit.allowed:
            return _give_up(reply, f"{problem.message}; {explain_limit(limit.allowed)}")
        if tried >= limit.most:
            return _give_up(reply, f"{problem.message}; raise --max-tokens-ceiling (LLMConfig.max_tokens_ceiling)")
        cut_at = reply.limit or spoken or tried  # a reply to an estimated limit has none
        plain = copy_with(request, max_tokens=None, cut_off=request.cut_off + 1, cut_at=cut_at)
        known = self._known.get((request.role, model.name), _NOTHING)
        recorded = self._find_recorded(model, plain, [limit for limit in known.used if limit > tried])
        if recorded is not None:
            return recorded
        wanted = 2 * tried if asked else max(2 * tried, _SMALLEST_STEP)
        if request.max_tokens is None:
            # An earlier version stopped at the model's own limit, which may be far too low.
            wanted = max(wanted, find_first_limit(model, plain) or 0, known.worked)
        return _with_limit(plain, _cap_limit(limit, wanted))

    def note_sent(self, model: Model, request: Request) -> None:
        """Record the limit of a request that is about to be sent with one, for later sessions."""
        limit, known = request.max_tokens, self._known.setdefault((request.role, model.name), _RoleLimits())
        if limit is not None and limit not in known.used:
            known.used = sorted([*known.used, limit])
            self._keep()

    def note_worked(self, model: Model, request: Request) -> None:
        """Record that the reply to a request with a limit was complete: its role starts no lower from now on."""
        limit = request.max_tokens
        if limit is None or limit == find_first_limit(model, request):
            return
        known = self._known.setdefault((request.role, model.name), _RoleLimits())
        if limit > known.worked:
            known.worked = limit
            self._keep()

    def _find_recorded(self, model: Model, request: Request, limits: Sequence[int | None]) -> Request | None:
        """`request` with the first of `limits` that has a recorded reply."""
        for limit in limits:
            placed = _with_limit(request, limit)
            if self._records.find(compute_key(model, placed)) is not None:
                return placed
        return None

    def _read(self) -> None:
        self._read_at = self._records.version
        rows = self._records.find_note(NOTE) or ()
        self._known = {(role, name): _RoleLimits(used, worked) for role, name, used, worked in rows}

    def _keep(self) -> None:
        rows = [[*name, known.used, known.worked] for name, known in self._known.items()]
        self._records.keep_note(NOTE, rows, merge_limits)


def merge_limits(*notes: Iterable[Sequence[Any]] | None) -> list[list[Any]]:
    """Merge the limits of several ledgers, so that all of their replies are found.

    Example:
        >>> merge_limits([["judge", "m", [4096], 0]], [["judge", "m", [2048, 4096], 4096]])
        [['judge', 'm', [2048, 4096], 4096]]
    """
    found: dict[tuple[str, str], tuple[set[int], int]] = {}
    for role, name, used, worked in (row for rows in notes for row in rows or ()):
        known, highest = found.get((role, name), (set(), 0))
        found[role, name] = known | set(used), max(highest, worked)
    return [[*names, sorted(used), worked] for names, (used, worked) in found.items()]


def explain_limit(allowed: int) -> str:
    """Return why a truncated reply is not requested with a higher limit.

    Example:
        >>> explain_limit(4096)
        'the endpoint allows no more than 4,096 for this prompt; shorten the input or use another model'
    """
    return f"the endpoint allows no more than {allowed:,} for this prompt; shorten the input or use another model"


def _with_limit(request: Request, limit: int | None) -> Request:
    return request if limit is None else copy_with(request, max_tokens=limit)


def _cap_limit(limit: Limit, wanted: int) -> int | None:
    """`wanted`, as far as the model allows; None if that is its own limit."""
    most = min(wanted, limit.most)
    return None if most == limit.own else most


def _give_up(reply: Reply, message: str) -> Failure:
    return Failure("truncated", message, attempts=reply.attempts, reply=reply)


_REASONING = 2048  # tokens before the answer
_ENTRY = 120  # tokens of a criterion of 40 words, or of a verdict with two sentences, as JSON
_FRAME = 40  # tokens of the title, keys and ids around a copied text
_LEAST_BYTES_A_TOKEN = 3  # one token for a Chinese character; English takes fewer

MOST_CRITERIA = 25
"""The most criteria that the prompts request in one reply."""


def estimate_room(*, entries: int = 0, copied: Iterable[str] = ()) -> int:
    """The completion tokens of a list of `entries` written by the model and of `copied` texts, reasoning included."""
    texts = list(copied)
    taken_over = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) // _LEAST_BYTES_A_TOKEN
    return _REASONING + entries * _ENTRY + len(texts) * _FRAME + taken_over


BYTES_A_TOKEN = 4
"""A rule of thumb for estimates, in UTF-8: a token for 4 letters of English, or 0.75 for a Chinese character."""


@dataclass(slots=True)
class ModelEstimate:
    """The expected calls of one model.

    Attributes:
        model: the model.
        recorded: replies that are recorded.
        calls: calls to make, if none has to be repeated.
        prompt_tokens: estimated from their bytes.
        reply_tokens: estimated.
        most: maximum tokens; None if nothing limits them.
        role: of its first request, where known.

    Example:
        >>> from autorubric.llm.request import Message
        >>> from autorubric.testing import ScriptedModel
        >>> row = ModelEstimate(ScriptedModel({}))
        >>> row.add(Request((Message("user", "How much is 2 + 2?"),), role="judge"), 120)
        120
        >>> row.scale(10).usage
        Usage(prompt_tokens=45, completion_tokens=1200, ...)
    """

    model: Model
    recorded: int = 0
    calls: int = 0
    prompt_tokens: float = 0.0
    reply_tokens: float = 0.0
    most: Usage | None = Usage()  # noqa: RUF009 - frozen
    role: str = ""
    _longest: tuple[float, int] = (0.0, 0)  # the longest reply expected, and the longest allowed

    @property
    def usage(self) -> Usage:
        """The expected tokens."""
        return Usage(round(self.prompt_tokens), round(self.reply_tokens))

    @property
    def cost(self) -> float | None:
        """The expected price; None if it is unknown."""
        return self.model.cost(self.usage)

    def add(self, request: Request, reply_tokens: float) -> float:
        """Count one call, and return the expected length of its reply."""
        ceiling = self.model.ceiling(_with_limit(request, find_first_limit(self.model, request)))
        expected = reply_tokens if ceiling is None else min(reply_tokens, ceiling.completion_tokens)
        self.calls += 1
        self.prompt_tokens += (
            sum(len(text.encode("utf-8", "surrogatepass")) for _, text in request.messages) / BYTES_A_TOKEN
        )
        self.reply_tokens += expected
        self.most = None if self.most is None or ceiling is None else self.most + ceiling
        limit = 0 if ceiling is None else ceiling.completion_tokens
        self._longest = max(self._longest[0], expected), max(self._longest[1], limit)
        return expected

    def scale(self, calls: int) -> ModelEstimate:
        """Return the estimate of `calls` calls of which these are a sample, each with the longest reply."""
        if not self.calls or not calls:
            return ModelEstimate(self.model, calls=calls)
        factor, (reply, limit) = calls / self.calls, self._longest
        most = self.most and Usage(round(self.most.prompt_tokens * factor), limit * calls)
        return ModelEstimate(self.model, self.recorded, calls, self.prompt_tokens * factor, reply * calls, most)

    def __add__(self, other: ModelEstimate) -> ModelEstimate:
        return ModelEstimate(
            self.model,
            self.recorded + other.recorded,
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.reply_tokens + other.reply_tokens,
            None if self.most is None or other.most is None else self.most + other.most,
        )
