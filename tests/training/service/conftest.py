"""A reward service in the loop of the test, on a real socket, in front of a judge on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from autorubric import CriterionGrader, LLMConfig
from autorubric.graders.demands import Compound
from autorubric.llm.records.ledger import Ledger
from autorubric.testing import LoopbackEndpoint
from autorubric.training.audit import AuditPlan, OnGap
from autorubric.training.rewards import DEFAULT_RULE, RewardRule
from autorubric.training.service.engine import RewardEngine
from autorubric.training.service.reward_app import Admission, RewardService, ServiceLimits
from autorubric.training.service.reward_server import Connections

CRITERIA = [{"name": "Kind", "requirement": "Is kind.", "weight": 3}, {"name": "Right", "requirement": "Is right."}]


@dataclass
class Served:
    """A service that runs, and its judge."""

    url: str
    service: RewardService
    judge: LoopbackEndpoint
    session: aiohttp.ClientSession

    async def post(self, body: Any, **headers: str) -> tuple[int, Any]:
        """Status and body of the answer to a call."""
        data = {"data": body} if isinstance(body, bytes) else {"json": body}
        headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self.session.post(f"{self.url}/v1/reward", headers=headers, **data) as answer:
            return answer.status, await answer.json()

    async def read(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.text()


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@asynccontextmanager
async def served_by(
    folder: Path,
    judge: LoopbackEndpoint,
    *,
    limits: ServiceLimits | None = None,
    room: int = 64,
    rule: RewardRule = DEFAULT_RULE,
    share: float = 0.0,
    on_gap: OnGap = "warn",
    audit_tokens: int | None = None,
    repeat_share: float = 0.0,
    compound: Compound = "as_is",
    connections: int = 64,
    idle_seconds: float = 75.0,
    linger_seconds: float = 10.0,
    **config: Any,
) -> AsyncIterator[Served]:
    await judge.start()
    settings = {"api_base": judge.base_url, "temperature": 0.0, "retry_min_wait": 0.0, "max_retries": 0, **config}
    grader = CriterionGrader(judge_model_config=LLMConfig("judge", **settings), compound=compound)
    second = CriterionGrader(judge_model_config=LLMConfig("second", **settings), budget_tokens=audit_tokens)
    plan = AuditPlan(second, share, on_gap=on_gap) if share else None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(judge.stop)
        ledger = stack.enter_context(Ledger.open(folder / "ledger", linger=0.0))
        engine = RewardEngine(grader, ledger, rule, plan, repeat_share)
        service = RewardService(engine, Admission(room), limits or ServiceLimits())
        server = Connections(service.handle, connections, idle_seconds, linger_seconds)
        runner = web.ServerRunner(server, shutdown_timeout=5.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        session = await stack.enter_async_context(aiohttp.ClientSession())
        try:
            yield Served(f"http://127.0.0.1:{port}", service, judge, session)
        finally:
            await session.close()
            ending = asyncio.create_task(runner.cleanup())
            await engine.finish(5.0)
            await ending
            for each in (grader, second):
                await (await each.open_session()).opened.__aexit__(None, None, None)


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """A service in front of a judge, as an asynchronous context."""
    return lambda judge=None, **settings: served_by(tmp_path, judge or LoopbackEndpoint(), **settings)
