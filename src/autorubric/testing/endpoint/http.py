"""As much of HTTP/1.1 as a test endpoint needs, lean enough not to be what a benchmark measures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.client import responses

_SHAPING = re.compile(rb"\r\n(content-length|transfer-encoding|authorization|connection):[ \t]*([^\r]*)", re.I)
_MOST_HEAD = 64 * 1024
_MOST_BODY = 256 * 1024 * 1024


class BadRequest(Exception):
    """What came is no request this server reads; the connection is closed after `status`."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"HTTP {status}")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request as it came.

    Attributes:
        method: in capitals.
        path: without the query string.
        authorization: the header's value, or an empty text.
        body: all of it.
        close: True where the client asked to close the connection afterwards.
        head: the request line and all headers.
    """

    method: str
    path: str
    authorization: str
    body: bytes
    close: bool
    head: bytes


def take_request(buffer: bytearray) -> HttpRequest | None:
    r"""The first whole request in `buffer`, which is removed from it; None while it is incomplete.

    Raises:
        BadRequest: the bytes are no HTTP request, are too many, or have no Content-Length.

    Example:
        >>> buffer = bytearray(b"GET /v1/models HTTP/1.1\r\n\r\nGET")
        >>> take_request(buffer).path, bytes(buffer)
        ('/v1/models', b'GET')
    """
    end = buffer.find(b"\r\n\r\n")
    if buffer and not buffer[:1].isalpha():  # TLS, for one, never gets to an empty line
        raise BadRequest(400)
    if end < 0:
        if len(buffer) > _MOST_HEAD:
            raise BadRequest(431)
        return None
    head = bytes(buffer[:end])
    fields = {name.lower(): value.strip() for name, value in _SHAPING.findall(head)}
    stop = end + 4 + _body_length(fields)
    if len(buffer) < stop:
        return None
    start = head.partition(b"\r\n")[0].split(b" ")
    if len(start) != 3:
        raise BadRequest(400)
    body = bytes(buffer[end + 4 : stop])
    del buffer[:stop]
    return HttpRequest(
        method=start[0].decode("latin-1"),
        path=start[1].partition(b"?")[0].decode("latin-1"),
        authorization=fields.get(b"authorization", b"").decode("latin-1"),
        body=body,
        close=fields.get(b"connection", b"").lower() == b"close",
        head=head,
    )


def _body_length(fields: dict[bytes, bytes]) -> int:
    if b"transfer-encoding" in fields:
        raise BadRequest(411)
    text = fields.get(b"content-length", b"0")
    if not text.isdigit():
        raise BadRequest(400)
    length = int(text)
    if length > _MOST_BODY:
        raise BadRequest(413)
    return length


def answer_bytes(status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    r"""A whole answer, ready to be written; its type is JSON unless `headers` say otherwise.

    Example:
        >>> answer_bytes(204, b"")
        b'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n'
    """
    lines = [f"HTTP/1.1 {status} {responses.get(status, 'Unknown')}", f"Content-Length: {len(body)}"]
    if all(name.lower() != "content-type" for name, _ in headers):
        lines.append("Content-Type: application/json")
    lines.extend(f"{name}: {value}" for name, value in headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
