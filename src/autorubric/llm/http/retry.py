"""What went wrong with one attempt, whether to retry, and when."""

import json
import math
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from autorubric.errors import clip
from autorubric.llm.http.providers import Endpoint
from autorubric.llm.http.quota import find_wait, parse_number, parse_reset, read_clock
from autorubric.llm.http.secrets import redact
from autorubric.llm.http.transport import HttpReply, TransportError
from autorubric.llm.request import FailureKind

LONGEST_RETRY_AFTER = 120.0
"""Seconds; the longest wait an endpoint can ask for."""

REFUSED_FOR = 300.0
"""Seconds for which a call is retried after rate limits, however often."""

LONGEST_STATED = 300.0
"""Seconds; a rate limit that states a longer wait ends the run."""

REFUSED_WAIT = 0.02
"""Seconds of the first wait after a rate limit; the limiter decides for the whole endpoint when requests leave."""

LONGEST_QUOTE = 300
"""Characters of an endpoint's own words that a message quotes."""


_RANDOM = random.Random()


@dataclass(frozen=True, slots=True)
class Fault:
    """One attempt without a usable reply.

    `message` is one sentence with the endpoint's own words (all of them in `text`), keys removed. `again` says
    whether another attempt could succeed, `retry_after` after how many seconds, `param` which request field the
    endpoint objects to, `maybe_billed` whether it may charge for the attempt, `page` whether the answer is not JSON.
    """

    kind: FailureKind
    message: str
    status: int | None = None
    again: bool = False
    retry_after: float | None = None
    param: str = ""
    text: str = ""
    maybe_billed: bool = False
    latency: float = 0.0
    page: bool = False


def classify_error(error: TransportError, *secrets: str | None) -> Fault:
    """Return the fault of an attempt without a complete response, which is retried."""
    message = redact(str(error), *secrets)[:LONGEST_QUOTE]
    return Fault(error.kind, message, again=True, maybe_billed=error.maybe_billed)


def classify_response(reply: HttpReply, *secrets: str | None, now: float | None = None) -> Fault | None:
    """Return the fault for a response's status, or None for a 2xx."""
    if 200 <= reply.status < 300:
        return None
    words, param, code = _read_error(reply.body)
    words = redact(words, *secrets)
    retry_after = read_retry_after(reply.headers, now)
    text = f"{words} {reply.body[:4000].decode('utf-8', 'replace')}" if reply.status in _LIMITING else ""
    retry_after = find_wait(text) if retry_after is None else retry_after
    kind, again = _find_kind(reply.status, f"{code} {words}".lower(), retry_after)
    message = f"HTTP {reply.status}{quote_words(words)}"
    if kind == "rate_limit" and (when := _find_reset(text, retry_after)):
        kind, again = "quota", False
        message += f" (run the same command again {when}, or use another model)"
    retry_after = None if retry_after is None else min(retry_after, LONGEST_RETRY_AFTER)
    if 300 <= reply.status < 400:
        # Queries of redirects contain sign-in tickets.
        where = (reply.headers.get("Location") or reply.headers.get("location") or "").partition("?")[0]
        message += f" to {redact(where, *secrets)[:LONGEST_QUOTE]}" if where else ""
        message += " (redirects are not followed, to protect the key; correct the base URL)"
    # A gateway that timed out does not know whether the model behind it went on, and billed.
    billed = kind == "timeout"
    page = not reply.body.lstrip().startswith((b"{", b"["))
    return Fault(kind, message, reply.status, again, retry_after, param, words, billed, page=page)


def classify_error_object(error: object, *secrets: str | None) -> Fault:
    """The fault for an `error` object in a 200 response, as gateways report a failure of the model behind them."""
    code = str(error.get("code", error.get("status"))) if isinstance(error, Mapping) else ""
    status = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500
    found = classify_response(HttpReply(status, json.dumps({"error": error}).encode()), *secrets)
    assert found is not None
    message = found.message.replace(f"HTTP {status}", "HTTP 200 with an error", 1)
    return Fault(found.kind, message, 200, found.again, found.retry_after, maybe_billed=True)


def _find_reset(text: str, wait: float | None) -> str | None:
    """When a rate limit ends that is too long to wait for; None for all others."""
    if wait is not None and LONGEST_STATED < wait < math.inf:
        return f"in {math.ceil(wait / 60)} minutes" if wait <= 7200 else f"in {math.ceil(wait / 3600):,} hours"
    is_daily = (_PER_DAY if wait is None else _DAY_LIMIT).search(text) and not _SHORTER.search(text)
    return "when the daily limit is reset" if is_daily else None


def quote_words(words: str) -> str:
    """What an endpoint says, as it follows a status: in quotes, so that no remark of ours seems to be part of it."""
    return f": '{clip(words, LONGEST_QUOTE)}'" if words else ""


_KINDS: dict[int, tuple[FailureKind, bool]] = {
    **dict.fromkeys((401, 403), ("auth", False)),
    402: ("quota", False),
    # These are about the address, so they hold for every request.
    **dict.fromkeys((404, 405, 410), ("no_model", False)),
    407: ("unreachable", False),  # a proxy
    # 424: the generation failed (text-generation-inference, SageMaker); 498: no capacity (Groq).
    **dict.fromkeys((409, 424, 425, 498), ("server", True)),
    501: ("server", False),
    **dict.fromkeys((408, 499, 504, 524), ("timeout", True)),  # 499: a gateway gave up
}
_SPENT = re.compile(
    r"insufficient_(?:quota|credit|balance|funds)|billing|credit|out of funds|quota|balance", re.IGNORECASE
)
_SPENT_CODE = re.compile(r"insufficient_(?:quota|credit|balance)|billing_(?:hard|not)")
_SHORT_TERM = re.compile(
    r"per[ _-]?(?:second|minute|day)|retry|try again|rate.?limit|rpm|tpm|\(e\.g\. check quota\)", re.IGNORECASE
)
"""The last one is all that Gemini says about some limits per minute."""
_THROTTLED = re.compile(
    r"throttl|rate.?limit|too.?many.?requests|limit_requests|limit_burst|call rate|"
    r"\b[rtq]p[ms] limit|(?:requests|tokens) per (?:second|minute)|concurrency limit|serveroverloaded|"
    r"限流|速率限制|频率超|请求过于频繁"
)
"""Rate limits under another status than 429 (Alibaba, Bedrock, Volcengine and gateways)."""
_SHORTER = re.compile(
    r"(?:per[ _-]|/ ?|\b(?:a|each|every) )(?:\d+ ?)?(?:sec(?:ond)?|min(?:ute)?|hour)s?(?![a-z])|\b[rt]p[ms]\b|每分钟",
    re.IGNORECASE,
)
"""A limit shorter than a day: if one is named, it counts as the one hit. Gemini's ids (`PerMinute`) do not match."""
_PER_DAY = re.compile(r"\A(?:(?!upgrade).)*?(?:per[ _-]?day|daily|\b[rt]pd\b)", re.IGNORECASE | re.DOTALL)
"""What follows "upgrade" advertises a larger limit."""
_DAY_LIMIT = re.compile("perday", re.IGNORECASE)
"""Gemini's daily limits, whose stated wait does not end them. Other words on days may advertise a larger limit, or be
about a limit that is refilled all day (OpenAI, Groq), whose stated wait is true.
"""
_UNPAID = re.compile(
    r"arrearage|overdue|out of call volume quota|insufficient.{0,20}(?:balance|credit|funds)|"
    r"balance is (?:insufficient|too low)|credit balance|billing.hard.limit|余额不足|欠费|"
    r"budget_?exceeded|budget has been exceeded|(?:exceeded|crossed) ?budget|spending limit|api usage limits|"
    r"额度不足|key limit exceeded|have any credits|free tier .{0,40}exhausted|(?:weekly|monthly) usage limit|"
    r"calls / month|set inference limit|exceeded_current_quota|使用上限"  # Volcengine, Moonshot, Zhipu
)
"""An account without credit, under a status that says otherwise."""
_DENIED = re.compile(
    r"api.?key (?:is )?(?:not valid|invalid|expired)|(?:incorrect|invalid) api.?key|authorization header|"
    r"organization has been (?:disabled|restricted)|location is not supported|expired.?(?:key|token)|login fail|"
    r"accessdenied|terms acceptance"
)
"""A key or an account that is not accepted, under another status (Gemini, xAI, Groq, LiteLLM, Bedrock, MiniMax)."""
_CRASHED = re.compile(r"model has (?:crashed|unloaded)|model unloaded|channel error|degraded function")
"""A model that is gone until it is loaded again, under status 400 (LM Studio, NVIDIA)."""
_NOT_HTTPS = r"to (?:an )?https (?:port|server)|speaking plain http"
"""Plain HTTP where HTTPS is expected (nginx and Go; Apache)."""
_NO_PATH = re.compile(rf"unexpected endpoint or method|{_NOT_HTTPS}")
"""A wrong path, in a 200 (LM Studio), or a wrong scheme."""
_TOO_LONG = re.compile(r"context (?:length|window|size)|token count")
UNEXPLAINED = (
    r"^\W*$|internal[ _]?(?:server[ _]?)?error(?! ?:)|server had an error|something went wrong|"
    r"内部(?:服务器|服务)?错误|^\W*(?:(?:unknown|unexpected|server|backend|provider|returned) )*error\W*$"
)
_PASSING = re.compile(
    r"overload|busy|capacity|high demand|try again|try later|retry|temporar|unavailable|time.?out|timed out|"
    rf"connection|too many|throttl|rate.?limit|warming|loading|稍后|繁忙|{UNEXPLAINED}",
    re.IGNORECASE,
)
"""Words for server trouble unrelated to the request, or for no reason at all."""
_FILTERED = re.compile(
    r"content_filter|content_policy|content management policy|responsibleai|data_inspection|"
    r"input was flagged|requires moderation|safety system|violat\w+ .{0,20}(?:usage|content) (?:guidelines|polic)|"
    r"new_sensitive|violated guardrail|敏感内容|sensitivecontent|content exists risk|riskdetection|censorship_blocked"
)
_NO_MODEL = re.compile(
    r"model_not_(?:found|available|supported)|invalid_model|model identifier is invalid|on-demand throughput isn|"
    r"model\b.{0,120}?\b(?:does not exist|not exist|not found|is not a valid|not available|decommissioned)|"
    r"(?:unknown|invalid|no such|unsupported) model\b(?! parameter)|not a valid model|"
    r"not work with the specified model|\bpinned to\b.{0,300}?\brequested\b|"  # `transformers serve` with one model
    r"no models? loaded|failed to load model|multiple models are loaded|"  # LM Studio
    r"模型不存在|模型未找到|找不到模型",
    re.DOTALL,
)
_NO_CHANNEL = re.compile("no available channel for model|无可用渠道|無可用")
"""A name that no server behind a gateway has, or has at present (one-api and new-api)."""


_NUMBERED = re.compile(r"\S*\d\S*")
"""Words with digits, such as request ids, which differ from attempt to attempt."""

_LIMITING = (400, 403, 429, 500)
"""Statuses under which servers announce a rate limit."""

_OPENING = 200
"""Characters of an error that hold its reason; after them, validators quote the request."""

_HEAD = 40
"""The same under status 500, where llama.cpp quotes what its model wrote."""

_KINDS_IN_WORDS: tuple[tuple[tuple[int, ...], re.Pattern[str], int | None, tuple[FailureKind, bool]], ...] = (
    (_LIMITING, _THROTTLED, _OPENING, ("rate_limit", True)),
    ((400, 403, 412), _UNPAID, _OPENING, ("quota", False)),
    ((500,), _UNPAID, _HEAD, ("quota", False)),  # MiniMax
    ((400,), _DENIED, _OPENING, ("auth", False)),
    ((500,), _DENIED, _HEAD, ("auth", False)),
    ((400,), _CRASHED, _OPENING, ("server", True)),
    ((400, 403, 422, 451), _FILTERED, None, ("refusal", False)),
    ((500,), _FILTERED, _HEAD, ("refusal", False)),  # MiniMax
    ((403,), _TOO_LONG, _OPENING, ("rejected", False)),
    ((400, 422), _NO_MODEL, None, ("no_model", False)),
    ((503,), _NO_CHANNEL, None, ("no_model", False)),
    ((400, 500), _NO_PATH, _OPENING, ("no_model", False)),
)
"""The statuses under which words count, the words, the part of an error that contains them, and what they say."""


def _find_kind(status: int, words: str, retry_after: float | None) -> tuple[FailureKind, bool]:
    if status == 429 and "request too large" in words:  # larger than the limit of a whole minute
        return "rejected", False
    if status == 429:
        return ("quota", False) if _is_spent(words, retry_after) else ("rate_limit", True)
    other: FailureKind = "server" if status >= 500 else "no_model" if status < 400 else "rejected"
    return _find_kind_in_words(status, words) or _KINDS.get(status) or (other, status >= 500)


def _find_kind_in_words(status: int, words: str) -> tuple[FailureKind, bool] | None:
    """Return the kind of an error by its message, if the message is more specific than the status."""
    for statuses, pattern, length, kind in _KINDS_IN_WORDS:
        if status in statuses and pattern.search(words[:length]):
            return kind
    return None


def _is_spent(words: str, retry_after: float | None) -> bool:
    """Return a 429 that waiting does not resolve; per-minute limits also mention quota and billing (Gemini's do)."""
    if _SPENT_CODE.search(words) or _UNPAID.search(words[:_OPENING]):
        return True
    if "throttling." in words:  # Alibaba calls tokens per minute an allocated quota
        return False
    return retry_after is None and _SPENT.search(words) is not None and not _SHORT_TERM.search(words)


_WORDS = ("message", "msg", "detail", "error", "status_msg", "errors")
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^<>]*>", re.DOTALL | re.IGNORECASE)


def _read_error(body: bytes) -> tuple[str, str, str]:
    """Message, offending parameter and codes from the error shapes that endpoints use."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return _join_lines(_MARKUP.sub(" ", body[:4000].decode("utf-8", "replace"))), "", ""
    if isinstance(found, list) and found:  # Gemini wraps its error in a list
        found = found[0]
    if not isinstance(found, dict):
        return _join_lines(str(found)), "", ""
    error = found.get("error", found)
    if not isinstance(error, dict):
        return _join_lines(str(error)), "", ""
    words = next((error[key] for key in _WORDS if error.get(key)), error)
    raw = error.get("metadata", {}).get("raw") if isinstance(error.get("metadata"), dict) else None
    text = words if isinstance(words, str) else json.dumps(words, ensure_ascii=False)
    if raw:  # OpenRouter: the words of the provider behind it
        text = f"{text}: {raw}"
    codes = " ".join(str(error[key]) for key in ("code", "type", "status") if error.get(key))
    return _join_lines(text), str(error.get("param") or ""), codes


def _join_lines(text: str) -> str:
    return " ".join(clean(text).split())


def read_retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait by `Retry-After` (a number, an HTTP date or a form of `parse_reset`), or None."""
    now = read_clock(headers, now)
    milliseconds = parse_number(headers.get("retry-after-ms") or headers.get("Retry-After-Ms"))
    value = headers.get("Retry-After") or headers.get("retry-after")
    wait = parse_reset(value, now) if milliseconds is None else milliseconds / 1000
    if wait is None:
        try:
            wait = parsedate_to_datetime(value or "").timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
        if wait <= 0:
            return None
    return wait


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter, never below what the endpoint asked for.

    The n-th wait (from 0) is drawn from `[least, min(most, least * 2 ** (n + 1))]`.
    """

    least: float
    most: float

    def draw_wait(self, retry: int, retry_after: float | None, rng: random.Random = _RANDOM) -> float:
        """Seconds before retry number `retry`, counted from 0."""
        highest = min(self.most, self.least * 2.0 ** min(retry + 1, 60))
        drawn = rng.uniform(min(self.least, highest), highest)
        if retry_after is None:
            return drawn
        # Calls that were refused together must not return together.
        return max(drawn, retry_after + rng.uniform(0.0, min(self.least, 1.0)))


class Retries:
    """The retries of one call, which `began` when its first attempt failed.

    Faults of the endpoint use up `most`. Rate limits do not, since the call waits for its turn rather than fails:
    they end it after `REFUSED_FOR` seconds and more than `most` of them. With `most` at 0 nothing is retried.
    """

    def __init__(self, most: int, backoff: Backoff) -> None:
        self._most, self._backoff = most, backoff
        self._faults = self._refusals = 0
        self._refused_at = math.inf
        self.began = time.monotonic()

    def compute_wait(
        self, fault: Fault, now: float, rng: random.Random = _RANDOM, *, is_held: bool = False
    ) -> float | None:
        """Seconds until the next attempt, or None if there is none; a call that is held through an outage goes on."""
        if not fault.again or not self._most:
            return None
        if fault.kind != "rate_limit":
            self._faults += 1
            is_last = self._faults > self._most and not is_held
            return None if is_last else self._backoff.draw_wait(self._faults - 1, fault.retry_after, rng)
        self._refusals += 1
        self._refused_at = min(self._refused_at, now)
        if self._refusals > self._most and now - self._refused_at >= REFUSED_FOR:
            return None
        again = Backoff(min(REFUSED_WAIT, self._backoff.least), self._backoff.most)
        return again.draw_wait(self._refusals - 1, fault.retry_after, rng)


def mark_unreachable(fault: Fault, url: str) -> Fault:
    """Return the fault of the address `url` where nothing has answered yet."""
    what = "readable response" if fault.maybe_billed else "response"
    message = f"{fault.message}; no {what} so far; check the address {url}, and that the server is running"
    # An attempt that reached the endpoint is charged at its worst case, as if a response had been lost.
    status = 200 if fault.maybe_billed else None
    return replace(fault, kind="unreachable", message=message, status=status, again=False)


def mark_wrong_address(fault: Fault, url: str) -> Fault:
    """Return the fault of the address `url`, which answers with a web page."""
    message = f"{fault.message}: check the base URL {url} (most end in /v1)"
    # No status: no endpoint has answered, so none can have billed.
    return replace(fault, kind="unreachable", message=message, status=None, again=False, maybe_billed=False)


def mark_not_found(fault: Fault, endpoint: Endpoint) -> Fault:
    """The fault of an unknown model or address with the URL that was called, and what is usually wrong there."""
    hint = "" if endpoint.is_versioned else " (base URLs usually end in /v1)"
    what = f"check the base URL and the model's name{hint}"
    if re.search(_NOT_HTTPS, fault.text, re.IGNORECASE):
        what = "the base URL must begin with https://"
    return replace(fault, message=f"{fault.message}; the URL was {endpoint.build_url('/chat/completions')}: {what}")


def mark_final_if_same(before: Fault | None, fault: Fault) -> Fault:
    """Return the fault, which ends the call if the previous attempt met the same one: a third attempt would too.

    Only HTTP 500 with equal words counts, numbers and request ids aside: some servers report this way that they
    cannot parse their model's output. Words about load, a bare "Internal Server Error" and gateway statuses say
    nothing about the request.
    """
    if before is None or (fault.status, fault.kind) != (500, "server") or before.status != 500:
        return fault
    if _NUMBERED.sub("#", before.text) != _NUMBERED.sub("#", fault.text) or _PASSING.search(fault.text):
        return fault
    return replace(fault, message=f"{fault.message} (the same response twice)", again=False)


def clean(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD and surrogate pairs joined."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
