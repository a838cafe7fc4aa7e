"""The loopback endpoint: an HTTP server on 127.0.0.1 with the chat completions API, here or in its own process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.request import urlopen

from autorubric.errors import ConfigError
from autorubric.files.descriptors import reset_on_close
from autorubric.testing.endpoint.service import Behaviour, Counts, Received, Service, ServiceOutcome

if TYPE_CHECKING:
    from aiohttp import web


_HOST = "127.0.0.1"
_LARGEST_BODY = 256 * 2**20
_PIECE = b"a" * 2**16
_HUGE_PIECES = 200 * 2**20 // len(_PIECE)


@dataclass(kw_only=True)
class LoopbackEndpoint(Behaviour):
    """An OpenAI-compatible endpoint on this machine, with the latencies and faults that you set.

    Use it with `async with`, with `with endpoint.in_thread()` if there is no event loop, or in a separate process
    (`LoopbackProcess`, `python -m autorubric.testing.endpoint`). It answers `POST /v1/chat/completions`,
    `GET /v1/models`, `GET /__stats` (its counts) and `GET /__calls` (completed calls by digest of the request body).

    Attributes:
        replier: returns the reply to a request body: a string, or a `Completion`.
        latency: a `Latency`, or its text form (`fixed:0.2`, `lognormal:0.2,0.8+0.002@20`).
        faults: rates by name, a schedule, a function of the body, or a `FaultPlan` of all three.
        key: the only key that is accepted; None accepts any.
        requests_per_second: a limit; more get a 429 with Retry-After.
        window: a limit on requests and tokens in a time window; more get a 429.
        rejects: body parameters answered with a 400: `max_tokens`, `max_completion_tokens`, `temperature`
            (other than 1), `response_format`, `response_format.json_schema`.
        prefix_cache: count prompt tokens as a server with a prefix cache does.
        models: the names that `GET /v1/models` lists; any name is answered.
        seed: of latencies and fault rates.
        port: 0 for a free one.
        keep: how many of the last requests `received` keeps.
        limits: truncate replies at `max_tokens`, and refuse limits that are too high; None does neither.

    Example:
        >>> from urllib.request import Request, urlopen
        >>> with LoopbackEndpoint(replier=lambda body: "Blue.").in_thread() as endpoint:
        ...     url = f"{endpoint.base_url}/chat/completions"
        ...     asked = b'{"model": "m", "messages": [{"role": "user", "content": "Which colour?"}]}'
        ...     with urlopen(Request(url, asked)) as answer:
        ...         b"Blue." in answer.read()
        True
        >>> endpoint.counts.requests
        1
    """

    port: int = 0
    keep: int = 1000

    def __post_init__(self) -> None:
        self._service = self._make_service()
        self._runner: web.AppRunner | None = None
        self._in_flight: list[asyncio.WriteTransport] = []

    @property
    def url(self) -> str:
        """The root of the server, without a path."""
        return f"http://{_HOST}:{self.port}"

    @property
    def base_url(self) -> str:
        """The base URL for clients."""
        return f"{self.url}/v1"

    @property
    def counts(self) -> Counts:
        """Requests and answers so far."""
        return self._service.counts

    @property
    def received(self) -> list[Received]:
        """The last valid requests for completions, oldest first."""
        return list(self._service.received)

    def _make_service(self) -> Service:
        return Service(self, self.keep)

    async def start(self) -> None:
        """Listen; sets `port` to the actual one."""
        from aiohttp import web

        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._answer)
        # Malformed requests are part of tests and not worth a log.
        quiet = logging.Logger("loopback", logging.CRITICAL + 1)
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            shutdown_timeout=0.0,
            keepalive_timeout=3600.0,
            access_log=None,
            logger=quiet,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, self.port, backlog=4096).start()
        self.port = self._service.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening and close every connection, answered or not."""
        if self._runner is not None:
            for transport in self._in_flight:
                transport.abort()
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, and record whether the last byte was sent."""
        lines = [f"{request.method} {request.path_qs} HTTP/1.1".encode(), *map(b": ".join, request.raw_headers)]
        body, transport = await request.read(), request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        outcome = self._service.answer(request.method, request.path, body, b"\r\n".join(lines))
        sent = False
        self._in_flight.append(transport)
        transport.set_write_buffer_limits(high=0)  # so that a drained buffer is an empty one
        try:
            if outcome.delay > 0:
                await asyncio.sleep(outcome.delay)
            if outcome.action == "answer":
                response: web.StreamResponse = await _send(request, outcome)
                sent = True
            else:
                response = await _break(request, outcome)
        finally:
            self._in_flight.remove(transport)
            self._service.finish(outcome, sent=sent)
        return response

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @contextmanager
    def in_thread(self) -> Iterator[Self]:
        """Serve from a separate thread while the context is open."""
        loop = asyncio.new_event_loop()
        thread = Thread(target=loop.run_forever, name="loopback-endpoint", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(), loop).result()
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self.stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _send(request: web.Request, outcome: ServiceOutcome) -> web.Response:
    """Send an answer; returns when its last byte is sent."""
    from aiohttp import web

    answer = web.Response(status=outcome.status, body=outcome.body, headers=_build_headers(outcome))
    await answer.prepare(request)
    await answer.write_eof()
    return answer


async def _break(request: web.Request, outcome: ServiceOutcome) -> web.StreamResponse:
    """Apply a connection fault instead of answering."""
    from aiohttp import web

    transport = request.transport
    response = web.StreamResponse(status=outcome.status, headers=_build_headers(outcome))
    if transport is None or outcome.action == "hang":
        await asyncio.Event().wait()  # until the client gives up
    elif outcome.action == "reset":
        reset_on_close(transport.get_extra_info("socket"))
        transport.abort()
    elif outcome.action == "cut":
        response.content_length = len(outcome.body)
        await response.prepare(request)
        await response.write(outcome.body[: len(outcome.body) // 2])
        transport.close()
    else:  # endless or huge
        response.content_length = _HUGE_PIECES * len(_PIECE) if outcome.action == "huge" else None
        await response.prepare(request)
        for _ in range(_HUGE_PIECES):
            await response.write(_PIECE)
            await asyncio.sleep(0.01 if outcome.action == "endless" else 0)
    return response


def _build_headers(outcome: ServiceOutcome) -> dict[str, str]:
    return {"Content-Type": "application/json", **dict(outcome.headers)}


class LoopbackProcess:
    """A loopback endpoint in a separate process, with separate CPU time, which survives a killed client.

    It ends with the context, or when the process that opened the context dies.

    Args:
        options: command-line options of `python -m autorubric.testing.endpoint`.

    Raises:
        ConfigError: on entering, if the options are wrong.

    Example:
        >>> with LoopbackProcess("--latency", "fixed:0.01") as endpoint:
        ...     endpoint.stats()["requests"]
        0
    """

    module = "autorubric.testing.endpoint"

    def __init__(self, *options: str) -> None:
        self.base_url = ""
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The id of the process."""
        if self._process is None:
            raise ConfigError("the endpoint is not running; use it inside its 'with' block")
        return self._process.pid

    def stats(self) -> dict[str, Any]:
        """Return the endpoint's counts."""
        return self.read_json("/__stats")

    def calls_by_body(self) -> dict[str, int]:
        """Completed calls by digest of the request body."""
        return self.read_json("/__calls")

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", self.module, "--until-stdin-closes", *self._options]
        pipe = subprocess.PIPE
        # The same import path as here, so that both sides run the same code.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            self._end()
            raise ConfigError(f"the endpoint did not start with {' '.join(self._options)!r}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def read_json(self, path: str) -> dict[str, Any]:
        """Return what the endpoint says at a path."""
        with urlopen(self.base_url.removesuffix("/v1") + path) as answer:
            return dict(json.load(answer))
