"""A small chat-completions server on loopback, scripted by each test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.endpoints import Endpoints
from autorubric.llm.request import Message, ReplySchema, Request

Answer = Callable[[int, dict[str, Any]], "Awaitable[web.StreamResponse] | web.StreamResponse"]


@dataclass
class Loopback:
    """An endpoint that records what it is asked and answers as `answer(number, body)` says."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    key: str = "planted-key-123"
    endpoints: Endpoints = field(default_factory=Endpoints)
    models: list[ChatModel] = field(default_factory=list)
    answer: Answer | None = None
    raw_request: web.Request | None = None

    def model(self, name: str = "served-name", **config: Any) -> ChatModel:
        settings = {"api_base": self.url, "api_key": self.key, "retry_min_wait": 0.0, "retry_max_wait": 0.0}
        model = ChatModel(LLMConfig(name, **{**settings, **config}), self.endpoints, environ={})
        self.models.append(model)
        return model

    @staticmethod
    def ok(content: Any = "fine", **fields: Any) -> web.Response:
        choice = {"message": {"content": content, **fields.pop("message", {})}, "finish_reason": "stop"}
        choice.update(fields.pop("choice", {}))
        return web.json_response({"choices": [choice], "model": "served-name-1", **fields})

    @staticmethod
    def error(status: int, message: str = "", headers: Any = None, **fields: Any) -> web.Response:
        return web.json_response({"error": {"message": message, **fields}}, status=status, headers=headers)

    @staticmethod
    def ask(text: str = "Hi", schema: bool = False, **fields: Any) -> Request:
        shape = ReplySchema("verdict v1", {"type": "object"}) if schema else None
        return Request((Message("user", text),), "judge", shape, **fields)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        number = len(self.bodies)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.times.append(asyncio.get_running_loop().time())
        self.raw_request = request
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            made = self.answer(number, body) if self.answer else self.ok()
            return made if isinstance(made, web.StreamResponse) else await made
        finally:
            self.in_flight -= 1


@pytest.fixture
async def endpoint() -> AsyncIterator[Loopback]:
    loopback = Loopback()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", loopback.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    loopback.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield loopback
    for model in loopback.models:
        await model.close()
    await loopback.endpoints.aclose()
    await runner.cleanup()
