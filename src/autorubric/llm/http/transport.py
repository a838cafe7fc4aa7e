"""One HTTP POST and its outcome: what any HTTP library must provide, and which one is used."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from autorubric.core.values import value_class
from autorubric.errors import ConfigError
from autorubric.llm.http.secrets import is_forbidden_address, is_loopback


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
        from autorubric.llm.http.with_aiohttp import AiohttpTransport

        return AiohttpTransport()
    if name != "pyreqwest":
        raise ConfigError(f"AUTORUBRIC_TRANSPORT={name!r} is not one of aiohttp, pyreqwest")
    from autorubric.llm.http.with_pyreqwest import PyreqwestTransport

    return PyreqwestTransport()
