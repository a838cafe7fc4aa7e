"""One HTTP POST and its outcome, through the connections and the parser of aiohttp."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import AsyncGenerator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import finalize

from autorubric.core.values import value_class
from autorubric.errors import ConfigError
from autorubric.llm.http.secrets import is_forbidden_address, is_loopback

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult
    from aiohttp.connector import Connection


def find_proxy(url: str) -> str | None:
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
    problem = _find_proxy_problem(proxy)
    if problem:
        shown = re.sub(r"^(.*//)?[^/]*@", r"\1<hidden>@", proxy)
        name = f"{scheme.upper()}_PROXY"
        raise ConfigError(f"{name} {shown!r} {problem}; set it to something like http://host:3128, or unset it")
    return proxy


def _find_proxy_problem(proxy: str) -> str | None:
    try:
        parts = urlsplit(proxy)
        host = parts.hostname
        is_placed = bool(host) and parts.port != 0
    except ValueError as error:
        return f"is not a URL ({error})"
    is_plain = proxy.isascii() and proxy.isprintable() and " " not in proxy and parts.path in ("", "/")
    if parts.scheme not in ("http", "https") or not is_placed or not is_plain:
        return "is not an HTTP proxy"
    if is_forbidden_address((host or "").rstrip(".")):
        return "is a link-local address, where keys are never sent"
    return None


_Kind: TypeAlias = Literal["timeout", "network"]

CONNECT_SECONDS = 30.0
"""The operating system alone may try for minutes to connect to a host that does not exist."""

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

    def __init__(self, kind: _Kind, message: str, *, maybe_billed: bool) -> None:
        self.kind: _Kind = kind
        self.maybe_billed = maybe_billed
        super().__init__(message)


class Transport:
    """Connections that are kept open, for one event loop at a time; each loop gets its own.

    A request is never sent twice. Redirects are not followed, because the key would be sent along; no cookies are
    kept; no connection goes to a link-local address. The proxies of the environment are used, except for this
    machine's own addresses (`find_proxy`).

    The requests of a model differ only in their bodies, so their heads are made once, and what aiohttp's client does
    for any request (cookies, redirects, traces, forms) is not done for each of them.
    """

    def __init__(self) -> None:
        self._connector: aiohttp.TCPConnector | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: AsyncGenerator[None, None] | None = None
        self._ending: finalize[[asyncio.AbstractEventLoop, aiohttp.TCPConnector], Transport] | None = None
        self._targets: dict[tuple[str, int], _Target] = {}

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> HttpReply:
        """Send `body` and return the whole response within `timeout` seconds, or raise a `TransportError`.

        The headers of the reply ignore case. A response of more than `LARGEST_BODY` bytes, decompressed, is an error.
        """
        import aiohttp

        connector = self._open_connector()
        if self._held is None:
            self._held = _close_with_loop(connector)
            await anext(self._held)
        is_connected = False
        try:
            target = self._targets.get((url, id(headers))) or self._build_target(url, headers)
            async with asyncio.timeout(timeout):
                connection = await _connect(connector, target)
                is_connected = True
                try:
                    reply = await _exchange(connection, target, body)
                except BaseException:
                    connection.close()
                    raise
                connection.release()
                return reply
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError, ValueError) as error:
            failed = translate_error(error, timeout, is_connected)
        # Raised out here: as its context, aiohttp's error would keep the request with its key.
        try:
            raise failed
        finally:
            del failed  # a cycle through the traceback

    async def close(self) -> None:
        """Close the connections; a later `post` opens new ones."""
        connector, self._connector = self._connector, None
        self._targets.clear()
        if connector is None:
            return
        if self._loop is asyncio.get_running_loop():
            await connector.close()
        else:
            connector._close()

    def _open_connector(self) -> aiohttp.TCPConnector:
        loop = asyncio.get_running_loop()
        if self._connector is not None and self._loop is loop and not self._connector.closed:
            return self._connector
        if self._ending is not None:
            self._ending()
        self._targets.clear()
        self._loop, self._held, self._connector = loop, None, create_connector()
        self._ending = finalize(self, _close_unused, loop, self._connector)
        self._ending.atexit = False
        return self._connector

    def _build_target(self, url: str, headers: Mapping[str, str]) -> _Target:
        if len(self._targets) >= _MOST_TARGETS:
            self._targets.clear()
        target = self._targets[url, id(headers)] = _Target(url, headers)
        return target


_MOST_TARGETS = 64
_LONGEST_HEADER = 128 * 1024


class _Target:
    """Where the requests of one model go.

    Attributes:
        headers: of each request; kept, so that no other headers have their id.
        route: tells a connector where to connect; never sent itself.
        limits: of connecting alone; the exchange as a whole has its own.
    """

    __slots__ = ("_head", "headers", "limits", "route")

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        import aiohttp
        from yarl import URL

        proxy, loop = find_proxy(url), asyncio.get_running_loop()
        self.headers, self.limits = headers, aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        through = None if proxy is None else URL(proxy)
        self.route = aiohttp.ClientRequest("POST", URL(url), headers=headers, proxy=through, loop=loop)
        self._head = b""

    def build_head(self) -> bytes:
        """What is sent before the length of a body, once there is a connection: a proxy's key is known only then."""
        if not self._head:
            route = self.route
            path = str(route.url) if route.proxy and not route.is_ssl() else route.url.raw_path_qs
            shown = [f"{name}: {value}" for name, value in route.headers.items() if name.lower() != "content-length"]
            lines = [f"POST {path} HTTP/1.1", *shown, "Content-Length: "]
            if _CONTROL.search("".join(lines)):
                raise ValueError("a header contains a control character")
            self._head = "\r\n".join(lines).encode()
        return self._head


_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


async def _connect(connector: aiohttp.TCPConnector, target: _Target) -> Connection:
    """Return a connection without an unrequested response, which would be taken for the answer to the next request.

    aiohttp itself asks only whether a connection that it kept is open.
    """
    while True:
        connection = await connector.connect(target.route, [], target.limits)
        if not connection.protocol:  # holds no response
            return connection
        connection.close()


async def _exchange(connection: Connection, target: _Target, body: bytes) -> HttpReply:
    """Send a request on a connection, and return the response once its body is complete."""
    protocol = connection.protocol
    assert protocol is not None
    # Content security policies alone can exceed aiohttp's limit of 8 KiB.
    protocol.set_response_params(read_until_eof=True, max_line_size=_LONGEST_HEADER, max_field_size=_LONGEST_HEADER)
    if protocol.transport is not None:  # if it was lost, reading raises the reason
        protocol.transport.write(b"%b%d\r\n\r\n%b" % (target.build_head(), len(body), body))
    message, content = await protocol.read()
    while 100 <= message.code < 200 and message.code != 101:
        message, content = await protocol.read()
    chunks: list[bytes] = []
    size = 0
    if (announced := message.headers.get("Content-Length")) is not None and int(announced) > LARGEST_BODY:
        raise _build_size_error()
    while not content.at_eof():
        chunk = await content.readany()
        size += len(chunk)
        if size > LARGEST_BODY:
            raise _build_size_error()
        chunks.append(chunk)
    if protocol.transport is not None and protocol.transport.get_write_buffer_size():
        protocol.force_close()  # answered early: the rest of the body would delay the next request
    return HttpReply(message.code, chunks[0] if len(chunks) == 1 else b"".join(chunks), message.headers)


def _build_size_error() -> ValueError:
    return ValueError(f"the response is larger than {LARGEST_BODY // 2**20} MiB")


def create_connector() -> aiohttp.TCPConnector:
    """Return a connector that refuses link-local addresses and has no cookies and no proxy of its own."""
    import aiohttp

    # The limiter decides how many requests are in flight, not a second queue in here.
    resolver = _guard(aiohttp.DefaultResolver())
    return aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=60, resolver=resolver)


def create_session(timeout: float) -> aiohttp.ClientSession:
    """Return a session without cookies that uses no proxy by itself and connects to no link-local address.

    A file may take long, so `timeout` is the time in which no byte arrives.
    """
    import aiohttp

    limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=timeout)
    return aiohttp.ClientSession(connector=create_connector(), cookie_jar=aiohttp.DummyCookieJar(), timeout=limit)


def _guard(resolver: AbstractResolver) -> AbstractResolver:
    """Return a resolver that refuses link-local addresses: a name can be made to point anywhere, at any time."""
    ask = resolver.resolve

    async def resolve(host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        found = await ask(host, port, family)
        if any(is_forbidden_address(entry["host"]) for entry in found):
            raise OSError(None, "the name resolves to a link-local address, where keys are never sent")
        return found

    resolver.resolve = resolve  # type: ignore[method-assign]
    return resolver


async def _close_with_loop(connector: aiohttp.TCPConnector) -> AsyncGenerator[None, None]:
    """Close connections when the loop shuts down its generators, as `asyncio.run` does, if not closed before.

    A model that nobody closes leaves connections open, and where warnings are errors uvloop waits for them forever.
    """
    try:
        yield
    finally:
        await connector.close()


def _close_unused(loop: asyncio.AbstractEventLoop, connector: aiohttp.TCPConnector) -> None:
    """Close connections that nobody uses any more, in the thread of their loop while it runs.

    aiohttp reports a connector that is collected before it is closed.
    """
    if loop.is_running() and loop is not asyncio._get_running_loop():
        loop.call_soon_threadsafe(connector._close)
    else:
        connector._close()


def translate_error(error: Exception, timeout: float, is_connected: bool = True) -> TransportError:
    """Return the `TransportError` for an error of aiohttp."""
    import aiohttp

    if isinstance(error, TimeoutError):
        is_connected = is_connected and not isinstance(error, aiohttp.ConnectionTimeoutError)
        what, most = ("complete answer", timeout) if is_connected else ("connection", min(timeout, CONNECT_SECONDS))
        return TransportError("timeout", f"no {what} within {most:g} s", maybe_billed=is_connected)
    if isinstance(error, aiohttp.ClientConnectorError):
        message = f"cannot connect to {error.host}:{error.port}: {_find_reason(error)}"
        if isinstance(error, aiohttp.ClientProxyConnectionError):
            message = message.replace("to ", "to the proxy ", 1) + "; NO_PROXY lists the hosts that need no proxy"
        return TransportError("network", message, maybe_billed=False)
    return TransportError("network", _describe(error), maybe_billed=is_connected)


def _find_reason(error: aiohttp.ClientConnectorError) -> str:
    # The error of a certificate has one of the two, and which depends on the version of aiohttp.
    found = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    if not found:
        return "no connection"
    reason = found.strerror or str(found)
    if "WRONG_VERSION_NUMBER" in reason:
        return f"{reason}; the server may expect http://"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        reason += "; SSL_CERT_FILE or SSL_CERT_DIR names further authorities"
        file = os.environ.get("SSL_CERT_FILE")
        return (
            f"{reason}; SSL_CERT_FILE is {file!r}, which does not exist"
            if file and not Path(file).exists()
            else reason
        )
    # asyncio replaces the operating system's message by these words and the address.
    return os.strerror(found.errno) if found.errno and "Connect call failed" in reason else reason


def _describe(error: Exception) -> str:
    import aiohttp

    is_reset = isinstance(error, OSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)
    if is_reset or isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "the connection was reset before the answer was complete"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the response body is incomplete"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refused the connection: {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.http.HttpProcessingError):
        # Its status of 400 is aiohttp's own, not the endpoint's.
        return f"the answer is not valid HTTP: {' '.join(error.message.split())}"
    if type(error) is ValueError:
        return str(error)
    return f"{type(error).__name__}: {error}"
