"""Which proxy of the environment a call goes through."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from autorubric.errors import ConfigError
from autorubric.llm.http.addresses import is_forbidden_address, is_loopback


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address; None where the call goes there by itself.

    Raises:
        ConfigError: what the environment names is no HTTP proxy, or one that no key is sent to.

    Example:
        >>> proxy_for("http://localhost:8000/v1") is None
        True
    """
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
        return "is no HTTP proxy"
    if is_forbidden_address((host or "").rstrip(".")):
        return "is a link-local address, where keys are never sent"
    return None


def _is_plain(proxy: str, parts: SplitResult) -> bool:
    return proxy.isascii() and proxy.isprintable() and " " not in proxy and parts.path in ("", "/")
