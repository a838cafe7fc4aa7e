"""HTTP through pyreqwest, which does its work in Rust."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from autorubric.errors import ConfigError
from autorubric.extras import require
from autorubric.llm.http.secrets import is_forbidden_address
from autorubric.llm.http.transport import (
    BODY_CUT_SHORT,
    CUT_SHORT,
    LARGEST_BODY,
    LINK_LOCAL,
    HttpReply,
    TransportError,
    proxy_for,
    too_large,
)

if TYPE_CHECKING:
    from pyreqwest.client import Client
    from pyreqwest.exceptions import DetailedPyreqwestError
    from pyreqwest.http import HeaderMap, Url
    from pyreqwest.response import Response

_NAMES_HOLD = 300.0
"""Seconds after which a name is looked up again."""

_NEXT_ADDRESS = timedelta(seconds=5)
"""After so long without a connection the next address of a name is tried."""

_LONGEST = 10.0**9
"""Seconds; a longer timeout does not fit what pyreqwest takes."""


class _Runtime:
    """The threads of pyreqwest, which a forked process does not have."""

    started = False
    lost = False


def _note_fork() -> None:
    _Runtime.lost = _Runtime.started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


@dataclass(slots=True, eq=False)
class _Target:
    """Where requests to one URL go.

    Attributes:
        url: the parsed URL.
        proxy: in front of it, or None.
        addresses: of the host that is connected to; the first one is in use.
        found: when they were looked up.
        client: holds the connections to that address.
    """

    url: Url
    proxy: str | None
    addresses: list[str]
    found: float
    client: Client

    def use_next_address(self, failed: Client) -> None:
        """Connect to the next address from now on, unless another request has seen to it."""
        if self.client is failed:
            self.addresses = [*self.addresses[1:], self.addresses[0]]
            self.client = _new_client(self.url, self.proxy, self.addresses)


class PyreqwestTransport:
    """Connections for all event loops of a process.

    pyreqwest looks up names by itself and would follow one to a link-local address. So names are looked up here, and
    each client is told the one address that it connects to.
    """

    def __init__(self) -> None:
        require(["pyreqwest"], "pyreqwest", "AUTORUBRIC_TRANSPORT=pyreqwest")
        self._targets: dict[str, _Target] = {}
        self._timeouts: dict[float, timedelta] = {}

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> HttpReply:
        """Send `body` and return the whole response within `timeout` seconds, or raise a `TransportError`."""
        if _Runtime.lost:
            raise ConfigError(
                "AUTORUBRIC_TRANSPORT=pyreqwest cannot be used in a forked process; spawn processes, or unset it"
            )
        started = time.monotonic()
        target = self._targets.get(url)
        if target is None or started - target.found > _NAMES_HOLD:
            target = await self._find(url, timeout)
        limit = self._timeouts.get(timeout)
        if limit is None:
            limit = self._timeouts[timeout] = timedelta(seconds=min(timeout, _LONGEST))
        for _ in target.addresses[1:]:
            client = target.client
            try:
                return await _send(target, headers, body, limit)
            except TransportError as error:
                left = timeout - (time.monotonic() - started)
                if error.maybe_billed or left <= 0:
                    raise
                target.use_next_address(client)
                limit = timedelta(seconds=min(left, _LONGEST))
        return await _send(target, headers, body, limit)

    async def close(self) -> None:
        """Close the connections; a later `post` opens new ones."""
        targets, self._targets = self._targets, {}
        for target in targets.values():
            await target.client.close()

    async def _find(self, url: str, timeout: float) -> _Target:
        """The target of a URL; a known one is kept while its address is among those of the name."""
        from pyreqwest.http import Url

        known = self._targets.get(url)
        if known is not None:
            known.found = time.monotonic()  # other requests go on with it meanwhile
        parsed, proxy = Url(url), proxy_for(url)
        try:
            addresses = await _addresses(Url(proxy) if proxy else parsed, timeout)
        except TransportError:
            if known is None:
                raise
            return known
        if known is not None and known.addresses[0] in addresses:
            return known
        client = _new_client(parsed, proxy, addresses)
        target = self._targets[url] = _Target(parsed, proxy, addresses, time.monotonic(), client)
        return target


async def _addresses(url: Url, timeout: float) -> list[str]:
    """The IP addresses of a URL's host, none of which is link-local."""
    host, port = (url.host_str or "").strip("[]"), url.port_or_known_default
    loop = asyncio.get_running_loop()
    try:
        found = await asyncio.wait_for(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM), timeout)
    except TimeoutError:
        raise TransportError("timeout", f"{host} was not found within {timeout:g} s", maybe_billed=False) from None
    except OSError as error:
        raise _no_connection(url, error.strerror or str(error)) from None
    addresses = list(dict.fromkeys(str(where[0]) for *_, where in found))
    if any(map(is_forbidden_address, addresses)):
        raise _no_connection(url, LINK_LOCAL)
    return addresses


def _new_client(url: Url, proxy: str | None, addresses: list[str]) -> Client:
    """A client that connects to the first of `addresses`, where the host of `url`, or its proxy, is found."""
    from pyreqwest.client import ClientBuilder
    from pyreqwest.exceptions import BuilderError
    from pyreqwest.http import Url
    from pyreqwest.proxy import ProxyBuilder

    _Runtime.started = True
    dialed = Url(proxy) if proxy else url
    builder = ClientBuilder().http1_only().follow_redirects(False).referer(False).no_proxy()
    builder = builder.pool_idle_timeout(timedelta(seconds=60)).default_cookie_store(False)
    if proxy:
        builder = builder.proxy(ProxyBuilder.all(proxy))
    if dialed.domain is not None:
        builder = builder.resolve(dialed.domain, addresses[0], dialed.port_or_known_default or 0)
    if len(addresses) > 1:
        builder = builder.connect_timeout(_NEXT_ADDRESS)
    try:
        return builder.build()
    except BuilderError as error:  # such as no certificate authorities on this machine
        raise _no_connection(url, _causes(error)[-1]) from None


async def _send(target: _Target, headers: Mapping[str, str], body: bytes, limit: timedelta) -> HttpReply:
    from pyreqwest.exceptions import PyreqwestError

    request = (
        target.client.post(target.url)
        .headers(headers)
        .timeout(limit)
        .body_bytes(body)
        .streamed_read_buffer_limit(1)
        .build_streamed()
    )
    try:
        async with request as response:
            return HttpReply(response.status, await _whole_body(response), _readable(response.headers))
    except (PyreqwestError, OSError, ValueError) as error:
        failed = _fault(error, target, limit)
    try:
        raise failed
    finally:
        del failed, request  # a cycle through the traceback would keep the connection open


async def _whole_body(response: Response) -> bytes:
    reader = response.body_reader
    chunks: list[bytes] = []
    size = 0
    if int(response.headers.get("content-length") or 0) > LARGEST_BODY:
        raise too_large()
    while (chunk := await reader.read_chunk()) is not None:
        size += len(chunk)
        if size > LARGEST_BODY:
            raise too_large()
        chunks.append(chunk.to_bytes())
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _readable(headers: HeaderMap) -> Mapping[str, str]:
    """The headers that are ASCII; pyreqwest raises a ValueError for others when they are read."""
    try:
        return CIMultiDict(headers.items())
    except ValueError:
        found: CIMultiDict[str] = CIMultiDict()
        for name in headers:
            with suppress(ValueError):
                found[name] = headers[name]
        return found


def _fault(error: Exception, target: _Target, limit: timedelta) -> TransportError:
    """What a failure means; the type of `error` does not tell whether the request has left, only its causes do."""
    from pyreqwest.exceptions import DetailedPyreqwestError

    if not isinstance(error, DetailedPyreqwestError):
        return TransportError("network", str(error), maybe_billed=True)
    causes = _causes(error)
    unsent = _UNSENT in causes
    if isinstance(error, TimeoutError):
        message = f"no complete answer within {limit.total_seconds():g} s"
        return TransportError("timeout", message, maybe_billed=not unsent)
    reason = _OS_ERROR.sub("", causes[-1])
    if unsent:
        return _no_connection(target.url, reason)
    if _IN_BODY in causes:
        reason = BODY_CUT_SHORT
    elif _BROKEN.search(reason):
        reason = CUT_SHORT
    return TransportError("network", reason, maybe_billed=True)


def _causes(error: DetailedPyreqwestError) -> list[str]:
    """What went wrong, from the outside in."""
    return [error.message, *(cause["message"] for cause in error.details.get("causes") or ())]


def _no_connection(url: Url, reason: str) -> TransportError:
    message = f"cannot connect to {url.host_str}:{url.port_or_known_default}: {reason}"
    return TransportError("network", message, maybe_billed=False)


_UNSENT, _IN_BODY = "client error (Connect)", "request or response body error"
_BROKEN = re.compile("connection closed|connection reset|broken pipe", re.IGNORECASE)
_OS_ERROR = re.compile(r" \(os error \d+\)$")
