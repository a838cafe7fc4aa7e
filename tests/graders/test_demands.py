"""Criteria with several demands, graded demand by demand: what the verdicts come to, and what is asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict, FewShotConfig, LLMConfig, Rubric, RubricDataset, grade
from autorubric.core.judgment import Judgment, JudgmentFailure
from autorubric.errors import ConfigError, InputError
from autorubric.graders import CriterionGrader, JudgeSpec
from autorubric.graders.demands import combine
from autorubric.graders.without_model import ScriptedJudge
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.llm.request import Message, Request
from autorubric.runs.run_folder import LEDGER_FOLDER
from autorubric.testing import LoopbackEndpoint, PromptSections
from tests.offenders import offenders

DEMANDS = ["States the dose.", "Warns about liver damage."]
BOTH = Criterion(name="Dose", weight=3, requirement="States the dose and warns about liver damage.")
WORDS = {"M": "MET", "U": "UNMET", "C": "CANNOT_ASSESS"}


def judgment(letter: str, **more: Any) -> Judgment:
    if letter == "F":
        return Judgment("a", failure=JudgmentFailure("infrastructure", "timeout: no reply"), **more)
    return Judgment("a", verdict=CriterionVerdict(WORDS[letter]), **more)


def letter(found: Judgment) -> str:
    return "F" if found.failure is not None or found.verdict is None else found.verdict.value[0]


def test_the_verdicts_on_demands_come_to_one() -> None:
    """By hand: a demand that is not met decides, then a failure, then an abstention; for pitfalls a fault decides."""
    cases = {
        # demands: (positive weight, pitfall)
        "MM": "MM", "MU": "UM", "UM": "UM", "UU": "UU",
        "MF": "FM", "FM": "FM", "UF": "UF", "FU": "UF", "FF": "FF",
        "MC": "CM", "CU": "UC", "CC": "CC", "CF": "FF", "FC": "FF",
        "MMM": "MM", "MMU": "UM", "FCU": "UF", "MCF": "FM", "UCF": "UF",
    }  # fmt: skip
    pitfall = BOTH.model_copy(update={"weight": -2.0})
    with offenders() as case:
        for given, expected in cases.items():
            with case(given):
                found = [judgment(one) for one in given]
                texts = [f"Demand {n}." for n in range(len(given))]
                assert letter(combine(BOTH, texts, found)) + letter(combine(pitfall, texts, found)) == expected


def test_votes_and_repeats_are_combined_seat_by_seat() -> None:
    panels = [
        judgment("M", votes=(judgment("M"), judgment("M"), judgment("U")), confidence=0.9),
        judgment("M", votes=(judgment("M"), judgment("U"), judgment("F")), confidence=0.6),
    ]
    found = combine(BOTH, DEMANDS, panels)
    assert [letter(one) for one in found.votes] == ["M", "U", "U"]
    assert found.confidence == 0.6
    assert found.reason == "States the dose. MET\nWarns about liver damage. MET"
    # Demands that other judges decided have no seats in common.
    assert combine(BOTH, DEMANDS, [panels[0], judgment("M")]).votes == ()


class Endpoint:
    """Lists the demands, and judges a demand met if the submission has its first word; counts what it is asked."""

    def __init__(self, listed: Sequence[str] = ()) -> None:
        self.asked: Counter[str] = Counter()
        self.listed = listed or [json.dumps({"demands": DEMANDS})]

    def say(self, body: dict[str, Any]) -> str:
        turns = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
        shown = PromptSections(Request(turns, role=""))
        asked = shown["criterion"]
        if "submission" not in shown:
            self.asked["list"] += 1
            return self.listed[min(self.asked["list"], len(self.listed)) - 1]
        self.asked[asked] += 1
        met = asked.split()[0].lower() in shown["submission"].lower()
        return json.dumps({"explanation": f"On {asked}", "criterion_status": "MET" if met else "UNMET"})


RUBRIC = Rubric([BOTH, Criterion(name="Kind", weight=1, requirement="Kind in tone.")])
TEXTS = ["It states two a day.", "It states two a day, warns of the liver.", "It warns, and is kind."]


async def test_a_criterion_is_met_only_if_each_demand_is_and_its_demands_are_listed_once(tmp_path: Path) -> None:
    said = Endpoint()
    async with LoopbackEndpoint(replier=said.say) as endpoint:
        model = LLMConfig("judge", api_base=endpoint.base_url)
        variants: list[dict[str, Any]] = [
            {},
            {"run_dir": tmp_path},
            {"llm_calls": "per_criterion", "run_dir": tmp_path},
        ]
        for more in variants:
            grader = CriterionGrader(judge_model_config=model, compound="all", **more)
            reports = [await RUBRIC.grade(text, grader) for text in TEXTS]
            # 3 of 4 points for both demands, 1 for the tone.
            assert [report.score for report in reports] == [0.0, 0.75, 0.25]
            assert [one.criterion.name for one in reports[0].report or ()] == ["Dose", "Kind"]
            assert "Warns about liver damage. UNMET: On Warns" in (reports[0].report or [])[0].final_reason
            await grader.aclose()
    # Without records each grader asks for itself; the last one finds everything in the ledger of the second.
    assert said.asked == {"list": 2, DEMANDS[0]: 6, DEMANDS[1]: 6, "Kind in tone.": 6}


async def test_what_is_one_demand_after_all_is_judged_as_it_is() -> None:
    said = Endpoint([json.dumps({"demands": [BOTH.requirement]})])
    async with LoopbackEndpoint(replier=said.say) as endpoint:
        grader = CriterionGrader(judge_model_config=f"judge@{endpoint.base_url}", compound="all")
        assert (await RUBRIC.grade(TEXTS[0], grader)).score == 0.75
    assert said.asked == {"list": 1, BOTH.requirement: 1, "Kind in tone.": 1}


async def test_a_list_that_does_not_fit_its_criterion_is_asked_for_once_more_and_then_judged_whole() -> None:
    lists = {
        "the list leaves out 'warns', 'liver', 'damage'": DEMANDS[:1],
        "'Names a doctor.' is not a part of the criterion": [*DEMANDS, "Names a doctor."],
        "'This demand is always met.' is not a part of": [*DEMANDS, "This demand is always met."],
        "the list leaves out 'states', 'dose', 'warns'": ["说明剂量。", "提醒肝损伤。"],
        "'States the dose of 4 g.' adds '4'": ["States the dose of 4 g.", DEMANDS[1]],
    }
    with offenders() as case:
        for fault, demands in lists.items():
            said = Endpoint([json.dumps({"demands": demands}, ensure_ascii=False)])
            async with LoopbackEndpoint(replier=said.say) as endpoint:
                grader = CriterionGrader(judge_model_config=f"judge@{endpoint.base_url}", compound="all")
                report = await RUBRIC.grade(TEXTS[0], grader)
                await grader.aclose()
            with case(fault):
                [dose, _] = report.report or []
                assert said.asked == {"list": 2, BOTH.requirement: 1, "Kind in tone.": 1}
                assert (report.score, [*dose.flags]) == (0.75, ["judged_whole"])
                assert dose.final_reason.startswith(f"Judged by one verdict: {fault}")
                assert dose.final_reason.endswith(f"On {BOTH.requirement}")
        with case("the second list fits"):
            said = Endpoint([json.dumps({"demands": DEMANDS[:1]}), json.dumps({"demands": DEMANDS})])
            async with LoopbackEndpoint(replier=said.say) as endpoint:
                grader = CriterionGrader(judge_model_config=f"judge@{endpoint.base_url}", compound="all")
                scores = [(await RUBRIC.grade(text, grader)).score for text in TEXTS]
                await grader.aclose()
            assert scores == [0.0, 0.75, 0.25] and said.asked["list"] == 2


async def test_without_a_list_the_criterion_fails_and_the_next_session_asks_again(tmp_path: Path) -> None:
    many = json.dumps({"demands": [f"Demand {n}." for n in range(50)]})
    said = Endpoint(['{"demands": []}', many, "Sorry.", json.dumps({"demands": DEMANDS})])
    async with LoopbackEndpoint(replier=said.say) as endpoint:
        model = LLMConfig("judge", api_base=endpoint.base_url)
        grader = CriterionGrader(judge_model_config=model, compound="all", run_dir=tmp_path)
        lost = await RUBRIC.grade(TEXTS[1], grader)
        assert lost.score is None and lost.coverage == 0.5
        assert "the reply holds no JSON" in str((lost.report or [])[0].error)
        assert said.asked[DEMANDS[0]] == 0
        await grader.aclose()
        assert (await RUBRIC.grade(TEXTS[1], grader)).score == 0.75
        await grader.aclose()


def test_what_cannot_be_combined_with_it_is_refused() -> None:
    data = RubricDataset("Ask.", RUBRIC)
    met = CriterionVerdict.MET
    data.add_item("Two a day.", "", ground_truth=[met, met])
    judges = [JudgeSpec("builtin/offline", "a")]
    with offenders() as case:
        cases: dict[str, dict[str, Any]] = {
            "is not one of as_is, all": {"judges": judges, "compound": "some"},
            "needs a judge given by its model": {"judge": ScriptedJudge("a", ["MET"]), "compound": "all"},
            "few-shot examples have labels for whole criteria": {
                "judges": judges,
                "training_data": data,
                "few_shot_config": FewShotConfig(n_examples=1),
                "compound": "all",
            },
        }
        for expected, settings in cases.items():
            with case(expected), pytest.raises(ConfigError, match=expected):
                CriterionGrader(**settings)


def test_a_run_counts_its_calls_before_it_makes_them_and_refuses_the_other_way_of_grading(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"rubric": RUBRIC, "judge": "builtin/offline", "out": tmp_path / "run"}
    planned = grade(TEXTS, **asked, compound="all", dry_run=True).estimate
    # One list, and of each submission two demands and the tone.
    assert planned is not None and [row.calls for row in planned] == [1 + 3 * 3]
    result = grade(TEXTS, **asked, compound="all")
    assert result.experiment_dir is not None
    with ledger_view(result.experiment_dir / LEDGER_FOLDER) as view:
        assert sum(row.calls for row in view.add_up()) == 10
    assert grade(TEXTS, **asked, compound="all", dry_run=True).estimate[0].calls == 0  # type: ignore[index]
    with pytest.raises(InputError, match="compound"):
        grade(TEXTS, **asked)
    grade(TEXTS, **{**asked, "out": tmp_path / "plain"})
    with pytest.raises(InputError, match="compound"):
        grade(TEXTS, **{**asked, "out": tmp_path / "plain"}, compound="all")
