"""`BatchModel`: a model at an HTTP endpoint whose requests are sent in batches, and the providers that offer them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autorubric.errors import ConfigError
from autorubric.llm.batches.dialect import BatchDialect, BatchLimits
from autorubric.llm.batches.link import BatchLink
from autorubric.llm.batches.other_dialects import AnthropicDialect, GeminiDialect, MistralDialect, OpenRouterDialect
from autorubric.llm.batches.setting import batching
from autorubric.llm.billing import Reservation, current_reservation
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.endpoints import Endpoints
from autorubric.llm.http.negotiation import Terms
from autorubric.llm.http.prices import Price
from autorubric.llm.http.providers import Endpoint
from autorubric.llm.http.retry import Backoff, Fault, Retries, mark_final_if_same
from autorubric.llm.http.wire import build_body
from autorubric.llm.request import CallError, Failure, Reply, Request, Usage

if TYPE_CHECKING:
    from autorubric.llm.batches.batch_queue import BatchQueue


SERVICES: dict[str, BatchDialect] = {
    "openai": BatchDialect(),
    "anthropic": AnthropicDialect(),
    "gemini": GeminiDialect(),
    "mistral": MistralDialect(),
    "openrouter": OpenRouterDialect(),
    "together": BatchDialect(BatchLimits(bytes=100_000_000), False, "/files/upload", "batch-api"),
    "groq": BatchDialect(),
    "dashscope": BatchDialect(),
}
_PART = 0.5
"""What each of them charges, as a share of the list price."""


def find_service(endpoint: Endpoint) -> BatchDialect:
    """Return the batch service of an endpoint.

    Raises:
        ConfigError: its provider offers none that is known.

    Example:
        >>> from autorubric.llm.config import LLMConfig
        >>> from autorubric.llm.http.providers import resolve
        >>> find_service(resolve(LLMConfig("deepseek/deepseek-chat"), {"DEEPSEEK_API_KEY": "k"}))
        Traceback (most recent call last):
        autorubric.errors.ConfigError: deepseek/deepseek-chat: deepseek has no batch endpoint; ...
    """
    if endpoint.provider is None:
        return BatchDialect()  # any other address may offer batches in OpenAI's form
    service = SERVICES.get(endpoint.provider)
    if service is None:
        raise ConfigError(
            f"{endpoint.name}: {endpoint.provider} has no batch endpoint; leave out --batch (in Python: batch), or "
            f"use a model of {', '.join(SERVICES)}, or your own address of a server with OpenAI's batch API"
        )
    return service


class BatchModel(ChatModel):
    """A model whose requests wait until a batch of them is sent.

    It has the identity of the `ChatModel` with the same configuration, so that replies of either are found under the
    same keys. Its price is that of the batch service.
    """

    def __init__(
        self, config: LLMConfig, endpoints: Endpoints | None = None, *, environ: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(config, endpoints, environ=environ)
        self.service = dialect = find_service(self.endpoint)
        self.link = BatchLink(
            dialect.find_root(self.endpoint.base_url),
            dialect.build_headers(self._headers, self._key),
            config.timeout,
            config.max_retries,
            Backoff(config.retry_min_wait, config.retry_max_wait),
            self.secrets,
        )
        part = _PART if self.endpoint.provider in SERVICES else 1.0  # elsewhere no lower price is known
        self._batch_price = None if self._price is None else compute_batch_price(self._price, part)
        how = batching.get()
        if how is not None:
            how.models.append(self)

    def __repr__(self) -> str:
        return f"BatchModel({self.name!r} at {self.endpoint.base_url})"

    def cost(self, usage: Usage) -> float | None:
        """Dollars for `usage` in a batch, or None if the model's price is unknown."""
        return None if self._batch_price is None else self._batch_price.compute_dollars(usage)

    def build_body(self, request: Request, terms: Terms | None = None) -> tuple[Terms, dict[str, Any]]:
        """Return the body of a chat completion in a form, by default the one that the endpoint is known to accept."""
        terms = terms or self.terms
        plain = dataclasses.replace(terms, streams=False)  # a result of a batch is never a stream
        return terms, build_body(self.endpoint.model, self._parameters, request, plain)

    @property
    def terms(self) -> Terms:
        """The form that the endpoint is known to accept."""
        return self._dialect.terms

    def build_stop(self, fault: Fault) -> Failure:
        """Return why a run stops after a fault of the whole service."""
        return dataclasses.replace(self.build_failure(fault, 1), kind="stopped", sent=False)

    async def close(self) -> None:
        """Leave the endpoint and close the connections."""
        await self.link.close()
        await super().close()

    async def complete(self, request: Request) -> Reply:
        """Answer one request through a batch; raises a `CallError` if there is no reply."""
        reservation = current_reservation.get() or Reservation()
        queue = reservation.batch_queue
        if queue is None:
            raise ConfigError("batches need a run directory to be recorded in; pass run_dir, or leave out batch")
        reservation.count_waiting(1)
        try:
            reply = await self._complete_in_batch(queue, request, reservation)
        finally:
            reservation.count_waiting(-1)
        if reply is not None:
            return reply
        if queue.left is not None:
            raise CallError(queue.left)
        await reservation.reprice(super().cost)
        async with queue.send_alone():
            return await super().complete(request)

    async def _complete_in_batch(self, queue: BatchQueue, request: Request, reservation: Reservation) -> Reply | None:
        """Return the reply from a batch; None if the request is to be sent alone."""
        reservation.note_waiting()
        retries, tries = Retries(self._config.max_retries, self._backoff), 0
        before: Fault | None = None
        asking = request
        while True:
            found = await queue.put(self, asking, reservation, again=tries > 0)
            if found is None or isinstance(found, Reply):
                return found if found is None or not tries else dataclasses.replace(found, attempts=tries + 1)
            tries += 1
            fault = found[2]
            other = self._find_other_form(request, asking, found, is_first=False)
            if other is not None:
                asking = other
                continue
            before = fault = mark_final_if_same(before, fault)
            if retries.compute_wait(fault, time.monotonic()) is None:
                raise CallError(self.build_failure(fault, tries))
            if fault.maybe_billed:
                await reservation.extend()
            reservation.note_waiting()


def compute_batch_price(listed: Price, part: float) -> Price:
    """Return the price in a batch: the stated one, otherwise a share of the list price.

    Example:
        >>> compute_batch_price(Price(2.0, 8.0), 0.5)
        Price(input=1.0, output=4.0, cached=None, cache_write=None, tiers=(), batch=None)
    """
    if listed.batch is not None:
        return listed.batch
    tiers = tuple((above, compute_batch_price(tier, part)) for above, tier in listed.tiers)
    cached, written = (None if price is None else price * part for price in (listed.cached, listed.cache_write))
    return Price(listed.input * part, listed.output * part, cached, written, tiers)
