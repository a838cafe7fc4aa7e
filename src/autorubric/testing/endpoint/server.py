"""The loopback endpoint: a real HTTP server on 127.0.0.1 that speaks chat completions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from types import TracebackType

from autorubric.testing.endpoint.connection import Connection
from autorubric.testing.endpoint.counts import Counts
from autorubric.testing.endpoint.limits import TokenLimits
from autorubric.testing.endpoint.replies import Replier, sized_replies
from autorubric.testing.endpoint.service import Behaviour, Received, Service
from autorubric.testing.endpoint.windows import RateWindow
from autorubric.testing.faults import FaultPlan, Faults, fault_plan
from autorubric.testing.latency import Latency

_HOST = "127.0.0.1"


@dataclass(kw_only=True)
class LoopbackEndpoint:
    """An OpenAI-compatible endpoint on this machine, with latencies and faults as you set them.

    Use it with `async with`, with `with endpoint.in_thread()` where there is no event loop, or as a process
    of its own (`LoopbackProcess`, `python -m autorubric.testing.endpoint`). It answers
    `POST /v1/chat/completions`, `GET /v1/models`, `GET /__stats` (its counts) and `GET /__calls` (completed
    calls by digest of the request body).

    Attributes:
        replier: what to say to a request body: a text, or a `Completion`.
        latency: a `Latency`, or its text form (`fixed:0.2`, `lognormal:0.2,0.8+0.002@20`).
        faults: rates by name, a schedule, a function of the body, or a `FaultPlan` of all three.
        key: the only key that is let in; None lets everyone in.
        requests_per_second: more than that gets a 429 with Retry-After.
        window: a limit on requests and tokens in a window of time; more gets a 429.
        rejects: body parameters answered with a 400: `max_tokens`, `max_completion_tokens`, `temperature`
            (other than 1), `response_format`, `response_format.json_schema`.
        prefix_cache: count prompt tokens as a server with a prefix cache does.
        models: the names that `GET /v1/models` lists; any name is answered.
        seed: of latencies and fault rates.
        port: 0 takes a free one.
        keep: how many requests `received` keeps, the last ones.
        limits: cut replies off at `max_tokens`, and refuse limits that are too high; None does neither.

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

    replier: Replier = field(default_factory=sized_replies)
    latency: str | Latency = field(default_factory=Latency)
    faults: Faults = field(default_factory=FaultPlan)
    key: str | None = field(default=None, repr=False)
    requests_per_second: float | None = None
    window: RateWindow | None = None
    rejects: Sequence[str] = ()
    prefix_cache: bool = False
    models: Sequence[str] = ("loopback",)
    seed: int = 0
    port: int = 0
    keep: int = 1000
    limits: TokenLimits | None = None

    def __post_init__(self) -> None:
        latency = self.latency
        behaviour = Behaviour(
            replier=self.replier,
            latency=Latency.parse(latency) if isinstance(latency, str) else latency,
            faults=fault_plan(self.faults),
            key=self.key,
            requests_per_second=self.requests_per_second,
            window=self.window,
            rejects=tuple(self.rejects),
            prefix_cache=self.prefix_cache,
            models=tuple(self.models),
            seed=self.seed,
            limits=self.limits,
        )
        self._service = Service(behaviour, self.keep)
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The root of the server, without a path."""
        return f"http://{_HOST}:{self.port}"

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        return f"{self.url}/v1"

    @property
    def counts(self) -> Counts:
        """What was asked and answered so far."""
        return self._service.counts

    @property
    def received(self) -> list[Received]:
        """The last requests for completions that could be read, oldest first."""
        return list(self._service.received)

    async def start(self) -> None:
        """Listen; from here on `port` is the real one."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(self._service, self._connections), _HOST, self.port, backlog=4096
        )
        self._server = server
        self.port = self._service.port = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection, answered or not."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._connections):
            connection.abort()
        while self._connections:
            await asyncio.sleep(0)
        await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> LoopbackEndpoint:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @contextmanager
    def in_thread(self) -> Iterator[LoopbackEndpoint]:
        """Serve from a thread of its own while the context is open."""
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
