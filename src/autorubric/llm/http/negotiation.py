"""What an endpoint does not accept, learned from its refusals and then left out."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from autorubric.llm.config import LLMConfig
from autorubric.llm.http.address import is_about_server
from autorubric.llm.http.allowed_tokens import Context, find_allowed_tokens, find_sent_limit
from autorubric.llm.http.retry import UNEXPLAINED, Fault
from autorubric.llm.request import CallError, Failure

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
        """Return the limit to send for `wanted`: the endpoint's maximum if that is lower."""
        return wanted if wanted is None or self.most_tokens is None else min(wanted, self.most_tokens)


_REASONING_NAME = re.compile(r"(?:o[1-9]|gpt-[5-9])(?![0-9])")


def choose_first_terms(base_url: str, model: str) -> Terms:
    """Return the terms to start with."""
    host = urlsplit(base_url).hostname or ""
    is_reasoning = host == "api.openai.com" and _REASONING_NAME.match(model)
    # At Volcengine, `max_tokens` does not count reasoning, which a budget must bound.
    if is_reasoning or host.endswith((".volces.com", ".bytepluses.com")):
        return Terms("max_completion_tokens")
    return Terms()


_NOT_TAKEN = re.compile(
    r"unsupported|n[o']t (?:\w+ )?(?:support|allowed|permitted|available|compatible|recogni[sz]ed)|"
    r"unrecogni[sz]ed|unknown|unexpected|unavailable|deprecated|extra (?:inputs|fields)|extra_forbidden|"
    r"cannot both|instead|only \S+ (?:is|are) allowed|may only be set|must be \d+ when",
    re.IGNORECASE,
)
# All that Gemini, Volcengine, SiliconFlow, Zhipu and MiniMax say about some schemas, and about other faults.
_UNCLEAR = (
    r"contains an invalid argument|parameters specified in the request are not valid|the parameter is invalid|"
    r"调用参数有误|invalid params(?:$| \()"
)
_ABOUT_FORMAT = re.compile(
    r"response_format|json.?schema|response_?schema|json_object|structured.?output|json.?mode|guided|grammar|outlines|"
    r"constrained|(?:for|in) format|schema produces|"  # the last: Gemini, of too many states
    r"\btools?\b|tool_choice|"  # some gateways make a tool of a schema
    r"must contain the word .?json|" + _UNCLEAR,
    re.IGNORECASE,
)
# What a model wrote under a schema, which other requests may get right (Groq, llama.cpp).
_ABOUT_REPLY = re.compile(r"(?:generated?|validate) json|model produced output", re.IGNORECASE)
# The chat templates of Gemma and early Mistral models, and Google's API for Gemma.
_SYSTEM_REFUSED = re.compile(
    r"system[ _](?:role|messages?|prompts?|instructions?)\W+(?:(?:is|are) )?(?:not|un)|"
    r"n[o']t (?:support|accept|have|allow)\w*(?: an?| the| any)?\W+system\b|"
    r"invalid message role: system|"
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


def is_negotiable(fault: Fault, is_taken: bool) -> bool:
    """Return whether a request may have been refused for its form, which some servers report as 500.

    If the endpoint took this form before (`is_taken`), an unclear refusal has another cause.
    """
    if is_taken and (fault.status == 500 or re.search(_UNCLEAR, fault.text, re.IGNORECASE)):
        return False
    if fault.status in (500, 501):
        return fault.kind == "server"
    return fault.status in (400, 422) and fault.kind in ("rejected", "no_model")


def is_about_reply(fault: Fault) -> bool:
    """Return whether the endpoint refuses what the model wrote under a schema, and not the schema."""
    return _ABOUT_REPLY.search(fault.text) is not None


def _is_about(fault: Fault, parameter: str, body: Mapping[str, Any]) -> bool:
    """Whether a refusal is about a parameter: by its `param`, if that is a field of the request, or by its words."""
    if fault.param in body:
        return fault.param == parameter
    name = "reasoning_?effort|thinking|reasoning" if parameter == "reasoning_effort" else parameter.replace("_", "_?")
    return re.search(rf"(?<!\w)(?:{name})(?!\w)", fault.text, re.IGNORECASE) is not None


def _is_zero_refused(fault: Fault, parameter: str, body: Mapping[str, Any]) -> bool:
    """Whether an endpoint refuses a parameter that is 0 or `none`, which its range excludes (TGI, Zhipu, SGLang).

    Gemini has no words for `none`.
    """
    if body[parameter] not in (0, "none"):
        return False
    reasons = rf"(?<!\w){parameter}\W.{{0,60}}?(?:(?:must|should) be|(?:less|greater) than|not valid|范围)"
    reasons += f"|{_UNCLEAR}" * (body[parameter] == "none")
    return re.search(reasons, fault.text, re.IGNORECASE) is not None


SCOUT_PATIENCE = 2.0
"""Seconds after which the first call no longer holds the others: a wrong key or parameter is refused sooner."""
MOST_HELD = 16
"""Calls that go one after the other while each fails: enough to end the run if none is retried."""
PATIENCE = 60.0
"""Seconds after the first failure from which on an endpoint without any reply counts as out of order."""
OUTAGE_PATIENCE = 900.0
"""The same for an endpoint that has replied: the restart of a large model takes up to ten minutes."""
FEWEST_FAILED = 8
"""The minimum number of failed attempts in that time."""
FEWEST_ITEMS = 4
"""The minimum number of items that they are about, once the endpoint has replied: one text can cause all of its."""
FEWEST_ITEMS_WITH_500 = 16
"""The same if the last was an HTTP 500, which texts cause more often."""


class Gate:
    """Lets one call go first, and the others once it has shown that such calls are accepted.

    A wrong key, model name or parameter then costs one request. An open gate stays open until it refuses calls (with
    `refusal`) or is held: then calls go one by one until one has a reply (`replies` counts them) or enough have none.
    """

    def __init__(self) -> None:
        self.is_open = self._is_held = False
        self.replies = 0
        self.refusal: Failure | None = None
        self._failed: Counter[str] = Counter()  # by item, attempts that failed since the last sign of life
        self._last: Fault | None = None  # of them
        self._held = 0
        self._failed_at = 0.0  # when the first of them failed
        self._worked_at = 0.0  # when the latest request that had a reply was sent
        self._ahead: asyncio.Future[Failure | None] | None = None  # ends when the first call has shown something
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self) -> bool:
        """Wait until the gate is open; True for the call that goes first, which must `open` or `leave`."""
        loop = asyncio.get_running_loop()
        while not self.is_open:
            if self._ahead is None or self._ahead.get_loop() is not loop:
                self._ahead = loop.create_future()
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

    @property
    def is_down(self) -> bool:
        """Whether an endpoint that has replied gives only errors now."""
        fewest = FEWEST_ITEMS_WITH_500 if self._last and self._last.status == 500 else FEWEST_ITEMS
        return self.replies > 0 and self._failed.total() >= FEWEST_FAILED and len(self._failed) >= fewest

    def describe_outage(self) -> tuple[float, str] | None:
        """For how long the server has failed, and its last words; None if it works or a single call has failed."""
        if self._last is None or not self._failed or not (self._is_held or self.is_down):
            return None
        return time.monotonic() - self._failed_at, self._last.message

    def note_fault(self, fault: Fault, item: str, since: float) -> None:
        """Count a failed attempt about `item`, unless a request that was sent after its first one had a reply."""
        if is_about_server(fault) or (self.replies and fault.kind in ("server", "timeout")):
            if self._worked_at < since or self.is_down:
                self._failed_at = self._failed_at if self._failed else time.monotonic()
                self._failed[item] += 1
                self._last = fault
        elif self.replies:  # the endpoint works
            self._note_alive()

    def must_hold(self, fault: Fault, *, is_patient: bool) -> bool:
        """Whether calls go one after the other after this fault; once there were replies, only those of a run do."""
        may_hold = is_about_server(fault) or fault.kind == "server"
        return may_hold and (not self.replies or (is_patient and self.is_down))

    def hold(self) -> None:
        """Let calls through one after the other, as the endpoint fails, until one has a reply or enough have none."""
        if self._held > MOST_HELD and not self.replies:
            self.open()
            return
        self.is_open, self._is_held = False, True
        if self._timer is not None:
            self._timer.cancel()

    def renew(self) -> None:
        """Let a call of a new run go first, unless one had a reply."""
        if self.replies:
            self._note_alive()
        else:
            self.is_open, self._held = False, 0
            self._failed.clear()

    def find_end(self, name: str, fault: Fault, config: LLMConfig, *, is_patient: bool = True) -> Failure | None:
        """Return why the run ends if no call had a reply for long enough, in more attempts than one call makes."""
        failed = self._failed.total()
        enough = failed >= max(FEWEST_FAILED, config.max_retries + 2) and not self.replies
        patience = max(OUTAGE_PATIENCE, config.timeout) if self.replies else PATIENCE
        seconds = time.monotonic() - self._failed_at
        if fault is not self._last or seconds < patience or not (enough or (is_patient and self.is_down)):
            return None
        which = f"for {seconds / 60:.0f} minutes, in the last" if self.replies else "in the first"
        return Failure("no_reply", f"{name}: no reply {which} {failed} attempts; the last: {fault.message}")

    def is_down_since(self, replies: int) -> bool:
        """Return whether an endpoint that worked has sent no more than these replies so far."""
        return 0 < self.replies == replies

    def note_reply(self, latency: float) -> None:
        """Count a reply, and open the gate if it is held."""
        self.replies += 1
        self._worked_at = max(self._worked_at, time.monotonic() - latency)
        if self._failed or self._is_held:
            self._note_alive()

    def _note_alive(self) -> None:
        self._failed.clear()
        if self._is_held:
            self.open()

    def refuse(self, failure: Failure) -> None:
        """Fail the waiting calls with `failure`; the next call goes first again."""
        self.is_open, self.refusal = False, failure
        self._end(failure)

    def leave(self, *, again: bool = False) -> None:
        """End the first call, which may come `again`, without a result for the others; the next one goes first."""
        self._held += self._is_held and not again
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


async def pass_turn(fault: Fault, ahead: list[Gate]) -> None:
    """Let another waiting call go first after a fault that is not about one request, and in an outage."""
    if not ahead or not (is_about_server(fault) or any(gate.replies for gate in ahead)):
        return
    for gate in ahead:
        gate.leave(again=True)
    ahead.clear()
    await asyncio.sleep(0.01)  # the other call needs some turns of the event loop


_PROBES = 2
"""Requests that must fail with a schema and have a reply without it: after one, an outage may have ended."""


class Dialect:
    """What is known about one model at one endpoint, shared by all its calls.

    `gates` has one for plain requests and one for those with a schema; `miscounts` says whether a reply had token
    counts that cannot be right, `cuts_prompts` whether one was to a prompt that was cut off, `took_format` whether
    one was to a request with a `response_format`.
    """

    def __init__(self, base_url: str, model: str) -> None:
        self.terms = choose_first_terms(base_url, model)
        self.notes: list[str] = []
        self.miscounts = self.cuts_prompts = self.took_format = False
        self.gates = (Gate(), Gate())
        self._probed = 0  # replies to requests that failed as long as they had a schema
        self.context = Context()
        self._subject = (base_url, model)

    def learn(self, sent: Terms, body: Mapping[str, Any], fault: Fault) -> bool:
        """Whether to send the refused request again under the current terms, which another call may have changed."""
        if self.terms != sent:
            return True
        if found := revise(sent, body, fault):
            self.terms = found
            self.notes.append(self._describe_change(sent, found))
        return found is not None

    def must_omit_schema(self, body: Mapping[str, Any], before: Fault | None, fault: Fault) -> bool:
        """Whether the next attempt of a request leaves out the schema, which the server may refuse without a reason.

        It replaces a retry, so a server that is down gets no more requests.
        """
        if before is None or self.took_format or "response_format" not in body:
            return False
        return all(f.status == 500 and re.search(UNEXPLAINED, f.text, re.IGNORECASE) for f in (before, fault))

    def note_reply(self, body: Mapping[str, Any], *, is_probe: bool) -> None:
        """Note the form of a request that had a reply; the second one that only had it without a schema decides."""
        self.took_format |= "response_format" in body
        self._probed += is_probe and not self.took_format
        if self._probed == _PROBES and self.terms.schema_form != "none":
            before, self.terms = self.terms, replace(self.terms, schema_form="none")
            self.notes.append(self._describe_change(before, self.terms))

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
