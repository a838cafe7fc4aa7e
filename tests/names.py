"""A domain name system for tests."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def names(found: Mapping[str, Sequence[str]]) -> Callable[..., list[Any]]:
    """A `socket.getaddrinfo` that finds only these names, and addresses."""

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        addresses = found.get(host) or ([host] if host.replace(".", "").isdigit() else ())
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [_entry(address, port) for address in addresses]

    return look_up


def _entry(address: str, port: int) -> tuple[Any, ...]:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
