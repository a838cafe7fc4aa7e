"""HTTP requests to a provider's batch endpoints: JSON, files up and down, and retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.files.strict_json import decode_json, encode_json
from autorubric.llm.http.retry import Backoff, Fault, classify_error, classify_response, mark_unreachable
from autorubric.llm.http.transport import LARGEST_BODY, HttpReply, create_session, find_proxy, translate_error

if TYPE_CHECKING:
    import aiohttp

_PIECE = 2**18
_LONGEST_LINE = 64 * 2**20


class LinkFault(Exception):
    """A request to a batch endpoint failed; `fault` says how."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)

    @property
    def is_unclear(self) -> bool:
        """Whether the endpoint may have carried out the request nevertheless: all but a plain refusal."""
        status = self.fault.status
        is_refusal = self.fault.kind == "unreachable" or (
            status is not None and 400 <= status < 500 and status != 409
        )
        return self.fault.maybe_billed or not is_refusal


@dataclass(frozen=True, slots=True)
class Upload:
    """A body of the content type `kind`, made of a file between two pieces of text.

    With `comma` each line end becomes a comma, and the last one is left out.
    """

    path: Path
    head: bytes = b""
    tail: bytes = b""
    comma: bool = False
    kind: str = "application/json"

    @property
    def length(self) -> int:
        """The size of the body in bytes."""
        return len(self.head) + self.path.stat().st_size - self.comma + len(self.tail)

    async def read_pieces(self) -> AsyncIterator[bytes]:
        """Yield the body, a piece at a time."""
        yield self.head
        left = self.path.stat().st_size - self.comma
        with self.path.open("rb") as file:
            while left > 0 and (piece := await asyncio.to_thread(file.read, min(_PIECE, left))):
                left -= len(piece)
                yield piece.replace(b"\n", b",") if self.comma else piece
        yield self.tail


Body: TypeAlias = Mapping[str, Any] | Upload | None
After: TypeAlias = Callable[[dict[str, Any], list[dict[str, Any]]], Any]


@dataclass(slots=True)
class BatchLink:
    """Requests to one provider under one key.

    Attributes:
        root: the address that paths are added to.
        headers: sent with each request, the key among them.
        timeout: seconds for a request without a file.
        retries: how often a request that can be repeated is repeated.
        backoff: the waits between.
        secrets: removed from messages.
    """

    root: str
    headers: Mapping[str, str]
    timeout: float
    retries: int
    backoff: Backoff
    secrets: tuple[str | None, ...]
    _session: aiohttp.ClientSession | None = None
    _answered: bool = False

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def find(self, path: str, most: int = LARGEST_BODY, field: str = "") -> dict[str, Any]:
        """Return the JSON object at a path, of at most that many bytes; an array counts as one with this `field`."""
        return read_object((await self._repeat(lambda: self._send("GET", path, most=most))).body, field)

    async def list_objects(self, path: str, field: str, mark: str, after: After) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a paginated list.

        Args:
            path: the first page, with a query.
            field: holds the objects of a page, unless it is an array of them (Together).
            mark: the parameter of the query that names the next page.
            after: the value of that parameter, given a page and its objects; nothing after the last page.
        """
        page_path = path
        while True:
            page = await self.find(page_path, field=field)
            found = [entry for entry in page.get(field) or [] if isinstance(entry, dict)]
            for entry in found:
                yield entry
            value = after(page, found)
            if not value:
                return
            page_path = f"{path}&{mark}={value}"

    async def post(self, path: str, body: Body = None) -> HttpReply:
        """Return the response to one POST, which is never repeated; a `LinkFault` for any status but 2xx."""
        return await self._send("POST", path, body)

    async def upload(self, path: str, body: Body, headers: Mapping[str, str] | None = None) -> HttpReply:
        """Return the response to a file, sent again after a fault: a file that arrived twice costs nothing."""
        return await self._repeat(lambda: self._send("POST", path, body, headers))

    async def delete(self, path: str) -> None:
        """Delete what is at a path; a failure leaves it there."""
        with suppress(LinkFault):
            await self._send("DELETE", path)

    async def read_records(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the JSON objects of a file, a line each, as they arrive; a `LinkFault` where it breaks off.

        An empty object stands for a line that is cut off or is not an object.
        """
        async for line in self._read_lines(path):
            if line.strip():
                found = _parse_json(line)
                yield found if isinstance(found, dict) else {}

    async def _read_lines(self, path: str) -> AsyncIterator[bytes]:
        async with self._open_response("GET", path) as response:
            if response.status >= 300:
                raise LinkFault(self._classify(HttpReply(response.status, await response.read(), response.headers)))
            rest = b""
            async for piece in response.content.iter_any():
                *whole, rest = (rest + piece).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    raise LinkFault(Fault("network", "a line of the results has no end", again=True))
                for line in whole:
                    yield line
            if rest:
                yield rest

    async def _repeat(self, send: Callable[[], Any]) -> HttpReply:
        for attempt in range(self.retries + 1):
            try:
                reply: HttpReply = await send()
                return reply
            except LinkFault as problem:
                if not problem.fault.again or attempt == self.retries:
                    raise
                await asyncio.sleep(self.backoff.draw_wait(attempt, problem.fault.retry_after))
        raise AssertionError("the last attempt returns or raises")

    async def _send(
        self,
        method: str,
        path: str,
        body: Body = None,
        headers: Mapping[str, str] | None = None,
        most: int = LARGEST_BODY,
    ) -> HttpReply:
        async with self._open_response(method, path, body, headers) as response:
            pieces, left = [], most + 1
            while left > 0 and (piece := await response.content.read(left)):
                pieces.append(piece)
                left -= len(piece)
            reply = HttpReply(response.status, b"".join(pieces), response.headers)
        if reply.status >= 300:
            fault = self._classify(reply)
            if fault.status == 404:
                hint = ": check it, or leave out --batch (in Python: batch)" if method == "POST" else ""
                fault = replace(fault, message=f"{fault.message}; the URL was {self.root}{path}{hint}")
            raise LinkFault(fault)
        return reply

    @asynccontextmanager
    async def _open_response(
        self, method: str, path: str, body: Body = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response whose body is still to be read; a `LinkFault` where the connection fails meanwhile."""
        import aiohttp

        own = {name: value for name, value in self.headers.items() if name.lower() != "content-type"}
        sent = {**own, **(headers or {})}
        data: Any = None
        if isinstance(body, Upload):
            sent |= {"Content-Length": str(body.length), "Content-Type": body.kind}
            data = body.read_pieces()
        elif body is not None:
            sent["Content-Type"] = "application/json"
            data = encode_json(body)
        url = self.root + path
        how: Any = {"headers": sent, "proxy": find_proxy(url), "allow_redirects": False}
        self._session = self._session or create_session(self.timeout)
        try:
            async with self._session.request(method, url, data=data, **how) as response:
                self._answered = True
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            fault = classify_error(translate_error(error, self.timeout), *self.secrets)
            is_unreachable = not self._answered and not fault.maybe_billed
            raise LinkFault(mark_unreachable(fault, self.root) if is_unreachable else fault) from None

    def _classify(self, reply: HttpReply) -> Fault:
        fault = classify_response(reply, *self.secrets)
        assert fault is not None
        return fault


def read_object(body: bytes, field: str = "") -> dict[str, Any]:
    """The JSON object in a response; an array counts as one with this `field`. A `LinkFault` if there is none."""
    found = _parse_json(body)
    if field and isinstance(found, list):
        return {field: found}
    if not isinstance(found, dict):
        shown = " ".join(body[:80].decode("utf-8", "replace").split())
        raise LinkFault(Fault("network", f"the answer is not a JSON object: {shown}", 200, again=True))
    return found


def _parse_json(data: bytes) -> object:
    try:
        return decode_json(data)
    except (ValueError, RecursionError):
        return None
