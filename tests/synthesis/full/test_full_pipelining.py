"""The full plan is pipelined: what one record waits for holds no other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Request
from autorubric.synthesis.slots import find_slots
from autorubric.synthesis.synthesis_run import SynthesisRun, prepare
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.testing import ScriptedModel
from tests.synthesis.full.conftest import Play


async def test_a_judge_that_is_silent_on_one_query_holds_that_query_alone(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"question": f"Query {n}?"}) + "\n" for n in range(6)))
    roles = dict.fromkeys(("reference", "merge", "augment"), "a/m")
    lists = {name: ["a/m", "a/n"] for name in ("responses", "rubrics", "judges")}
    files = {"input": tmp_path / "q.jsonl", "out": tmp_path}
    settings = SynthesisSettings.from_values(
        {**files, "profile": "full", "roles": {**roles, **lists}, "concurrency": 4}
    )
    play, ended = Play(), set[int]()

    async def script(slot: str, request: Request) -> str:
        if slot == "judge_a" and "Query 0?" in request.messages[-1].content:
            while run.summary.finished < 5:
                await asyncio.sleep(0.01)
            ended.add(run.summary.finished)
        body: dict[str, Any] = {
            "model": f"m-{slot.replace('_', '-')}",
            "messages": [m._asdict() for m in request.messages],
        }
        if request.schema is not None:
            body["response_format"] = {"json_schema": {"name": request.schema.name}}
        return play(body)

    def find_model(slot: str) -> ScriptedModel:
        return ScriptedModel(lambda request: script(slot, request), name=f"m-{slot}")

    models = {slot.name: find_model(slot.name) for slot in find_slots(settings)}
    with Ledger.open(tmp_path / "ledger") as ledger:
        run = SynthesisRun(prepared=prepare(settings), models=models, ledger=ledger, executor=Executor(ledger))
        async with asyncio.timeout(60):
            await run.execute()
    assert run.summary.finished == 6
    assert ended == {5}
