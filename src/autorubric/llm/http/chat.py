"""`ChatModel`: an OpenAI-compatible HTTP endpoint as a `Model`."""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from autorubric.core.values import copy_with
from autorubric.errors import ConfigError
from autorubric.llm import attempts
from autorubric.llm.billing import Reservation, current_reservation
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.allowed_tokens import find_sent_limit, measure_prompt
from autorubric.llm.http.endpoints import Endpoints, find_shared_endpoints
from autorubric.llm.http.limiter import Allowance, QueuePlace
from autorubric.llm.http.negotiation import (
    Gate,
    Terms,
    enter_gates,
    is_about_reply,
    is_negotiable,
    open_gates,
    pass_turn,
)
from autorubric.llm.http.prices import CUT_PROMPT, find_price, is_cut_prompt, is_plausible, quote_usage, read_price
from autorubric.llm.http.providers import Endpoint, is_builtin, resolve
from autorubric.llm.http.quota import read_limits
from autorubric.llm.http.retry import Backoff, Fault, Retries, classify_error, mark_final_if_same, mark_not_found
from autorubric.llm.http.secrets import HiddenHeaders, drop_secret_headers, redact
from autorubric.llm.http.transport import HttpReply, TransportError, find_proxy
from autorubric.llm.http.wire import (
    bound_prompt,
    build_body,
    build_identity,
    build_sampling,
    encode_body,
    read_answer,
    with_limit,
)
from autorubric.llm.limits import Limit, explain_limit
from autorubric.llm.request import CallError, Failure, Reply, Request, Usage

_log = logging.getLogger("autorubric.llm")

_GUESSED_COMPLETION = 1024.0  # tokens; for a tokens-per-minute limit before the first reply

_Attempted: TypeAlias = tuple[Terms, Mapping[str, Any], "Reply | Fault"]


class ChatModel:
    """One model at one HTTP endpoint, with its retries, limits and negotiation.

    One call of `complete` makes at most `max_retries + 1` HTTP requests, plus requests that are sent again in another
    form after a refusal, at most once for each parameter of a model, and requests that hit a rate limit. A call that
    waits holds no slot.

    Attributes:
        name: the canonical `provider/model` string.
        endpoint: where requests are sent.
        secrets: what messages must not show.

    Example:
        >>> model = ChatModel(LLMConfig("vllm/Qwen/Qwen3-8B", temperature=0.0), environ={})
        >>> model.name, model.identity()[:3]
        ('vllm/Qwen/Qwen3-8B', ('http://localhost:8000/v1', 'Qwen/Qwen3-8B', 0.0))
    """

    def __init__(
        self,
        config: LLMConfig,
        endpoints: Endpoints | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Look up everything that a call needs; nothing is sent.

        Args:
            config: the model as it is now; later changes have no effect.
            endpoints: shared with other models; by default with all others of this thread.
            environ: environment variables; those of the process by default.
        """
        self._config = config = dataclasses.replace(config)
        self.endpoint = resolve(config, environ)
        self.name = self.endpoint.name
        if is_builtin(self.name):
            raise ConfigError(f"model {self.endpoint.name!r} runs in this process and has no endpoint")
        self._parameters = build_sampling(config, self.endpoint.provider)
        self._asked = find_sent_limit(self._parameters) or None
        self._identity = build_identity(config, self.endpoint)
        self._endpoints = find_shared_endpoints() if endpoints is None else endpoints
        self._limiter = self._endpoints.find_limiter(self.endpoint)
        self._dialect = self._endpoints.find_dialect(self.endpoint)
        for gate in self._dialect.gates:
            gate.renew()
        self._key = self.endpoint.key.reveal() if self.endpoint.key else None
        self._url = self.endpoint.build_url("/chat/completions")
        find_proxy(self._url)
        self._headers = _build_headers(config, self.endpoint)
        shown = drop_secret_headers(config.extra_headers).values()
        hidden = (self._key, *(value for value in config.extra_headers.values() if value not in shown))
        self.secrets = tuple(secret for secret in hidden if secret)
        known = find_price(self.endpoint, self._endpoints.prices)
        self._price = read_price(config.prices) if config.prices else known
        self._backoff = Backoff(config.retry_min_wait, config.retry_max_wait)
        most = config.max_parallel_requests or self._endpoints.max_in_flight
        self._limiter.join(self, Allowance(most, config.requests_per_minute, config.tokens_per_minute))
        self._account = self._endpoints.find_account_slots(self.endpoint)
        self._account.join(self, config.max_parallel_requests)
        self._endpoints.models.add(self)
        self._completion = _GUESSED_COMPLETION  # mean tokens of the last completions
        attempts.trace_calls()

    def __repr__(self) -> str:
        return f"ChatModel({self.name!r} at {self.endpoint.base_url})"

    def identity(self) -> tuple[Any, ...]:
        """Address, served name and all that is sent with each request, except keys and other secrets."""
        return self._identity

    @property
    def limit(self) -> Limit:
        """The completion limit, and how far it can be raised."""
        config = self._config
        allowed = self._dialect.terms.most_tokens
        return Limit(self._asked, config.max_tokens_ceiling, config.max_tokens_fixed, allowed)

    def list_notes(self) -> tuple[str, ...]:
        """Return what the endpoint does not accept, one sentence each."""
        return tuple(self._dialect.notes)

    def ceiling(self, request: Request) -> Usage | None:
        """An upper bound of the tokens of `request`: bytes of the prompt plus `max_tokens`; None without it."""
        most = request.max_tokens or self._asked
        return None if most is None else Usage(bound_prompt(request.messages, request.schema), most)

    def cost(self, usage: Usage) -> float | None:
        """Dollars for `usage`, or None if the model's price is unknown."""
        return None if self._price is None else self._price.compute_dollars(usage)

    async def complete(self, request: Request) -> Reply:
        """Answer one request, with retries and waits; raises a `CallError` if there is no reply."""
        gates = (self._dialect.gates[request.schema is not None], self._limiter.gate)
        ahead: list[Gate] = []
        reservation = current_reservation.get() or Reservation()
        reservation.note_waiting()
        reservation.count_waiting(1)
        retries: Retries | None = None
        tries = replies = 0
        asking = request
        before: Fault | None = None
        try:
            while True:
                if not (gates[0].is_open and gates[1].is_open):
                    await enter_gates(gates, ahead)
                attempted = await self._try(asking, reservation, gates)
                if attempted is None:
                    open_gates(ahead)  # other calls must not wait for one that waits for the budget
                    await reservation.cover()
                    continue
                terms, body, outcome = attempted
                tries += 1
                if isinstance(outcome, Reply):
                    open_gates(ahead)
                    gates[0].note_reply(outcome.latency)
                    self._dialect.note_reply(body, is_probe=asking.constrained != request.constrained)
                    self._dialect.context.note_usage(request, outcome.usage)
                    limit = terms.cap_limit(asking.max_tokens or self._asked)
                    reply = self._add_price(with_limit(outcome, body, limit), tries)
                    self._report(request, tries, reply)
                    return reply
                other = self._find_other_form(request, asking, (terms, body, outcome), is_first=before is None)
                if other is not None:
                    self._report(request, tries, outcome, 0.0)
                    asking = other
                    continue
                is_doubted = self._dialect.must_omit_schema(body, before, outcome)
                earlier = None if is_doubted or gates[0].is_down_since(replies) else before
                before, outcome, replies = outcome, mark_final_if_same(earlier, outcome), gates[0].replies
                retries = retries or Retries(self._config.max_retries, self._backoff)
                gates[0].note_fault(outcome, request.item, retries.began)
                wait = retries.compute_wait(
                    outcome, time.monotonic(), is_held=self._notify(outcome, gates, ahead, reservation)
                )
                self._report(request, tries, outcome, wait)
                end = gates[0].find_end(self.name, outcome, self._config, is_patient=reservation.outages is not None)
                if wait is None or end is not None:
                    raise CallError(dataclasses.replace(self.build_failure(outcome, tries), end=end))
                await self._wait_to_retry(wait, outcome, tries, reservation, ahead)
                asking = copy_with(asking, constrained=request.constrained and not is_doubted)
        finally:
            reservation.count_waiting(-1)
            for gate in ahead:
                gate.leave()

    async def _wait_to_retry(
        self, wait: float, fault: Fault, tries: int, reservation: Reservation, ahead: list[Gate]
    ) -> None:
        """Wait, then reserve another attempt; where the budget refuses it, the call fails with the last fault."""
        reservation.count_retry(rate_limited=fault.kind == "rate_limit")
        await asyncio.sleep(wait)
        await pass_turn(fault, ahead)  # no call waits for one that waits for the budget
        if fault.maybe_billed:
            try:
                await reservation.extend()
            except CallError as error:
                failure = self.build_failure(fault, tries)
                message = f"{failure.message}; not retried: {error.failure.message}"
                raise CallError(dataclasses.replace(failure, message=message)) from None
            reservation.note_sent(False)

    async def close(self) -> None:
        """Leave the endpoint; the last model to leave closes the connections."""
        open_models = self._endpoints.models
        if self in open_models:
            open_models.remove(self)
            self._limiter.leave(self)
            self._account.leave(self)
            if not open_models:
                await self._endpoints.aclose()

    async def _try(self, request: Request, reservation: Reservation, gates: Sequence[Gate]) -> _Attempted | None:
        """One HTTP request in the current form, and its outcome; None if the budget has to cover it again first."""
        estimate = self._estimate(request)
        off, heard, before = 0, False, [gate.refusal for gate in gates]
        place = await self._limiter.acquire(estimate)
        try:
            if reservation.must_be_covered:
                return None
            self._check_turn(request, gates, before)
            attempted = await self._send(request, reservation, place)
            outcome = attempted[2]
            heard = isinstance(outcome, Reply) or outcome.status is not None
            if isinstance(outcome, Fault) and outcome.kind == "rate_limit":
                self._limiter.note_refused(place, outcome.retry_after, self.build_failure(outcome, 0))
            elif heard:
                self._limiter.note_accepted(place)
            if estimate and isinstance(outcome, Reply) and outcome.usage:
                off = estimate - outcome.usage.total_tokens
                self._completion += (outcome.usage.completion_tokens - self._completion) / 8
            return attempted
        finally:
            if not heard:
                self._limiter.withdraw(place)
            self._limiter.release(off)

    async def _send(self, request: Request, reservation: Reservation, place: QueuePlace) -> _Attempted:
        reservation.note_sent()
        terms = self._dialect.terms
        fitting = self._dialect.context.fit(request, terms.cap_limit(request.max_tokens or self._asked))
        body = build_body(self.endpoint.model, self._parameters, fitting, terms)
        data = encode_body(body)
        reservation.count_waiting(-1)
        started = time.perf_counter()
        try:
            answer = await self._endpoints.transport.post(self._url, self._headers, data, self._config.timeout)
            latency = time.perf_counter() - started
            outcome: Reply | Fault = self._read(request, answer, latency)
            if isinstance(outcome, Reply) or outcome.kind != "quota":  # no call waits for the reset of a daily limit
                self._limiter.apply_readings(place, read_limits(answer.headers))
        except TransportError as error:
            fault = classify_error(error, *self.secrets)
            outcome = dataclasses.replace(fault, latency=time.perf_counter() - started)
        finally:
            reservation.count_waiting(1)
        if isinstance(outcome, Reply):
            self._limiter.note_reply()
        else:
            if outcome.kind == "timeout" and outcome.maybe_billed:
                self._limiter.note_timeout(place)
            if not outcome.maybe_billed:
                reservation.note_sent(False)
            if reservation.activity is not None and reservation.activity.hits:  # replies of earlier sessions
                self._limiter.address.accepted = True
            outcome = await self._limiter.address.classify(outcome, started, request.item, self._probe)
        return terms, body, outcome

    def _read(self, request: Request, answer: HttpReply, latency: float) -> Reply | Fault:
        """Return the reply in a response, or the fault if it has none."""
        outcome = read_answer(answer, latency, self.secrets)
        if isinstance(outcome, Fault):
            if (outcome.kind, outcome.status) == ("no_model", 503) and any(g.replies for g in self._dialect.gates):
                outcome = dataclasses.replace(outcome, kind="server", again=True)  # the name is right
            fault = mark_not_found(outcome, self.endpoint) if outcome.kind == "no_model" else outcome
            return dataclasses.replace(fault, latency=latency)
        if not self._dialect.cuts_prompts and is_cut_prompt(outcome, request):
            self._dialect.cuts_prompts = True
            _log.warning(CUT_PROMPT, self.name)
        return outcome if is_plausible(outcome, request) else self.drop_usage(outcome, answer.body)

    def _find_other_form(
        self, request: Request, asked: Request, refused: tuple[Terms, Mapping[str, Any], Fault], *, is_first: bool
    ) -> Request | None:
        """Return the request to send after the endpoint refused parameters of this one; None if nothing helps."""
        terms, body, fault = refused
        is_taken = is_first and self._dialect.took_format and "response_format" in body
        if not is_negotiable(fault, is_taken):
            return None
        if asked.constrained and "response_format" in body and is_about_reply(fault):
            return copy_with(asked, constrained=False)
        shorter = self._dialect.context.shorten(asked, body, fault, again=asked.max_tokens != request.max_tokens)
        return shorter or (asked if self._dialect.learn(terms, body, fault) else None)

    def _check_turn(self, request: Request, gates: Sequence[Gate], before: list[Failure | None]) -> None:
        """End the call if a gate has refused since, or a truncated reply already had all tokens that are allowed."""
        for gate, refusal in zip(gates, before, strict=True):
            if gate.refusal is not None and gate.refusal is not refusal:
                raise CallError(gate.refusal)
        most = self._dialect.terms.cap_limit(request.max_tokens)
        if most is not None and most <= request.cut_at:
            message = f"the reply was cut off at {request.cut_at:,} tokens; {explain_limit(most)}"
            raise CallError(Failure("truncated", message, sent=False))

    async def _probe(self) -> int | None:
        """Return the status of the answer to a request without messages, for which nothing can be generated."""
        try:
            answer = await self._endpoints.transport.post(self._url, self._headers, b"{}", self._config.timeout)
        except TransportError:
            return None
        return answer.status

    def drop_usage(self, reply: Reply, body: bytes) -> Reply:
        """Return the reply without implausible token counts; the first one is logged."""
        if not self._dialect.miscounts:
            self._dialect.miscounts = True
            stated = redact(quote_usage(body), *self.secrets)
            _log.warning(
                "%s: a reply has no plausible token counts (usage: %s). Such replies are charged at their "
                "worst case: a token for each byte of the prompt, and max_tokens.",
                self.name,
                stated,
            )
        return dataclasses.replace(reply, usage=None)

    def _report(self, request: Request, number: int, outcome: Reply | Fault, retry_in: float | None = None) -> None:
        if not attempts.is_watched():
            return
        ended = self.build_failure(outcome, number) if isinstance(outcome, Fault) else outcome
        where = (self.name, self.endpoint.model, self.endpoint.base_url)
        attempts.emit(attempts.Attempt(request, *where, number, time.time(), outcome.latency, ended, retry_in))

    def _notify(self, fault: Fault, gates: tuple[Gate, Gate], ahead: list[Gate], reservation: Reservation) -> bool:
        """Tell the calls behind this one what it met; return whether it waits for the end of an outage."""
        failure = dataclasses.replace(self.build_failure(fault, 0), sent=False)
        gate, outages = gates[0], reservation.outages
        if outages is not None:
            outages[self.name] = gate.describe_outage
        if fault.kind in ("auth", "quota", "unreachable"):
            for each in gates:
                each.refuse(failure)
            ahead.clear()
        elif fault.kind == "no_model":
            gate.refuse(failure)
            gates[1].open()
            ahead.clear()
        elif gate.must_hold(fault, is_patient=outages is not None):
            gate.hold()
            gates[1].open()
            return gate.replies > 0
        elif not self._limiter.address.must_hold_back(fault):
            open_gates(ahead)
        return False

    def build_failure(self, fault: Fault, attempts: int) -> Failure:
        """Return the failure of a request after this many attempts."""
        often = f" ({attempts} attempts)" if attempts > 1 else ""
        sent = fault.maybe_billed or fault.status is not None
        return Failure(fault.kind, f"{self.name}: {fault.message}{often}", fault.status, attempts, sent=sent)

    def _add_price(self, reply: Reply, tries: int) -> Reply:
        """Return the reply with its price: as the endpoint states it (OpenRouter does), or by the model's prices."""
        cost = reply.cost if self.endpoint.provider == "openrouter" and not self._config.prices else None
        # A charge of 0 may mean that another party bills the call, such as the user's own provider.
        if self._price is not None and not cost:
            cost = None if reply.usage is None else self._price.compute_dollars(reply.usage)
        return reply if (tries, cost) == (reply.attempts, reply.cost) else copy_with(reply, attempts=tries, cost=cost)

    def _estimate(self, request: Request) -> int:
        """Tokens to reserve in a tokens-per-minute limit, corrected once the reply states the true number."""
        if not self._limiter.counts_tokens:
            return 0
        prompt = measure_prompt(request) // 4
        most = self._parameters.get("max_tokens")
        if isinstance(most, int):
            return prompt + min(most, int(_GUESSED_COMPLETION))
        return prompt + round(self._completion)


def _build_headers(config: LLMConfig, endpoint: Endpoint) -> HiddenHeaders:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "autorubric"}
    return HiddenHeaders({**headers, **endpoint.build_authorization(), **config.extra_headers})
