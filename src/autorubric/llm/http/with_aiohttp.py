"""HTTP through aiohttp."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

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
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult
    from yarl import URL


class AiohttpTransport:
    """Connections for one event loop at a time; each loop gets its own."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: AsyncGenerator[None, None] | None = None
        self._targets: dict[str, tuple[URL, str | None]] = {}
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> HttpReply:
        """Send `body` and return the whole response within `timeout` seconds, or raise a `TransportError`."""
        import aiohttp

        session = self._session_here()
        if self._held is None:
            self._held = _until_the_loop_ends(session)
            await anext(self._held)
        target, proxy = self._targets.get(url) or self._target(url)
        limit = self._timeouts.get(timeout)
        if limit is None:
            limit = self._timeouts[timeout] = aiohttp.ClientTimeout(total=timeout)
        try:
            response = await session.post(
                target, data=body, headers=headers, timeout=limit, proxy=proxy, allow_redirects=False
            )
            try:
                return HttpReply(response.status, await _whole_body(response), response.headers)
            finally:
                response.release()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failed = _fault(error, timeout)
        # Raised out here, since aiohttp's error holds the request with its key and would be the context.
        try:
            raise failed
        finally:
            del failed  # a cycle through the traceback

    async def close(self) -> None:
        """Close the connections; a later `post` opens new ones."""
        session, self._session = self._session, None
        if session is None:
            return
        if self._loop is asyncio.get_running_loop():
            await session.close()
        else:
            _abandon(session)

    def _session_here(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is not None and self._loop is loop and not self._session.closed:
            return self._session
        if self._session is not None:
            _abandon(self._session)
        self._loop, self._held, self._session = loop, None, new_session()
        return self._session

    def _target(self, url: str) -> tuple[URL, str | None]:
        from yarl import URL

        target = self._targets[url] = (URL(url), proxy_for(url))
        return target


def new_session() -> aiohttp.ClientSession:
    """A session without cookies that uses no proxy by itself and connects to no link-local address."""
    import aiohttp

    # The limiter decides how many requests are in flight, not a second queue in here.
    resolver = _guarded(aiohttp.DefaultResolver())
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=60, resolver=resolver)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


def _guarded(resolver: AbstractResolver) -> AbstractResolver:
    """A resolver that refuses link-local addresses: a name can be made to point anywhere, at any time."""
    ask = resolver.resolve

    async def resolve(host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        found = await ask(host, port, family)
        if any(is_forbidden_address(entry["host"]) for entry in found):
            raise OSError(None, LINK_LOCAL)
        return found

    resolver.resolve = resolve  # type: ignore[method-assign]
    return resolver


async def _whole_body(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size, announced = 0, response.content_length or 0
    content = response.content
    while announced <= LARGEST_BODY and not content.at_eof():
        chunk = await content.readany()
        size += len(chunk)
        if size > LARGEST_BODY:
            break
        chunks.append(chunk)
    if max(size, announced) > LARGEST_BODY:
        response.close()
        raise too_large()
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _until_the_loop_ends(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Close a session when its loop ends its generators, as `asyncio.run` does, if nobody has closed it.

    A model that nobody closes leaves connections open, and where warnings are errors uvloop waits for them forever.
    """
    try:
        yield
    finally:
        await session.close()


def _abandon(session: aiohttp.ClientSession) -> None:
    """Drop a session whose event loop is gone, where nothing can be awaited."""
    connector = session.connector
    session.detach()
    if connector is not None:
        connector._close()


def _fault(error: Exception, timeout: float) -> TransportError:
    import aiohttp

    if isinstance(error, TimeoutError):
        unsent = isinstance(error, aiohttp.ConnectionTimeoutError)
        return TransportError("timeout", f"no complete answer within {timeout:g} s", maybe_billed=not unsent)
    if isinstance(error, aiohttp.ClientConnectorError):
        message = f"cannot connect to {error.host}:{error.port}: {_reason(error)}"
        return TransportError("network", message, maybe_billed=False)
    return TransportError("network", _describe(error), maybe_billed=True)


def _reason(error: aiohttp.ClientConnectorError) -> str:
    return (error.os_error.strerror or str(error.os_error)) if error.os_error else "no connection"


def _describe(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return CUT_SHORT
    if isinstance(error, aiohttp.ClientPayloadError):
        return BODY_CUT_SHORT
    if isinstance(error, aiohttp.ClientResponseError):
        # Its status of 400 is aiohttp's own, not the endpoint's.
        return f"the answer is not valid HTTP: {' '.join(error.message.split())}"
    if type(error) is ValueError:
        return str(error)
    return f"{type(error).__name__}: {error}"
