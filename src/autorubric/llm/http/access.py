"""Servers on this machine: the socket to listen on, and access control."""

import base64
import binascii
import hmac
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from autorubric.errors import ConfigError, InputError
from autorubric.files.descriptors import reuse_address
from autorubric.llm.http.secrets import NO_VARIABLE, is_loopback, is_variable_name


def read_token(host: str, token_env: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the token that callers must send; None if only this machine can reach the service."""
    if token_env is not None and not is_variable_name(token_env, environ):
        raise ConfigError(f"--token-env {NO_VARIABLE}")
    token = None if token_env is None else environ.get(token_env, "").strip()
    if token_env is not None and not token:
        raise ConfigError(f"--token-env {token_env}: the variable is not set or empty; put the token there")
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--host {host} can be reached from other machines; pass --token-env NAME, the environment "
            "variable with the token that every client must send"
        )
    return token


def is_allowed(authorization: str | None, token: str) -> bool:
    """Whether a caller sent the token, as `Bearer` or as the password of `Basic` (a URL with `user:token@`)."""
    scheme, _, sent = (authorization or "").partition(" ")
    if scheme.lower() == "basic":
        try:
            sent = base64.b64decode(sent, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError, ValueError):
            sent = ""
    elif scheme.lower() != "bearer":
        sent = ""
    return hmac.compare_digest(sent.strip().encode("utf-8", "replace"), token.encode())


def is_own_name(host_header: str | None) -> bool:
    """Return whether a request without a token names this machine; requests of web pages elsewhere do not."""
    host = (host_header or "").strip()
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name.strip("[]"))


BACKLOG = 4096
"""Connections that wait to be accepted; the system drops more, and their callers try again after a second."""


@contextmanager
def listening_at(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """A listening socket, and its URL without a path.

    Args:
        host: name or address of this machine.
        port: 0 takes a free one.

    Raises:
        InputError: the address cannot be bound.

    Example:
        >>> with listening_at("127.0.0.1", 0) as (listening, url):
        ...     url.startswith("http://127.0.0.1:")
        True
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, because asyncio sends small answers at once (TCP_NODELAY) only where it is.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        try:
            reuse_address(listening)
            listening.bind((host, port))
            listening.listen(BACKLOG)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not a host name"
            raise InputError(f"cannot listen on {host}:{port}: {reason}; choose another --host or --port") from None
        own, number = listening.getsockname()[:2]
        yield listening, f"http://[{own}]:{number}" if ":" in own else f"http://{own}:{number}"
