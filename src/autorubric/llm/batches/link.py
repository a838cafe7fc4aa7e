"""HTTP requests to a provider's batch endpoints: JSON, files up and down, and retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.files.strict_json import json_bytes, json_value
from autorubric.llm.http.retry import Backoff, Fault, http_fault, transport_fault
from autorubric.llm.http.transport import LARGEST_BODY, HttpReply, TransportError, new_session, proxy_for

if TYPE_CHECKING:
    import aiohttp

_PIECE = 2**18
_RANDOM = random.Random()
_LONGEST_LINE = 64 * 2**20


class LinkFault(Exception):
    """A request to a batch endpoint failed; `fault` says how."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)

    @property
    def is_unclear(self) -> bool:
        """Whether the endpoint may have done what it was asked nevertheless."""
        return self.fault.maybe_billed or self.fault.status is None or self.fault.status >= 500


@dataclass(frozen=True, slots=True)
class Upload:
    """A body made of a file between two pieces of text, each line followed by `between` instead of a line end."""

    path: Path
    head: bytes = b""
    tail: bytes = b""
    comma: bool = False

    @property
    def length(self) -> int:
        """The bytes of the whole."""
        size = self.path.stat().st_size
        # Where lines become items of a list, each line end becomes a comma, and the last one is left out.
        return len(self.head) + size - self.comma + len(self.tail)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, a piece at a time."""
        yield self.head
        left = self.path.stat().st_size - self.comma
        with self.path.open("rb") as file:
            while left > 0 and (piece := await asyncio.to_thread(file.read, min(_PIECE, left))):
                left -= len(piece)
                yield piece.replace(b"\n", b",") if self.comma else piece
        yield self.tail


Body: TypeAlias = Mapping[str, Any] | Upload | None
After: TypeAlias = Callable[[dict[str, Any], list[dict[str, Any]]], Any]


def last_id(page: dict[str, Any], found: list[dict[str, Any]]) -> Any:
    """The id of the last object of a page, if the page says that there are more."""
    return found and page.get("has_more") and found[-1].get("id")


class Link:
    """Requests to one provider under one key.

    Args:
        root: the address that paths are added to.
        headers: sent with each request, the key among them.
        timeout: seconds for a request without a file.
        retries: how often a request that can be repeated is repeated.
        backoff: the waits between.
        secrets: removed from messages.
    """

    def __init__(
        self,
        root: str,
        headers: Mapping[str, str],
        timeout: float,
        retries: int,
        backoff: Backoff,
        secrets: tuple[str | None, ...],
    ) -> None:
        self.root = root
        self._headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        self._timeout = timeout
        self.retries, self._backoff = retries, backoff
        self._secrets = secrets
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def wait(self, attempt: int, retry_after: float | None) -> float:
        """Seconds before a repeated attempt, counted from 0."""
        return self._backoff.wait(attempt, retry_after, _RANDOM)

    async def find(self, path: str, most: int = LARGEST_BODY) -> dict[str, Any]:
        """The JSON object at a path, of at most that many bytes."""
        return read_object((await self._repeated(lambda: self._send("GET", path, most=most))).body)

    async def listed(self, path: str, field: str, mark: str, after: After) -> AsyncIterator[dict[str, Any]]:
        """The objects of a paginated list.

        Args:
            path: the first page, with a query.
            field: holds the objects of a page.
            mark: the parameter of the query that names the next page.
            after: the value of that parameter, given a page and its objects; nothing after the last page.
        """
        page_path = path
        while True:
            page = await self.find(page_path)
            found = [entry for entry in page.get(field) or [] if isinstance(entry, dict)]
            for entry in found:
                yield entry
            value = after(page, found)
            if not value:
                return
            page_path = f"{path}&{mark}={value}"

    async def post(self, path: str, body: Body, headers: Mapping[str, str] | None = None) -> HttpReply:
        """The response to one POST, which is never repeated; a `LinkFault` for any status but 2xx."""
        return await self._send("POST", path, body, headers)

    async def upload(self, path: str, body: Body, headers: Mapping[str, str]) -> HttpReply:
        """The response to a file, sent again after a fault: a file that arrived twice costs nothing."""
        return await self._repeated(lambda: self._send("POST", path, body, headers))

    async def delete(self, path: str) -> None:
        """Delete what is at a path; a failure leaves it there."""
        try:
            await self._send("DELETE", path)
        except LinkFault:
            return

    async def records(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """The JSON objects of a file, a line each, as they arrive; a `LinkFault` where it breaks off.

        An empty object stands for a line that is cut, or is something else.
        """
        async for line in self._lines(path):
            if line.strip():
                yield _parsed(line) or {}

    async def _lines(self, path: str) -> AsyncIterator[bytes]:
        import aiohttp

        try:
            async with self._request("GET", path, None, None) as response:
                if response.status >= 300:
                    raise LinkFault(self._refusal(response.status, await response.read(), response.headers))
                rest = b""
                async for piece in response.content.iter_any():
                    *whole, rest = (rest + piece).split(b"\n")
                    if len(rest) > _LONGEST_LINE:
                        raise LinkFault(Fault("network", "a line of the results has no end", again=True))
                    for line in whole:
                        yield line
                if rest:
                    yield rest
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LinkFault(self._broken(error)) from None

    async def _repeated(self, send: Callable[[], Any]) -> HttpReply:
        for attempt in range(self.retries + 1):
            try:
                reply: HttpReply = await send()
                return reply
            except LinkFault as problem:
                if not problem.fault.again or attempt == self.retries:
                    raise
                await asyncio.sleep(self.wait(attempt, problem.fault.retry_after))
        raise AssertionError("the last attempt returns or raises")

    async def _send(
        self,
        method: str,
        path: str,
        body: Body = None,
        headers: Mapping[str, str] | None = None,
        most: int = LARGEST_BODY,
    ) -> HttpReply:
        import aiohttp

        try:
            async with self._request(method, path, body, headers) as response:
                pieces, left = [], most + 1
                while left > 0 and (piece := await response.content.read(left)):
                    pieces.append(piece)
                    left -= len(piece)
                reply = HttpReply(response.status, b"".join(pieces), response.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LinkFault(self._broken(error)) from None
        fault = self._refusal(reply.status, reply.body, reply.headers) if reply.status >= 300 else None
        if fault is not None:
            if fault.status == 404:
                fault = replace(fault, message=f"{fault.message}; the URL was {self._url(path)}")
            raise LinkFault(fault)
        return reply

    def _request(
        self, method: str, path: str, body: Body, headers: Mapping[str, str] | None
    ) -> aiohttp.client._RequestContextManager:
        import aiohttp

        sent = {**self._headers, **(headers or {})}
        data: Any = None
        if isinstance(body, Upload):
            sent["Content-Length"] = str(body.length)
            data = body.pieces()
        elif body is not None:
            sent["Content-Type"] = "application/json"
            data = json_bytes(body)
        # A file may take long; what counts is that bytes keep moving.
        limit = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=self._timeout)
        url = self._url(path)
        self._session = self._session or new_session()
        return self._session.request(
            method, url, data=data, headers=sent, timeout=limit, proxy=proxy_for(url), allow_redirects=False
        )

    def _url(self, path: str) -> str:
        return path if path.startswith(("http://", "https://")) else f"{self.root}{path}"

    def _refusal(self, status: int, body: bytes, headers: Mapping[str, str]) -> Fault:
        fault = http_fault(HttpReply(status, body, headers), *self._secrets)
        assert fault is not None
        return fault

    def _broken(self, error: Exception) -> Fault:
        import aiohttp

        unsent = isinstance(error, aiohttp.ClientConnectorError)
        words = str(error) or type(error).__name__
        late = isinstance(error, TimeoutError)
        broken = TransportError("timeout" if late else "network", words, maybe_billed=not unsent)
        return transport_fault(broken, *self._secrets)


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a response; a `LinkFault` if there is none."""
    found = _parsed(body)
    if found is None:
        shown = " ".join(body[:80].decode("utf-8", "replace").split())
        raise LinkFault(Fault("network", f"the answer is not a JSON object: {shown}", 200, again=True))
    return found


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        found = json_value(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
