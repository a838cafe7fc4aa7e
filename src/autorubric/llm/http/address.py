"""Whether a fault concerns an address, and so every call, or one request."""

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from autorubric.llm.http.retry import Fault, mark_unreachable, mark_wrong_address, quote_words

WEB_PAGE = "the answer is a web page, not a chat completion"
"""The message for an address that serves web pages; a failing gateway may serve one too."""

MOST_BROKEN = 8
"""Requests in a row that may be broken off, or have an answer that cannot be read, before the first answer."""

_MAY_BE_TLS = re.compile("connection was reset|not valid HTTP")
"""How a server that expects HTTPS ends a plain connection."""

_ONE_TEXT = (
    "a firewall or proxy refuses this text, and lets other requests pass; ask its operator, or leave the text out"
)
_NOW_ALL = (
    "a firewall or proxy in front of the endpoint refuses all requests now, though it accepted some before; ask its "
    "operator, then run the command again"
)

Ask: TypeAlias = Callable[[], Awaitable[int | None]]


class Address:
    """What was learned about an address with one key.

    Args:
        url: its base URL.

    Attributes:
        answered: whether an endpoint of this protocol has ever answered there.
        accepted: whether a request has ever had a reply.
    """

    def __init__(self, url: str = "") -> None:
        self._url = url
        self.answered = self.accepted = False
        self._broken: list[str] = []
        self._passed_at = self._refused_at = -math.inf
        self._asking: asyncio.Future[None] | None = None

    def note_reply(self) -> None:
        """Note that a request has had a reply."""
        self.answered = self.accepted = True

    async def classify(self, fault: Fault, sent_at: float, item: str, ask: Ask) -> Fault:
        """The fault, attributed to the address if nothing answers there, to the request if a firewall refuses it.

        Args:
            fault: of a request.
            sent_at: when it was sent, by `time.perf_counter`.
            item: what it was for.
            ask: sends a request without a text; returns the status of the answer, or None if there is none.
        """
        if not self.answered and fault.message == WEB_PAGE:
            return mark_wrong_address(fault, self._url)
        # aiohttp names the package for a compression that nobody requested: all answers of this server have it.
        is_alien = "Please install" in fault.message
        if not self.answered and fault.status is None and (is_alien or not fault.maybe_billed):
            return mark_unreachable(fault, self._url)
        if fault.status is not None:
            self.answered = True
        elif fault.kind == "network" and not self.answered:
            if self._url.startswith("http:") and _MAY_BE_TLS.search(fault.message):
                fault = replace(fault, message=f"{fault.message} (the server may expect https://)")
            self._broken.append(item)
            if len(self._broken) >= MOST_BROKEN and len(set(self._broken)) > 1:
                return mark_unreachable(fault, self._url)
        return await self._classify_refusal(fault, sent_at, ask) if _may_be_firewall(fault) else fault

    async def _classify_refusal(self, fault: Fault, sent_at: float, ask: Ask) -> Fault:
        """Return the fault of one text that a firewall refuses, or of all calls."""
        if await self._is_refusing_all(fault, sent_at, ask):
            return _with_reason(fault, _NOW_ALL) if self.accepted else fault
        return replace(_with_reason(fault, _ONE_TEXT), kind="rejected")

    def must_hold_back(self, fault: Fault) -> bool:
        """Whether calls go out one by one after a fault: no text was accepted, or no answer could be read so far."""
        return (_may_be_firewall(fault) and not self.accepted) or (fault.kind == "network" and not self.answered)

    async def _is_refusing_all(self, fault: Fault, sent_at: float, ask: Ask) -> bool:
        """Return whether a request without a text is refused, too; of calls refused at the same time, one asks."""
        loop = asyncio.get_running_loop()
        while max(self._passed_at, self._refused_at) < sent_at:
            if self._asking is not None and self._asking.get_loop() is loop:
                await asyncio.shield(self._asking)
                continue
            self._asking = asking = loop.create_future()
            try:
                is_refused = await ask() in (401, fault.status)
            finally:
                self._asking = None
                asking.set_result(None)
            if is_refused:
                self._refused_at = time.perf_counter()
            else:
                self._passed_at = time.perf_counter()
        return self._refused_at > self._passed_at


def is_about_server(fault: Fault) -> bool:
    """Return whether a fault of a gateway or the network is about all requests; an HTTP 500 may be about one text."""
    is_timeout = fault.kind == "timeout" and not fault.maybe_billed  # no connection
    return is_timeout or (fault.kind in ("server", "network") and fault.status != 500)


def _may_be_firewall(fault: Fault) -> bool:
    """Whether a firewall or proxy may have refused a text: they answer with a page, not as the endpoint does."""
    return fault.page and fault.status in (403, 405)


def _with_reason(fault: Fault, why: str) -> Fault:
    return replace(fault, message=f"HTTP {fault.status}{quote_words(fault.text)} ({why})")
