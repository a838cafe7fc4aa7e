"""Evolution: which two responses are compared, what the model is shown of them, and what is taken of its reply."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from autorubric.llm.request import Answer, Failure, Reply, Unreadable
from autorubric.synthesis.candidate import Candidate, dump_criterion
from autorubric.synthesis.evolution import (
    Round,
    build_augmented_stage,
    build_plain_evolution_stage,
    build_round_stage,
)
from autorubric.synthesis.gated import Evidence
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.stages import NO_RESPONSES, Call, StageOutcome
from autorubric.synthesis.templates import load_synthesis_prompts
from autorubric.synthesis.thresholds import GateSettings
from autorubric.testing import PromptSections, ScriptedModel
from tests.offenders import each

TEMPLATE = load_synthesis_prompts(None, full=True).drafts.augment
MODELS = {"augment": ScriptedModel(lambda request: "[]")}
PLAIN = build_plain_evolution_stage(TEMPLATE, ("response_a", "response_b", "response_c"))
MERGED = [{"title": "Dose", "description": "Names 4 g.", "weight": 9}]

M1, M2 = Candidate("m1", "Dose", "Names 4 g.", 6), Candidate("m2", "Liver", "Warns of the liver.", 4)
FIRST = Candidate("e1.1", "Age", "Asks for the age.", 10, "evolved", 1)
BEFORE = {1: Evidence(("j", "k"), ("merge",), ("merged_verdicts",), "")}
BEFORE[2] = replace(BEFORE[1], criteria=("merge", "round_1"), verdicts=("merged_verdicts", "verdicts_1"))
SETTINGS = FullSettings(gates=GateSettings(order=("share",)))


def of_round(number: int, settings: FullSettings = SETTINGS) -> Round:
    return Round(number, BEFORE[number], settings, TEMPLATE)


def row(**changed: Any) -> dict[str, Any]:
    """Three responses; both judges find m1 in a and b, and split on m2 in b and c; k has no verdict on m2 in a."""
    return {
        "question": " How much? ",
        "pool": {"slots": ["a", "b", "c"]},
        "response_a": "4 g.",
        "response_b": "4 g, mind your liver.",
        "response_c": "Ask a doctor.",
        "merge": {"criteria": [dump_criterion(M1), dump_criterion(M2)]},
        "merged_verdicts": {
            "votes": {
                "m1": [[True, True, False], [True, True, False]],
                "m2": [[False, True, False], [None, False, True]],
            }
        },
        "round_1": {"pair": ["b", "a"], "criteria": [dump_criterion(FIRST)], "dropped": []},
        "verdicts_1": {"votes": {"e1.1": [[False, False, True], [False, False, True]]}},
        **changed,
    }


def only(built: Any) -> Call:
    [call] = built
    assert isinstance(call, Call) and call.slot == call.request.role == "augment"
    return call


def reply(*criteria: dict[str, Any]) -> Reply:
    return Reply(json.dumps(list(criteria)))


def test_the_basic_profile_compares_all_responses_there_are() -> None:
    fields = {"question": "How much?", "merged_rubrics": MERGED, "response_a": "4 g.", "response_b": "Some."}
    call = only(PLAIN.build(fields, MODELS))
    shown = PromptSections(call.request)
    assert shown.find_numbered("response") == ["4 g.", "Some."]
    assert not any(name.startswith("verdicts") for name in shown)
    assert call.request.draw == 0
    found = call.read(reply({"title": "Age", "description": "Asks for the age.", "weight": 7}))
    assert isinstance(found, Answer) and [one["title"] for one in found.value] == ["Age"]


@each(
    ("changed", "expected"),
    [
        ({"merged_rubrics": []}, StageOutcome(failure=Failure("missing_input", "missing merged_rubrics"))),
        ({"merged_rubrics": None}, StageOutcome(failure=Failure("missing_input", "missing merged_rubrics"))),
        ({"response_b": " "}, StageOutcome([], NO_RESPONSES)),
        ({"response_a": None, "response_b": None}, StageOutcome([], NO_RESPONSES)),
    ],
)
def test_the_basic_profile_asks_nobody_without_a_rubric_and_two_responses(
    changed: dict[str, Any], expected: StageOutcome
) -> None:
    fields = {"question": "?", "merged_rubrics": MERGED, "response_a": "4 g.", "response_b": "Some.", **changed}
    assert PLAIN.build(fields, MODELS) == expected


def test_the_basic_profile_is_finished_with_no_criterion_too() -> None:
    assert PLAIN.finished([]) and PLAIN.empty == [] and not PLAIN.finished(None)
    assert PLAIN.reads == ("question", "merged_rubrics", "response_a", "response_b", "response_c")
    assert (PLAIN.name, PLAIN.step, PLAIN.slots, PLAIN.role) == ("augmented_rubrics", 4, ("augment",), "augment")


def test_the_first_round_compares_the_two_best_and_shows_what_the_judges_said() -> None:
    call = only(of_round(1).build(row(), MODELS))
    shown = PromptSections(call.request)
    # Of 10 points, judge j gives a 6, b 10 and c 0. Judge k has no verdict on m2 in a, so m1 alone counts for it:
    # a 1, b 1, c 0. The medians are 0.8, 1 and 0.
    assert shown.find_numbered("response") == ["4 g, mind your liver.", "4 g."]
    assert json.loads(shown["verdicts"]) == {
        "criteria": [
            {"title": "Dose", "response_1": True, "response_2": True, "met": 2, "judged": 3},
            # In b and c one says yes and one no; in a only j decides.
            {"title": "Liver", "response_1": None, "response_2": False, "met": 0, "judged": 1},
        ],
        "scores": {"response_1": 1.0, "response_2": 0.8},
    }
    assert json.loads(shown["rubric"]) == [
        {"title": "Dose", "description": "Names 4 g.", "weight": 6},
        {"title": "Liver", "description": "Warns of the liver.", "weight": 4},
    ]
    assert call.request.draw == 0


def test_a_score_is_shown_with_three_decimals_and_a_criterion_without_verdicts_not_at_all() -> None:
    thirds = [replace(M1, weight=2), replace(M2, weight=1), Candidate("m3", "Tone", "Is kind.", 5)]
    votes = {"m1": [[True, True, False]] * 2, "m2": [[False, True, False]] * 2}
    found = of_round(1).build(
        row(merge={"criteria": list(map(dump_criterion, thirds))}, merged_verdicts={"votes": votes}), MODELS
    )
    shown = json.loads(PromptSections(only(found).request)["verdicts"])
    assert shown["scores"] == {"response_1": 1.0, "response_2": 0.667}
    assert [one["title"] for one in shown["criteria"]] == ["Dose", "Liver"]


def test_at_most_sixty_criteria_are_shown_with_their_verdicts() -> None:
    many = [Candidate(f"m{n}", f"T{n}", f"States {n}.", 1) for n in range(70)]
    votes = {one.id: [[True, True, False]] * 2 for one in many}
    found = of_round(1).build(
        row(merge={"criteria": list(map(dump_criterion, many))}, merged_verdicts={"votes": votes}), MODELS
    )
    shown = PromptSections(only(found).request)
    assert [one["title"] for one in json.loads(shown["verdicts"])["criteria"]] == [f"T{n}" for n in range(60)]
    assert len(json.loads(shown["rubric"])) == 70


def test_a_later_round_compares_another_pair_under_the_criteria_that_passed() -> None:
    call = only(of_round(2).build(row(), MODELS))
    shown = PromptSections(call.request)
    # With 10 points more for c, of 20: j gives 6, 10, 10. For k, m2 does not count, so of 16: 6, 6, 10.
    # The medians are (0.3 + 0.375)/2 = 0.3375, (0.5 + 0.375)/2 = 0.4375 and (0.5 + 0.625)/2 = 0.5625;
    # c and b are the best two, and only b and a were compared.
    assert shown.find_numbered("response") == ["Ask a doctor.", "4 g, mind your liver."]
    scores = json.loads(shown["verdicts"])["scores"]
    assert scores == {"response_1": 0.562, "response_2": 0.438}
    assert [one["title"] for one in json.loads(shown["rubric"])] == ["Dose", "Liver", "Age"]
    assert call.request.draw == 1


def test_a_later_round_leaves_the_pair_of_an_earlier_one() -> None:
    call = only(of_round(2).build(row(round_1={"pair": ["c", "b"], "criteria": [dump_criterion(FIRST)]}), MODELS))
    assert PromptSections(call.request).find_numbered("response") == ["Ask a doctor.", "4 g."]


NOTHING_ADDED = "skipped(the round before added nothing that passed the gates)"
FEW = FullSettings(gates=GateSettings.model_validate({"order": ["share"], "share": {"most": 0.1}}))


@each(
    ("number", "settings", "changed", "expected"),
    [
        (1, SETTINGS, {"pool": None}, "missing verdicts on the pool"),
        (1, SETTINGS, {"merged_verdicts": None}, "missing verdicts on the pool"),
        (2, SETTINGS, {"verdicts_1": None}, "missing verdicts on the pool"),
        (
            1,
            SETTINGS,
            {"merged_verdicts": {"votes": {"m1": [[None, True, True]] * 2, "m2": [[None, True, True]] * 2}}},
            "missing consensus: no judge has verdicts on every response",
        ),
        (1, SETTINGS, {"response_b": "4  G.", "response_c": "4 g."}, "skipped(no two responses left to compare)"),
        (2, SETTINGS, {"round_1": {"pair": ["b", "a"], "criteria": []}}, NOTHING_ADDED),
        # The share of evolved points may be 0.1: of 20 points e1.1 has 10.
        (2, FEW, {}, NOTHING_ADDED),
    ],
)
def test_a_round_asks_nobody_and_says_why(
    number: int, settings: FullSettings, changed: dict[str, Any], expected: str
) -> None:
    found = of_round(number, settings).build(row(**changed), MODELS)
    assert isinstance(found, StageOutcome)
    if found.failure is None:
        assert (found.value, found.model) == ({"pair": None, "criteria": [], "dropped": []}, expected)
    else:
        assert (found.failure.kind, found.failure.message) == ("missing_input", expected)


def test_of_a_reply_the_new_criteria_are_taken_and_the_others_named() -> None:
    call = only(of_round(1).build(row(), MODELS))
    found = call.read(
        reply(
            {"title": "Age", "description": "Asks for the age.", "weight": 7},
            {"title": "Again", "description": "names 4 g!", "weight": 3},
            {"title": "Twice", "description": "ASKS for the age", "weight": 2},
            {"title": "Tone", "description": "Is kind.", "weight": 5},
        )
    )
    assert isinstance(found, Answer)
    taken = {"origin": "evolved", "round": 1, "models": [MODELS["augment"].name], "parents": []}
    assert found.value["pair"] == ["b", "a"]
    assert found.value["criteria"] == [
        {"id": "e1.1", "title": "Age", "description": "Asks for the age.", "weight": 7, **taken},
        {"id": "e1.4", "title": "Tone", "description": "Is kind.", "weight": 5, **taken},
    ]
    reason = "the rubric has it already"
    assert [(one["id"], one["reason"]) for one in found.value["dropped"]] == [("e1.2", reason), ("e1.3", reason)]
    assert found.notes == (f"an evolved criterion was dropped: {reason}",) * 2


def test_a_reply_that_cannot_be_read_is_no_answer() -> None:
    found = only(of_round(1).build(row(), MODELS)).read(Reply("I have none."))
    assert isinstance(found, Unreadable) and found.kind == "unreadable"


def test_a_round_reads_what_was_decided_before_it() -> None:
    first, second = (build_round_stage(of_round(number), ("response_a",)) for number in (1, 2))
    assert first.reads == ("question", "pool", "response_a", "merge", "merged_verdicts")
    assert second.reads == (*first.reads[:4], "round_1", "merged_verdicts", "verdicts_1")
    relevant = Round(2, replace(BEFORE[2], relevance="licences_1"), SETTINGS, TEMPLATE)
    assert build_round_stage(relevant, ("response_a",)).reads == (*second.reads, "licences_1")
    assert (first.only_if, second.only_if) == ("", "round 1 adds a criterion that passes the gates")
    assert (second.name, second.step, second.slots, second.role) == ("round_2", 4, ("augment",), "augment")
    assert second.example is not None
    made = second.example(row(), 100.0)
    assert made["pair"] == ["a", "b"]
    assert [(one["id"], one["round"]) for one in made["criteria"]] == [("e2.1", 2), ("e2.2", 2), ("e2.3", 2)]
    assert second.finished(made) and not second.finished({"criteria": []}) and not second.finished([])


def test_the_new_criteria_of_all_rounds_are_one_list() -> None:
    later = replace(FIRST, id="e2.1", round=2)
    fields = {
        "round_1": {"pair": ["a", "b"], "criteria": [dump_criterion(FIRST)]},
        "round_1_model": "m-augment",
        "round_2": {"pair": None, "criteria": [dump_criterion(later)]},
        "round_2_model": "other",
    }
    stage = build_augmented_stage(["round_1", "round_2"])
    assert stage.build(fields, {}) == StageOutcome([dump_criterion(FIRST), dump_criterion(later)], "m-augment")
    lost = stage.build({**fields, "round_2": {"criteria": []}}, {})
    assert lost == StageOutcome(failure=Failure("missing_input", "missing round_2"))
    assert build_augmented_stage([]).build({}, {}) == StageOutcome([], "skipped(no rounds)")
    assert stage.finished([]) and not stage.finished([{"title": "no id"}]) and stage.empty == []
