"""Decides how each request is answered: keys, limits, faults and completions, without sockets."""

import json
import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from typing import Any

from autorubric.testing.completion import (
    Completion,
    Replier,
    build_completion_body,
    count_prompt_tokens,
    estimate_tokens,
    join_prompt,
    sized_replies,
)
from autorubric.testing.endpoint.endpoint_limits import (
    Headers,
    PrefixCache,
    RateWindow,
    TokenBucket,
    TokenLimits,
    read_token_limit,
)
from autorubric.testing.faults import (
    FAULTS,
    Action,
    Fault,
    FaultPlan,
    Faults,
    Latency,
    build_fault_plan,
    build_unsupported,
    dump_error,
)

_ELSEWHERE = "/__elsewhere"


@dataclass
class Counts:
    """The counts of an endpoint.

    Attributes:
        requests: requests for chat completions, including failed and unanswered ones.
        by_status: answers sent, by HTTP status.
        by_fault: faults, by name.
        calls_by_body: for each distinct request body (a digest of its bytes), how many answers with status
            200 were sent completely.
        in_flight: requests that wait for their answer now.
        max_in_flight: the maximum of `in_flight`.
        prompt_tokens: tokens of all completed requests, cached ones included.
        cached_tokens: how many of them came from the simulated prefix cache.
        completion_tokens: tokens of all completed answers.
        elsewhere: requests that followed a redirect to the other host.
        elsewhere_with_key: how many of those carried an Authorization header there.
    """

    requests: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    by_fault: Counter[str] = field(default_factory=Counter)
    calls_by_body: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    max_in_flight: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    elsewhere: int = 0
    elsewhere_with_key: int = 0

    def arrive(self) -> None:
        """Count a request for a completion."""
        self.requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def summarize(self) -> dict[str, Any]:
        """Return the counts as JSON values; of bodies, only the number of distinct ones and of repeated calls.

        Example:
            >>> Counts(calls_by_body=Counter({"a": 1, "b": 3})).summarize()["repeated_calls"]
            2
        """
        completed = self.calls_by_body.total()
        return {
            "requests": self.requests,
            "by_status": {str(status): count for status, count in sorted(self.by_status.items())},
            "by_fault": dict(sorted(self.by_fault.items())),
            "completed_calls": completed,
            "distinct_bodies": len(self.calls_by_body),
            "repeated_calls": completed - len(self.calls_by_body),
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "computed_tokens": self.prompt_tokens - self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "elsewhere": self.elsewhere,
            "elsewhere_with_key": self.elsewhere_with_key,
        }


@dataclass(kw_only=True)
class Behaviour:
    """The settings of an endpoint's answers; see `LoopbackEndpoint`."""

    replier: Replier = field(default_factory=sized_replies)
    latency: str | Latency = field(default_factory=Latency)
    faults: Faults = field(default_factory=FaultPlan)
    key: str | None = field(default=None, repr=False)
    requests_per_second: float | None = None
    window: RateWindow | None = None
    rejects: Sequence[str] = ()
    prefix_cache: bool = False
    models: Sequence[str] = ("loopback",)
    seed: int = 0
    limits: TokenLimits | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One request for a completion.

    Attributes:
        body: the parsed JSON.
        head: the request line and all headers, as bytes.
    """

    body: dict[str, Any]
    head: bytes

    @property
    def headers(self) -> dict[str, str]:
        """The headers, with names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


@dataclass(frozen=True, slots=True)
class ServiceOutcome:
    """The answer to one request.

    Attributes:
        status: the HTTP status to send.
        body: the body to send.
        headers: headers other than length and type.
        delay: seconds to wait before sending.
        action: what to do with the connection.
        digest: of the body of a request for a completion; empty for other requests.
        prompt: the text to store in the prefix cache once this is sent.
        tokens: prompt, cached and completion tokens of a completion.
    """

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    action: Action = "answer"
    digest: str = ""
    prompt: str = ""
    tokens: tuple[int, int, int] = (0, 0, 0)


class Service:
    """Answers requests according to its `Behaviour`, and counts them."""

    def __init__(self, behaviour: Behaviour, keep: int) -> None:
        self.counts = Counts()
        self.received: deque[Received] = deque(maxlen=keep)
        self.port = 0
        self._behaviour = behaviour
        latency = behaviour.latency
        self._latency = Latency.parse(latency) if isinstance(latency, str) else latency
        self._faults = build_fault_plan(behaviour.faults)
        self._latencies = Random(behaviour.seed)
        self._fates = Random(behaviour.seed + 1)
        self._window = behaviour.window.open() if behaviour.window else None
        self._bucket = TokenBucket(behaviour.requests_per_second) if behaviour.requests_per_second else None
        self._cache = PrefixCache() if behaviour.prefix_cache else None
        self._rejections = [(parameter, build_unsupported(parameter)) for parameter in behaviour.rejects]

    def answer(self, method: str, path: str, body: bytes, head: bytes) -> ServiceOutcome:
        """Return the answer to a request; `head` is its request line and headers."""
        if path.startswith(_ELSEWHERE):
            self.counts.elsewhere += 1
            self.counts.elsewhere_with_key += "authorization" in Received({}, head).headers
            return ServiceOutcome(404, dump_error("You have been redirected.", "invalid_request_error"))
        if method == "POST" and path.endswith("/chat/completions"):
            return self._answer_completion(body, head)
        books = {"/__stats": self.counts.summarize, "/__calls": self.counts.calls_by_body.copy}
        if path in books:
            return ServiceOutcome(200, json.dumps(books[path]()).encode())
        return self.answer_other(method, path, body, head)

    def answer_other(self, method: str, path: str, body: bytes, head: bytes) -> ServiceOutcome:
        """Answer a request that is not for a completion: the list of models, or a 404; subclasses add more."""
        if self._is_locked_out(head):
            return ServiceOutcome(401, FAULTS["401"].body or b"")
        if method == "GET" and path.endswith("/models"):
            models = [{"id": name, "object": "model"} for name in self._behaviour.models]
            return ServiceOutcome(200, json.dumps({"object": "list", "data": models}).encode())
        return ServiceOutcome(404, dump_error(f"Unknown request: {method} {path}", "invalid_request_error"))

    def finish(self, outcome: ServiceOutcome, *, sent: bool) -> None:
        """Count the end of a request for a completion."""
        if not outcome.digest:
            return
        counts = self.counts
        if sent:
            counts.by_status[outcome.status] += 1
        if sent and outcome.status == 200:
            counts.calls_by_body[outcome.digest] += 1
            prompt, cached, completion = outcome.tokens
            counts.prompt_tokens += prompt
            counts.cached_tokens += cached
            counts.completion_tokens += completion
            if self._cache is not None:
                self._cache.store(outcome.prompt)
        counts.in_flight -= 1  # last: another thread that sees 0 finds all counts

    def make_reply(self, body: dict[str, Any]) -> Completion:
        """Return the replier's answer."""
        reply = self._behaviour.replier(body)
        return Completion(reply) if isinstance(reply, str) else reply

    def _answer_completion(self, data: bytes, head: bytes) -> ServiceOutcome:
        index = self.counts.requests
        self.counts.arrive()
        digest = blake2b(data, digest_size=16).hexdigest()
        if self._is_locked_out(head):
            return self._fail(FAULTS["401"], digest, delay=0.0)
        body = _parse_chat_body(data)
        refused, headers = self._check_limits(body)
        if refused:
            return ServiceOutcome(429, FAULTS["429"].body or b"", headers, digest=digest)
        if body is None:
            problem = dump_error("The body is not a JSON object with a list 'messages'.", "invalid_request_error")
            return ServiceOutcome(400, problem, digest=digest)
        outcome = self._answer_accepted(body, head, index, digest)
        return replace(outcome, headers=(*outcome.headers, *headers)) if headers else outcome

    def _is_locked_out(self, head: bytes) -> bool:
        key = self._behaviour.key
        return key is not None and Received({}, head).headers.get("authorization") != f"Bearer {key}"

    def _check_limits(self, body: dict[str, Any] | None) -> tuple[bool, Headers]:
        """Return whether a limit refuses the request, and the headers about it."""
        now = time.monotonic()
        wait = self._bucket.wait(now) if self._bucket else 0.0
        if wait > 0:
            return True, (("Retry-After", str(math.ceil(wait))), ("retry-after-ms", str(math.ceil(wait * 1000))))
        if self._window is None:
            return False, ()
        wait, headers = self._window.admit(now, _count_requested_tokens(body))
        return wait > 0, headers

    def _answer_accepted(self, body: dict[str, Any], head: bytes, index: int, digest: str) -> ServiceOutcome:
        self.received.append(Received(body, head))
        refused = self._find_refusal(body, digest)
        if refused is not None:
            return refused
        fault = self._faults.choose_fault(body, index, self._fates)
        delay = self._latency.sample(self._latencies)
        if fault is not None:
            self.counts.by_fault[fault.name] += 1
            if fault.status != 200 or fault.body is not None:
                return self._fail(fault, digest, delay)
        return self._complete(body, fault, digest, delay)

    def find_rejection(self, body: dict[str, Any]) -> Fault | None:
        """Return the answer to an unsupported parameter; None without one."""
        return next((fault for parameter, fault in self._rejections if _has_parameter(body, parameter)), None)

    def _find_refusal(self, body: dict[str, Any], digest: str) -> ServiceOutcome | None:
        """Return the refusal of a request with unsupported parameters or limits; None if it is accepted."""
        rejection = self.find_rejection(body)
        if rejection is not None:
            return self._fail(rejection, digest, delay=0.0)
        limits = self._behaviour.limits
        problem = limits.find_refusal(body, count_prompt_tokens(body)) if limits else None
        return ServiceOutcome(400, dump_error(problem, "invalid_request_error"), digest=digest) if problem else None

    def _complete(self, body: dict[str, Any], fault: Fault | None, digest: str, delay: float) -> ServiceOutcome:
        completion = self.make_reply(body)
        if self._behaviour.limits is not None:
            completion = self._behaviour.limits.cut(completion, body)
        if fault is not None and fault.change is not None:
            completion = fault.change(completion)
        prompt = join_prompt(body)
        asked = estimate_tokens(len(prompt))
        cached = self._cache.count_cached_tokens(prompt) if self._cache else None
        return ServiceOutcome(
            200,
            build_completion_body(completion, str(body.get("model")), asked, cached),
            delay=delay,
            action="answer" if fault is None else fault.action,
            digest=digest,
            prompt=prompt if self._cache else "",
            tokens=(asked, cached or 0, completion.tokens),
        )

    def _fail(self, fault: Fault, digest: str, delay: float) -> ServiceOutcome:
        headers = fault.headers
        if 300 <= fault.status < 400:
            # To a client that protects its key, another name of this host is another host.
            headers = (
                *headers,
                ("Location", f"http://localhost:{self.port}{_ELSEWHERE}/v1/chat/completions"),
            )
        return ServiceOutcome(fault.status, fault.body or b"", headers, delay, fault.action, digest)


def _count_requested_tokens(body: dict[str, Any] | None) -> int:
    """Tokens that a request counts as: its prompt, and the maximum of its answer."""
    return 0 if body is None else count_prompt_tokens(body) + (read_token_limit(body) or 0)


def _parse_chat_body(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except ValueError:
        return None
    if isinstance(body, dict) and isinstance(body.get("messages"), list) and body["messages"]:
        return body
    return None


def _has_parameter(body: dict[str, Any], parameter: str) -> bool:
    name, _, kind = parameter.partition(".")
    value = body.get(name)
    if kind:
        return isinstance(value, dict) and value.get("type") == kind
    if name == "temperature":
        return value is not None and value != 1
    return value is not None
