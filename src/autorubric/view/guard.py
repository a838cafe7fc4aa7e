"""Access control, and the headers of every response."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import PlainTextResponse

from autorubric.llm.http.access import is_allowed, is_own_name

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FILE_CSP = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""The policy for an untrusted page in the run directory: it runs no script and loads nothing."""
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_READS = ("GET", "HEAD")
_PREFIX = re.compile(r"(/[\w.~-]+)+", re.ASCII)


class AccessGuard:
    """Refuses requests that a page of another origin could have sent, and adds headers to all responses.

    A proxy that serves the pages under a path names it in `X-Forwarded-Prefix`, and passes requests without it.

    Args:
        app: answers the other requests.
        token: the token that callers must send; None if only this machine can call.
    """

    def __init__(self, app: App, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = dict(message.get("headers", ()))
                message["headers"] = [*own.items(), *(one for one in HEADERS if one[0] not in own)]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
        if _PREFIX.fullmatch(prefix):
            scope = {**scope, "root_path": prefix, "path": prefix + scope["path"]}
        answer = self._app
        if (refused := find_refusal(scope["method"], headers, self._token)) is not None:
            challenge = {"www-authenticate": 'Basic realm="autorubric view", charset="UTF-8"'}
            answer = PlainTextResponse(refused[1], refused[0], challenge if refused[0] == 401 else None)
        await answer(scope, receive, send_with_headers)


def find_refusal(method: str, headers: MutableMapping[str, str], token: str | None) -> tuple[int, str] | None:
    """Return the status and the reason for refusing a request; None if it is accepted.

    Args:
        method: of HTTP.
        headers: with names in lower case.
        token: the token that callers must send, or None.

    Example:
        >>> find_refusal("GET", {"host": "localhost:8200"}, None)
        >>> find_refusal("GET", {"host": "evil.example"}, None)[0]
        421
        >>> find_refusal("POST", {"host": "localhost", "origin": "http://evil.example"}, None)[0]
        403
    """
    if token is None and not is_own_name(headers.get("host")):
        return 421, "only requests from this machine to localhost are accepted; a proxy needs --token-env\n"
    if token is not None and not is_allowed(headers.get("authorization"), token):
        return 401, "send the token of this server as the password, or as Authorization: Bearer\n"
    return None if method in _READS else _find_write_refusal(method, headers)


def _find_write_refusal(method: str, headers: MutableMapping[str, str]) -> tuple[int, str] | None:
    site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
    own = {f"{scheme}://{headers.get('host', '')}" for scheme in ("http", "https")}
    if site != "same-origin" or (origin is not None and origin not in own):
        return 403, "a page of another site sent this, or a proxy changed the Host header; nothing was written\n"
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method != "POST":
        return 405, "expected GET, HEAD or POST\n"
    if kind != "application/json":
        return 415, "expected a body of application/json\n"
    return None
