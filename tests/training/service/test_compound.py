"""How much of a reward comes from criteria with several demands, and what judging each demand does to it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import CriterionGrader, LLMConfig, drift
from autorubric.core.rubric_from import rubric_from
from autorubric.llm.request import Message, Request
from autorubric.testing import LoopbackEndpoint, PromptSections
from autorubric.training.compound_share import CompoundMeter
from autorubric.training.observations import RewardRecord
from autorubric.training.reward_drift import find_recommendations
from autorubric.training.rewarder import Rewarder, Sample
from tests.training.service.conftest import Serve

RUBRIC = [
    {"name": "Dose", "requirement": "States the dose and warns about liver damage.", "weight": 6},
    {"name": "Calm", "requirement": "Keeps calm.", "weight": 2},
    {"name": "Panic", "requirement": "Uses capitals and tells it twice.", "weight": -2},
]
LISTS = {
    RUBRIC[0]["requirement"]: ["States the dose.", "Warns about liver damage."],
    RUBRIC[2]["requirement"]: ["Uses capitals.", "Tells it twice."],
}
WORDS = {"States the dose.": "4 g", "Warns about liver damage.": "liver", "Keeps calm.": "calm"}
WORDS |= {"Uses capitals.": "STOP", "Tells it twice.": "again"}


def say(body: dict[str, Any]) -> str:
    """A lenient judge: by one verdict, half of a criterion is enough."""
    turns = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
    shown = PromptSections(Request(turns, role=""))
    asked = shown["criterion"]
    if "submission" not in shown:
        return json.dumps({"demands": LISTS[asked]})
    met = any(WORDS[part] in shown["submission"] for part in LISTS.get(asked, [asked]))
    return json.dumps({"explanation": "So.", "criterion_status": "MET" if met else "UNMET"})


TEXTS = ["4 g. Keep calm.", "4 g, for the liver. Keep calm.", "Keep calm.", "4 g. STOP.", "Nothing."]
# Points of 8, as they come from Dose (6), Calm (2) and Panic (-2), and the share of the first and the last.
EXPECTED = {
    "as_is": ([8, 8, 2, 4, 0], [6 / 8, 6 / 8, 0.0, 1.0, None]),
    "all": ([2, 8, 2, 0, 0], [0.0, 6 / 8, 0.0, 1.0, None]),
}


@pytest.mark.parametrize("compound", EXPECTED)
async def test_the_share_is_in_each_reward_in_the_metrics_and_in_drift(
    serve: Serve, tmp_path: Path, compound: Any
) -> None:
    points, shares = EXPECTED[compound]
    judge = LoopbackEndpoint(replier=say)
    async with serve(judge, compound=compound) as served:
        items = [{"query": "How much?", "submission": text, "rubric": RUBRIC} for text in TEXTS]
        status, body = await served.post({"items": items})
        assert status == 200
        assert [one["reward"] for one in body["rewards"]] == [size / 8 for size in points]
        assert [one["compound"] for one in body["rewards"]] == shares
        _, text = await served.read("/metrics")
    known = [share for share in shares if share is not None]
    assert f"autorubric_compound_share_sum {sum(known)}" in text
    assert f"autorubric_compound_share_count {len(known)}.0" in text
    # Three criteria of five submissions; or two lists, and five demands of each submission.
    assert judge.counts.requests == (15 if compound == "as_is" else 2 + 25)
    found = drift(tmp_path, windows=1).compound
    assert found is not None and [*found.criteria] == ["Dose", "Panic"]
    assert (found.of, found.weight, found.first) == (3, 8 / 10, found.last)
    assert found.last == pytest.approx(sum(known) / len(known))
    advice = list(find_recommendations(drift(tmp_path, windows=1)))
    # Nothing to recommend where each demand is judged already.
    assert found.graded == compound
    assert any("of the points come from 'Dose', 'Panic'" in one for one in advice) == (compound == "as_is")


def test_drift_counts_the_criteria_that_rewards_count() -> None:
    """A check decides a criterion whatever its words; runs of earlier versions recorded the words alone."""
    checked = {"name": "Dose", "requirement": "States the dose and warns about liver damage.", "weight": 1.0}
    record = RewardRecord("r", "g", "a", 9, 1.0, None, [1.0])
    shares = []
    for note in ({"several": [], "graded": "as_is"}, {"several": [0], "graded": "all"}, {}):
        meter = CompoundMeter({"r": {"rubric": "r", "criteria": [checked], **note}})
        meter.add([record])
        found = meter.summarize()
        shares.append(None if found is None else (found.last, found.graded))
    assert shares == [None, (1.0, "all"), (1.0, "as_is")]


@pytest.mark.parametrize(("ask_again", "expected"), [(0.0, 1.0), (3600.0, None)])
def test_a_list_of_demands_that_could_not_be_read_is_asked_for_again_in_time(
    tmp_path: Path, ask_again: float, expected: float | None
) -> None:
    lists = [*["no list"] * 3, '{"demands": ["States the dose.", "Warns about liver damage."]}']

    def reply(body: dict[str, Any]) -> str:
        if "demands" in str(body["response_format"]):
            return lists.pop(0)
        return json.dumps({"explanation": "So.", "criterion_status": "MET"})

    with LoopbackEndpoint(replier=reply).in_thread() as endpoint:
        judge = CriterionGrader(
            judge_model_config=LLMConfig("judge", api_base=endpoint.url), run_dir=tmp_path, compound="all"
        )
        source = Rewarder(judge, ask_again=ask_again)
        rubric = rubric_from([{"requirement": "States the dose and warns about liver damage."}], "here")

        async def ask() -> list[float | None]:
            found = [(await source.rewards([Sample(text, rubric)]))[0].value for text in ("2 g.", "4 g.", "4 g.")]
            await source.finish()
            return found

        assert asyncio.run(ask()) == [None, expected, expected]
