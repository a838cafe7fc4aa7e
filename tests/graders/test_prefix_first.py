"""The first call of an item goes ahead alone; the others follow, and other items fill the slots."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from autorubric import Criterion, CriterionGrader, CriterionVerdict, LLMConfig, Rubric, RubricDataset, evaluate
from autorubric.core.judgment import Judgment
from autorubric.graders.criterion_judge import PrefixFirst
from autorubric.graders.judge import Ask, JudgeInput
from autorubric.llm.batches.setting import Batching, use_batches
from autorubric.llm.request import Failure, Message, Request
from autorubric.testing import LoopbackEndpoint


def request(item: str, system: str = "Judge.") -> Request:
    return Request((Message("system", system), Message("user", item)), "judge", item=item)


async def test_the_others_wait_for_the_first_and_then_go_together() -> None:
    open_now, order = 0, list[int]()

    async def ask(*_: Any) -> Any:
        nonlocal open_now
        open_now += 1
        order.append(open_now)
        await asyncio.sleep(0.001)
        open_now -= 1

    first: Any = PrefixFirst(ask)
    await asyncio.gather(*(first(None, request(str(n)), None, None) for n in range(4)))
    assert order == [1, 1, 2, 3]


async def test_calls_that_begin_differently_do_not_wait_for_each_other() -> None:
    open_now, most = 0, 0

    async def ask(*_: Any) -> Any:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.001)
        open_now -= 1

    first: Any = PrefixFirst(ask)
    await asyncio.gather(first(None, request("a"), None, None), first(None, request("b", "Choose."), None, None))
    assert most == 2


async def test_a_first_call_that_fails_or_raises_lets_the_others_go() -> None:
    asked = 0

    async def ask(*_: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("broken")
        return Failure("server", "HTTP 500")

    first: Any = PrefixFirst(ask)
    found = await asyncio.gather(
        *(first(None, request(str(n)), None, None) for n in range(3)), return_exceptions=True
    )
    assert isinstance(found[0], RuntimeError)
    assert [str(answer) for answer in found[1:]] == ["server: HTTP 500"] * 2


async def test_a_submission_is_computed_once_where_the_endpoint_caches_prefixes(tmp_path: Path) -> None:
    rubric = Rubric([Criterion(name=f"c{n}", requirement=f"Names fact {n}") for n in range(6)])
    dataset = RubricDataset("Explain.", rubric)
    for number in range(4):
        dataset.add_item(f"Essay {number}. " + "The moon pulls at the sea. " * 200, "long")
    computed = {}
    for ahead in (True, False):
        async with LoopbackEndpoint(prefix_cache=True, latency="fixed:0.02") as endpoint:
            grader = CriterionGrader(judge_model_config=LLMConfig("judge", api_base=endpoint.base_url))
            result = await evaluate(dataset, grader, experiments_dir=tmp_path / str(ahead), prefix_first=ahead)
        usage = result.total_token_usage
        assert usage is not None
        computed[ahead] = usage.prompt_tokens - usage.cache_read_input_tokens
    # Six prompts an item share all but their last lines: together they are computed nearly once instead of six times.
    assert computed[True] * 3 < computed[False]


class Asked:
    """Keeps how it may ask, and says MET of everything."""

    judge_ids = ("own",)

    def __init__(self) -> None:
        self.ask: Ask | None = None

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        self.ask = ask
        return [Judgment("own", verdict=CriterionVerdict.MET) for _ in wanted]


async def test_a_grader_lets_a_call_go_ahead_unless_told_otherwise_or_calls_go_in_batches() -> None:
    for first, how, ahead in ((None, None, True), (False, None, False), (None, Batching(), False)):
        judge = Asked()
        told: dict[str, Any] = {} if first is None else {"prefix_first": first}
        with nullcontext() if how is None else use_batches(how):
            report = await CriterionGrader(judge=judge, **told).grade("x", [Criterion(requirement="Is kind")])
        assert report.score == 1.0
        assert isinstance(judge.ask, PrefixFirst) == ahead
