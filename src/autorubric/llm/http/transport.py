"""One HTTP POST and its outcome: what any HTTP library must provide, which one is used, and aiohttp, the default."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncGenerator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from autorubric.core.values import value_class
from autorubric.errors import ConfigError
from autorubric.llm.http.secrets import is_forbidden_address, is_loopback

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult
    from yarl import URL


def proxy_for(url: str) -> str | None:
    """The proxy that the environment sets for an address, or None; a `ConfigError` for one that cannot be used."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(parts.netloc) or proxy_bypass(host):
        return None
    proxies = getproxies()
    scheme = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = (proxies.get(scheme) or "").strip()
    if not proxy:
        return None
    problem = _problem(proxy)
    if problem:
        shown = re.sub(r"^(.*//)?[^/]*@", r"\1<hidden>@", proxy)
        name = f"{scheme.upper()}_PROXY"
        raise ConfigError(f"{name} {shown!r} {problem}; set it to something like http://host:3128, or unset it")
    return proxy


def _problem(proxy: str) -> str | None:
    try:
        parts = urlsplit(proxy)
        host = parts.hostname
        is_placed = bool(host) and parts.port != 0
    except ValueError as error:
        return f"is not a URL ({error})"
    if parts.scheme not in ("http", "https") or not is_placed or not _is_plain(proxy, parts):
        return "is not an HTTP proxy"
    if is_forbidden_address((host or "").rstrip(".")):
        return "is a link-local address, where keys are never sent"
    return None


def _is_plain(proxy: str, parts: SplitResult) -> bool:
    return proxy.isascii() and proxy.isprintable() and " " not in proxy and parts.path in ("", "/")


LARGEST_BODY = 8 * 1024 * 1024
"""Bytes after which a response counts as endless; no chat completion comes near."""


@value_class(frozen=True, slots=True)
class HttpReply:
    """A complete HTTP response, whatever its status."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class TransportError(Exception):
    """No complete response; `maybe_billed` unless the request certainly never reached the endpoint."""

    def __init__(self, kind: Literal["timeout", "network"], message: str, *, maybe_billed: bool) -> None:
        self.kind: Literal["timeout", "network"] = kind
        self.maybe_billed = maybe_billed
        super().__init__(message)


class Transport(Protocol):
    """Connections that are kept open, whichever event loop uses them.

    An implementation never sends a request twice. It follows no redirects, because the key would go along, keeps no
    cookies, connects to no link-local address, and uses the proxies of the environment, except for this machine's own
    addresses (`proxy_for`).
    """

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> HttpReply:
        """Send `body` and return the whole response within `timeout` seconds, or raise a `TransportError`.

        The headers of the reply ignore case. A response of more than `LARGEST_BODY` bytes, decompressed, is an error.
        """
        ...

    async def close(self) -> None:
        """Close the connections; a later `post` opens new ones."""
        ...


LINK_LOCAL = "the name resolves to a link-local address, where keys are never sent"
CUT_SHORT = "the connection was reset before the answer was complete"
BODY_CUT_SHORT = "the answer's body broke off"


def too_large() -> ValueError:
    """The error for a response of more than `LARGEST_BODY` bytes."""
    return ValueError(f"the response is larger than {LARGEST_BODY // 2**20} MiB")


def new_transport(environ: Mapping[str, str] = os.environ) -> Transport:
    """A transport of the library that `AUTORUBRIC_TRANSPORT` names: aiohttp by default, or pyreqwest.

    Raises:
        ConfigError: the variable names another library, or one that is not installed.

    Example:
        >>> type(new_transport({})).__name__
        'AiohttpTransport'
        >>> new_transport({"AUTORUBRIC_TRANSPORT": "httpx"})
        Traceback (most recent call last):
        autorubric.errors.ConfigError: AUTORUBRIC_TRANSPORT='httpx' is not one of aiohttp, pyreqwest
    """
    name = environ.get("AUTORUBRIC_TRANSPORT") or "aiohttp"
    if name == "aiohttp":
        return AiohttpTransport()
    if name != "pyreqwest":
        raise ConfigError(f"AUTORUBRIC_TRANSPORT={name!r} is not one of aiohttp, pyreqwest")
    from autorubric.llm.http.with_pyreqwest import PyreqwestTransport

    return PyreqwestTransport()


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
    found = error.os_error
    if not found:
        return "no connection"
    told = found.strerror or str(found)
    # asyncio replaces the operating system's message by these words and the address.
    return os.strerror(found.errno) if found.errno and "Connect call failed" in told else told


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
