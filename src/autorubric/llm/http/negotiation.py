"""What an endpoint does not accept, learned from its refusals and then left out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from autorubric.llm.http.retry import Fault
from autorubric.llm.request import CallError, Failure, Request

_NUMBER = r"[`'\"(\[ ]*(\d[\d,_]*)"
_ABOUT_LIMIT = re.compile(
    r"max[_ ]?(?:completion_|output_|new_)?tokens|maxOutputTokens|(?:completion|output) tokens|context|token count|"
    r"maximum (?:allowed|number|tokens)|tokens? limit",
    re.IGNORECASE,
)
# Each captures the maximum of the parameter itself.
_HIGHEST = (
    r"supports? (?:at most|up to|a maximum of)" + _NUMBER,
    r"\d[\d,_]* > " + _NUMBER + r", which is the maximum",
    r"valid range of .{0,40}? is [\[(]\s*\d+\s*,\s*(\d[\d,_]*)",
    r"(?:range of .{0,40}? should be|取值范围\D{0,9}?) ?[\[(]\s*\d+\s*,\s*(\d[\d,_]*)",
    r"less than or equal to" + _NUMBER,
    r"(?:<=|≤)" + _NUMBER + r"(?! *-)",
    r"greater than max_model_len=(?:\w+=)?" + _NUMBER,
    r"exceeds? the model limit of" + _NUMBER,
    r"(?:should|must|can)(?: ?not)? (?:be at most|exceed|be more than|be greater than)" + _NUMBER,
)
_EXCLUSIVE = r"(?:\[\d+, *|\bto )(\d+)(?:\)| \(exclusive\))"
_CONTEXT = (
    r"(?:maximum |max |available )?(?:context|model)(?:'s)?(?: maximum)?(?: context)? ?(?:length|size|window)?"
    r" (?:is|of)(?: only)?" + _NUMBER
)
_SUM = rf"(?:max_new_tokens`? must be <=|context limit: \d+ \+ \d+ >){_NUMBER}"
_PROMPT = (
    r"(\d[\d,_]*) (?:tokens )?(?:in|from|of) (?:the |your )?(?:messages|prompt|text input|input)\b",
    r"(\d[\d,_]*) (?:`inputs`|input|prompt) tokens",
    r"exceed context limit: (\d+) \+",
    r"(?:prompt|input|request)(?: \w+)? (?:contains|has|is)(?: at least)? (\d[\d,_]*)(?: input| prompt)? tokens",
)


class AllowedTokens(NamedTuple):
    """The completion tokens that an endpoint allows, `always` or because the prompt leaves no more of the context."""

    tokens: int
    always: bool


def find_allowed_tokens(words: str, asked: int) -> AllowedTokens | None:
    """The completion tokens that a refusal allows instead of `asked`; None if it is about something else."""
    if not _ABOUT_LIMIT.search(words):
        return None
    left = _find_context_left(words)
    if left is not None:
        left -= left == asked  # of a prompt with too many characters, vLLM states only what it allows
        return AllowedTokens(left, always=False) if 0 < left < asked else None
    exclusive = _find_count(words, _EXCLUSIVE)
    highest = (_find_count(words, *_HIGHEST) or 0) if exclusive is None else exclusive - 1
    return AllowedTokens(highest, always=True) if 0 < highest < asked else None


def _find_context_left(words: str) -> int | None:
    """What the prompt leaves of the context, or None if the message does not state both."""
    context, prompt = _find_count(words, _SUM, _CONTEXT), _find_count(words, *_PROMPT)
    return None if context is None or prompt is None else context - prompt


def _find_count(words: str, *patterns: str) -> int | None:
    """The number in the first of the patterns that matches, or None."""
    found = next((match for pattern in patterns if (match := re.search(pattern, words, re.IGNORECASE))), None)
    return None if found is None else int(found[1].replace(",", "").replace("_", ""))


TokenField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
SchemaForm: TypeAlias = Literal["json_schema", "json_object", "none"]

_NEXT_FORM: dict[SchemaForm, SchemaForm] = {"json_schema": "json_object", "json_object": "none"}
_INSTEAD = {"json_object": "requested JSON without a schema", "none": "the format is only in the prompt"}
_OTHER_FIELD: dict[TokenField, TokenField] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_LITELLM = "allowed_openai_params drop_params additional_drop_params custom_llm_provider num_retries fallbacks"
DISPENSABLE = (
    *("temperature", "top_p", "seed", "reasoning_effort", "thinking", "reasoning", "stream_options"),
    *_LITELLM.split(),
)
"""Parameters that can be left out. Programs for AutoRubric 1.6 set those of LiteLLM, which only its proxy accepts."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The form of request that one model at one endpoint accepts, as far as known.

    `swapped` says that the other token field was refused before. A `schema_form` of `none` leaves the format to the
    prompt. `most_tokens` is the highest completion limit that the endpoint accepts; None if it refused none.
    `system_role` is False for chat templates that know only users and assistants (Gemma, early Mistral). `streams`
    says that the endpoint sends replies only as streams (Qwen models that think).
    """

    token_field: TokenField = "max_tokens"
    swapped: bool = False
    left_out: frozenset[str] = frozenset()
    schema_form: SchemaForm = "json_schema"
    most_tokens: int | None = None
    system_role: bool = True
    streams: bool = False

    def cap_limit(self, wanted: int | None) -> int | None:
        """The limit to send for `wanted`: the endpoint's maximum if that is lower."""
        return wanted if wanted is None or self.most_tokens is None else min(wanted, self.most_tokens)


_REASONING_NAME = re.compile(r"(?:o[1-9]|gpt-[5-9])(?![0-9])")


def choose_first_terms(base_url: str, model: str) -> Terms:
    """The terms to start with."""
    if urlsplit(base_url).hostname == "api.openai.com" and _REASONING_NAME.match(model):
        return Terms("max_completion_tokens")
    return Terms()


_NOT_TAKEN = re.compile(
    r"unsupported|n[o']t (?:\w+ )?(?:support|allowed|permitted|available|compatible|recogni[sz]ed)|"
    r"unrecogni[sz]ed|unknown|unexpected|unavailable|deprecated|extra (?:inputs|fields)|extra_forbidden|"
    r"cannot both|instead|only \S+ (?:is|are) allowed|may only be set|must be \d+ when",
    re.IGNORECASE,
)
# All that Gemini and Volcengine say about some schemas, and about other faults.
_UNCLEAR = r"contains an invalid argument|parameters specified in the request are not valid"
_ABOUT_FORMAT = re.compile(
    r"response_format|json.?schema|response_?schema|json_object|structured.?output|json.?mode|guided|grammar|outlines|"
    r"constrained|(?:for|in) format|schema produces|"  # the last: Gemini, of too many states
    r"\btools?\b|tool_choice|"  # some gateways make a tool of a schema
    r"must contain the word .?json|(?:generated?|validate) json|"  # the last: Groq, of what its model wrote
    + _UNCLEAR,
    re.IGNORECASE,
)
# The chat templates of Gemma and early Mistral models, and Google's API for Gemma.
_SYSTEM_REFUSED = re.compile(
    r"system[ _](?:role|messages?|prompts?|instructions?)\W+(?:(?:is|are) )?(?:not|un)|"
    r"n[o']t (?:support|accept|have|allow)\w*(?: an?| the| any)?\W+system\b|"
    r"only user(?:,| and)* assistant roles|roles must alternate|developer instruction is not enabled",
    re.IGNORECASE,
)

_STREAMS_ONLY = re.compile(
    r"non-?streaming|非流式|only supports? stream|streaming is (?:strongly )?re(?:quired|commended)|"
    r"stream(?:\W+(?:must|should|has to) be (?:set to )?|=)\W?(?:true|false)",
    re.IGNORECASE,
)


def revise(terms: Terms, body: Mapping[str, Any], fault: Fault) -> Terms | None:
    """Terms under which a refused request may be accepted; None if nothing in them was refused."""
    allowed = find_allowed_tokens(fault.text, find_sent_limit(body))
    if allowed is not None:
        return replace(terms, most_tokens=allowed.tokens) if allowed.always else None
    if not terms.streams and _STREAMS_ONLY.search(fault.text):
        return replace(terms, streams=True)
    roles = {message["role"] for message in body["messages"]}
    if terms.system_role and "system" in roles and _SYSTEM_REFUSED.search(fault.text):
        return replace(terms, system_role=False)
    refused = _NOT_TAKEN.search(fault.text) is not None
    if refused and terms.token_field in body and not terms.swapped and _is_about(fault, terms.token_field, body):
        return replace(terms, token_field=_OTHER_FIELD[terms.token_field], swapped=True)
    for name in DISPENSABLE:
        if name in body and ((refused and _is_about(fault, name, body)) or _is_zero_refused(fault, name, body)):
            return replace(terms, left_out=terms.left_out | {name})
    about_format = fault.param.startswith("response_format") or _ABOUT_FORMAT.search(fault.text)
    is_next = about_format and "response_format" in body and terms.schema_form in _NEXT_FORM
    return replace(terms, schema_form=_NEXT_FORM[terms.schema_form]) if is_next else None


def find_sent_limit(body: Mapping[str, Any]) -> int:
    """The completion limit in a request's body; 0 if there is none."""
    found = body.get("max_completion_tokens", body.get("max_tokens"))
    return found if isinstance(found, int) else 0


def is_negotiable(fault: Fault, is_taken: bool) -> bool:
    """Whether a request may have been refused for its form, which some servers report as 500.

    If the endpoint took this form before (`is_taken`), an unclear refusal has another cause.
    """
    if is_taken and (fault.status == 500 or re.search(_UNCLEAR, fault.text, re.IGNORECASE)):
        return False
    if fault.status in (500, 501):
        return fault.kind == "server"
    return fault.status in (400, 422) and fault.kind in ("rejected", "no_model")


_SHORTEST = 64
"""Tokens below which no smaller limit is tried."""


def _is_about(fault: Fault, parameter: str, body: Mapping[str, Any]) -> bool:
    """Whether a refusal is about a parameter: by its `param`, if that is a field of the request, or by its words."""
    if fault.param in body:
        return fault.param == parameter
    name = "reasoning_?effort|thinking|reasoning" if parameter == "reasoning_effort" else parameter.replace("_", "_?")
    return re.search(rf"(?<!\w)(?:{name})(?!\w)", fault.text, re.IGNORECASE) is not None


def _is_zero_refused(fault: Fault, parameter: str, body: Mapping[str, Any]) -> bool:
    """Whether an endpoint refuses a parameter that is 0 for its range, which excludes 0 (TGI, Zhipu, MiniMax)."""
    out_of_range = rf"(?<!\w){parameter}\W.{{0,40}}?(?:(?:must|should) be|(?:less|greater) than|范围)"
    return body[parameter] == 0 and re.search(out_of_range, fault.text, re.IGNORECASE) is not None


SCOUT_PATIENCE = 2.0
"""Seconds after which the first call no longer holds the others: a wrong key or parameter is refused sooner."""
MOST_HELD = 16
"""Calls that go one after the other while each fails: enough to end the run if none is retried."""


class Gate:
    """Lets one call go first, and the others once it has shown that such calls are accepted.

    A wrong key, model name or parameter then costs one request. An open gate stays open until it refuses calls (with
    `refusal`) or is held: then `MOST_HELD` calls go one after the other, each with its retries, until one has a reply
    (`has_reply`).
    """

    def __init__(self) -> None:
        self.is_open = self.has_reply = self._is_held = False
        self.refusal: Failure | None = None
        self._held = 0
        self._ahead: asyncio.Future[Failure | None] | None = None  # ends when the first call has shown something
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self) -> bool:
        """Wait until the gate is open; True for the call that goes first, which must `open` or `leave`."""
        loop = asyncio.get_running_loop()
        while not self.is_open:
            if self._ahead is None or self._ahead.get_loop() is not loop:
                self._ahead = loop.create_future()
                self._held += self._is_held
                self._timer = None if self._is_held else loop.call_later(SCOUT_PATIENCE, self.open)
                return True
            failure = await asyncio.shield(self._ahead)
            if failure is not None:
                raise CallError(failure)
        return False

    def open(self) -> None:
        """Let all calls through, now and later."""
        self.is_open, self._is_held = True, False
        self._end(None)

    def hold(self) -> None:
        """Let calls through one after the other, as the endpoint fails, until one has a reply or enough have none."""
        if self._held > MOST_HELD:
            self.open()
            return
        self.is_open, self._is_held = False, True
        if self._timer is not None:
            self._timer.cancel()

    def renew(self) -> None:
        """Let a call of a new run go first, unless one had a reply."""
        if not self.has_reply:
            self.is_open, self._held = False, 0

    def note_reply(self) -> None:
        """Note that a call had a reply, and open the gate if it is held."""
        self.has_reply = True
        if self._is_held:
            self.open()

    def refuse(self, failure: Failure) -> None:
        """Fail the waiting calls with `failure`; the next call goes first again."""
        self.is_open, self.refusal = False, failure
        self._end(failure)

    def leave(self) -> None:
        """End the first call without a result for the others; the next one goes first."""
        if not self.is_open:
            self._end(None)

    def _end(self, failure: Failure | None) -> None:
        """Let waiting calls go on, or fail; the first one that finds the gate closed goes first."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.get_loop().is_closed():
            if self._timer is not None:
                self._timer.cancel()
            ahead.set_result(failure)


async def enter_gates(gates: tuple[Gate, Gate], ahead: list[Gate]) -> None:
    """Pass the gate of the model, then that of the endpoint; gates where this call goes first join `ahead`."""
    for gate in gates:
        if gate.is_open or gate in ahead:
            continue
        try:
            if await gate.enter():
                ahead.append(gate)
        except CallError as error:  # a wrong key, found by another model: ours need not try it again
            for passed in ahead:
                passed.refuse(error.failure)
            raise


def open_gates(ahead: list[Gate]) -> None:
    """Open the gates where this call goes first, for the calls that wait behind it."""
    for gate in ahead:
        gate.open()
    ahead.clear()


class Dialect:
    """What is known about one model at one endpoint, shared by all its calls.

    `gates` has one for plain requests and one for those with a schema; `miscounts` says whether a reply had token
    counts that cannot be right, `cuts_prompts` whether one was to a prompt that was cut off, `took_format` whether
    one was to a request with a `response_format`. `context` is the length of the context if refusals state it, and do
    not state the length of the prompt.
    """

    def __init__(self, base_url: str, model: str) -> None:
        self.terms = choose_first_terms(base_url, model)
        self.notes: list[str] = []
        self.miscounts = self.cuts_prompts = self.took_format = False
        self.gates = (Gate(), Gate())
        self.context: int | None = None
        self._subject = (base_url, model)

    def fit(self, request: Request, own: int | None) -> Request:
        """The request with a limit that avoids the refusals it would get whatever its prompt.

        Args:
            request: as it was asked.
            own: the model's limit, for a request without one.
        """
        limit = self.terms.cap_limit(request.max_tokens or own)
        if self.context is None or limit is None or limit < self.context:
            return request
        while limit >= self.context:
            limit //= 2
        return replace(request, max_tokens=limit)

    def shorten(self, request: Request, body: Mapping[str, Any], fault: Fault, *, again: bool) -> Request | None:
        """The request with the completion limit that its prompt leaves of the context, if the refusal states it.

        vLLM counts a prompt only until it is one token too long, so the limit is halved where that is all that a
        refusal says, or where a first one was not low enough (`again`). What a refusal says about the context holds
        for later requests.
        """
        sent = find_sent_limit(body)
        allowed = find_allowed_tokens(fault.text, sent)
        if allowed is None or allowed.always:
            return None
        if not again and allowed.tokens != sent - 1:
            return replace(request, max_tokens=allowed.tokens)
        tokens = min(allowed.tokens, sent // 2)
        if tokens < _SHORTEST:
            return None
        if not again and tokens == sent // 2:
            self.context = _find_count(fault.text, _CONTEXT)
        return replace(request, max_tokens=tokens)

    def learn(self, sent: Terms, body: Mapping[str, Any], fault: Fault) -> bool:
        """Whether to send the refused request again under the current terms, which another call may have changed."""
        if self.terms != sent:
            return True
        if found := revise(sent, body, fault):
            self.terms = found
            self.notes.append(self._describe_change(sent, found))
        return found is not None

    def _describe_change(self, before: Terms, after: Terms) -> str:
        changes = {
            "schema_form": (f"a {before.schema_form} response_format", _INSTEAD.get(after.schema_form, "")),
            "token_field": (before.token_field, f"sent as {after.token_field}"),
            "left_out": ("".join(after.left_out - before.left_out), "left out"),
            "most_tokens": ("so high a token limit", f"requested at most {after.most_tokens or 0:,}"),
            "system_role": ("system messages", "sent at the start of the user's message"),
            "streams": ("requests without streaming", "requested a stream"),
        }
        what, instead = next(
            words for name, words in changes.items() if getattr(after, name) != getattr(before, name)
        )
        base_url, model = self._subject
        return f"{base_url} does not accept {what} for {model}; {instead}"
