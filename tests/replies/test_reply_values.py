"""Words for verdicts and weights, and entries that do not match what was asked for."""

from __future__ import annotations

import json
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict
from autorubric.graders.judge import JudgeInput
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.synthesis.items import read_rubric
from autorubric.testing import ScriptedModel
from tests.replies.roles import ROLES

MET, UNMET, CANNOT = "MET", "UNMET", "CANNOT_ASSESS"

# What a judge writes for its verdict, and the verdict that it is certain to mean; None where it is not.
WORDS: list[tuple[object, str | None]] = [
    ("MET", MET),
    ("met", MET),
    ("**MET**", MET),
    ("`Met`.", MET),
    ("“MET”", MET),
    (True, MET),
    ("true", MET),
    ("True", MET),
    ("satisfied", MET),
    ("满足", MET),
    ("**满足**", MET),
    ("已满足。", MET),
    ("Verdict: MET", MET),
    ("**Verdict:** MET", MET),
    ("判定：满足", MET),
    ("UNMET", UNMET),
    ("un_met", None),
    ("Not met", UNMET),
    ("NOT-MET", UNMET),
    (False, UNMET),
    ("FALSE", UNMET),
    ("not satisfied", UNMET),
    ("不满足", UNMET),
    ("未满足", UNMET),
    ("criterion_status: UNMET", UNMET),
    ("CANNOT_ASSESS", CANNOT),
    ("cannot assess", CANNOT),
    ("无法判断", CANNOT),
    # Degrees, hedges, two verdicts, other scales.
    ("partially met", None),
    ("mostly met", None),
    ("PARTIALLY_MET", None),
    ("部分满足", None),
    ("基本满足", None),
    ("MET or UNMET", None),
    ("MET/UNMET", None),
    ("MET | UNMET | CANNOT_ASSESS", None),
    ("满足/不满足", None),
    ("MET?", None),
    ("MET (with reservations)", None),
    ("not MET, but close", None),
    ("The criterion is not met", None),
    ("yes", None),
    ("no", None),
    ("是", None),
    ("pass", None),
    ("N/A", None),
    ("unknown", None),
    ("❌ MET", None),
    ("", None),
    (1, None),
    (0, None),
    (0.8, None),
    ("1", None),
    (["MET"], None),
    ({"verdict": "MET"}, "MET"),
    ({"verdict": "partly"}, None),
]


def verdict_of(role: str, record: dict[str, Any]) -> str | None:
    """The verdict that a role's reader finds in a record, or None."""
    value = {"judgments": [{"criterion_id": "c0", **record}]} if role == "judge of all" else record
    found = ROLES[role].read(Reply(json.dumps(value, ensure_ascii=False)), 1)
    if isinstance(found, Unreadable):
        assert (found.kind, found.again) == ("unreadable", True)
        return None
    shown = ROLES[role].shown(found.value)
    return shown["c0"] if role == "judge of all" else CriterionVerdict(shown).value


def test_a_word_is_a_verdict_only_if_it_can_mean_nothing_else() -> None:
    faults = []
    for word, wanted in WORDS:
        for role in ("judge of one", "judge of all"):
            for key in ("criterion_status", "verdict"):
                found = verdict_of(role, {"explanation": "Two are named.", key: word})
                if found != wanted:
                    faults.append(f"{role}: {key} {word!r}: expected {wanted}, got {found}")
        bare = ROLES["judge of one"].read(Reply(word), 1) if isinstance(word, str) else None
        if bare is not None and (bare.value.verdict.value if isinstance(bare, Answer) else None) != wanted:
            faults.append(f"{word!r} alone: expected {wanted}, got {bare}")
    assert faults == []


def test_a_verdict_is_not_held_against_its_reason_but_against_a_second_verdict() -> None:
    reason = {"explanation": "Only one is named, therefore UNMET.", "criterion_status": "MET"}
    assert verdict_of("judge of one", reason) == MET
    assert verdict_of("judge of all", reason) == MET
    for second in ({"criteria_met": False}, {"verdict": "UNMET"}, {"verdict": "不满足"}):
        assert verdict_of("judge of one", {**reason, **second}) is None
        assert verdict_of("judge of all", {**reason, **second}) is None


# Weights of one reply; the whole numbers they are certain to mean, None where the reply is requested again.
WEIGHTS: list[tuple[list[object], list[int] | None]] = [
    ([9, 5, 1], [9, 5, 1]),
    (["9", "5", "1"], [9, 5, 1]),
    (["8/10", "4/5", "10 / 10"], [8, 8, 10]),
    (["8 out of 10", "5 points", "3 pts"], [8, 5, 3]),
    (["8分", "5", "3"], [8, 5, 3]),
    ([7.5, 7.4, 0], [8, 7, 0]),
    ([1, 1, 1], [1, 1, 1]),
    # One word among numbers: its criterion is left out, and noted.
    ([9, "high", 3], [9, 3]),
    ([9, "80%", 3], [9, 3]),
    # Clamped, and noted.
    ([9, 12, 3], [9, 10, 3]),
    ([9, "-5", 3], [9, 0, 3]),
    # Another scale: what is it out of?
    ([0.5, 0.3, 0.2], None),
    ([1, 0.8, 0.3], None),
    ([40, 30, 30], None),
    (["50%", "30%", "20%"], None),
    (["high", "medium", "low"], None),
    (["high", 9, "low"], None),
    (["★★★", "★★", "★"], None),
    ([True, True, False], None),
    ([None, None, None], None),
    ([0, 0, 0], None),
]


def test_weights_are_numbers_on_the_scale_that_was_asked_for() -> None:
    faults = []
    for weights, wanted in WEIGHTS:
        items = [{"title": f"T{n}", "description": f"Names fact {n}.", "weight": w} for n, w in enumerate(weights)]
        found = read_rubric(Reply(json.dumps({"criteria": items})))
        got = [item["weight"] for item in found.value] if isinstance(found, Answer) else None
        if got != wanted:
            faults.append(f"{weights}: expected {wanted}, got {got}")
        changed = any(str(weight) in ("high", "80%", "12", "-5") for weight in weights)
        if isinstance(found, Answer) and bool(found.notes) != changed:
            faults.append(f"{weights}: noted {found.notes}")
    assert faults == []


ONE = {"title": "Dose", "description": "Names 4 g.", "weight": 9}
# The fields of one criterion, and whether it is certain what they are.
FIELDS: list[tuple[dict[str, Any], bool]] = [
    ({"name": "Dose", "criterion": "Names 4 g.", "points": 9}, True),
    ({"Title": "Dose", "Requirement": "Names 4 g.", "Score": "9"}, True),
    ({"标题": "Dose", "描述": "Names 4 g.", "权重": 9}, True),
    ({**ONE, "points": 9}, True),
    ({**ONE, "points": 90}, False),
    ({**ONE, "sub_criteria": [ONE, ONE]}, False),
    ({**ONE, "levels": [{"score": 0, "description": "No dose."}, {"score": 9, "description": "The dose."}]}, False),
    ({"title": "Dose", "description": "Names 4 g."}, False),
    ({"title": "Dose", "weight": 9}, False),
    ({"title": "Dose", "description": "Names 4 g.", "importance": 1}, False),
]


def test_fields_under_other_names_are_read_and_those_that_disagree_are_not() -> None:
    faults = []
    for fields, certain in FIELDS:
        found = read_rubric(Reply(json.dumps([fields])))
        value = found.value if isinstance(found, Answer) else None
        if value != ([ONE] if certain else None):
            faults.append(f"{fields}: {found!r:.200}")
    assert faults == []


def judged(*entries: dict[str, Any]) -> Any:
    case = JudgeInput("Coal.", tuple(Criterion(requirement=f"Names cause {number}") for number in range(2)))
    return RubricJudge(ScriptedModel({})).read(case, (0, 1), Reply(json.dumps({"judgments": entries})))


def said(name: object, status: str = "MET") -> dict[str, Any]:
    return {"criterion_id": name, "explanation": "So it is.", "criterion_status": status}


def test_a_judge_of_all_leaves_open_what_it_does_not_settle() -> None:
    # The entries; then for each of the two criteria its verdict, None where it is requested again; whether noted.
    table: list[tuple[list[dict[str, Any]], tuple[str | None, str | None], bool]] = [
        ([said("c0"), said("c1", "UNMET")], (MET, UNMET), False),
        ([said("c1", "UNMET"), said("c0")], (MET, UNMET), False),
        ([said("C0."), said("criterion_c1", "UNMET")], (MET, UNMET), False),
        ([said("c0")], (MET, None), False),
        ([said("c0"), said("c1"), said("c1", "UNMET")], (MET, None), False),
        ([said("c0"), said("c0", "UNMET"), said("c1")], (None, MET), False),
        ([said("c0"), said("c1"), said("c7", "UNMET")], (MET, MET), True),
        ([said("c0"), said("1", "UNMET")], (MET, None), True),
        ([said("c0"), said(1, "UNMET")], (MET, None), True),
        ([said("c0"), said("c1", "partly")], (MET, None), False),
        ([said("<criterion_c0>"), said("criterion_c1-0a1b2c3d4e5f", "UNMET")], (MET, UNMET), False),
        ([said("criterion c0"), said("c0, c1", "UNMET")], (MET, None), True),
        ([{"id": "c0", "status": "met"}, {"criterionId": "c1", "criteriaMet": False}], (MET, UNMET), False),
        ([said("c0"), {**said("c1"), "met": False}], (MET, None), False),
        # Numbers: those of the ids, or counted from 1.
        ([said(0), said(1, "UNMET")], (MET, UNMET), False),
        ([said("1", "UNMET"), said("0")], (MET, UNMET), False),
        ([said(1), said(2, "UNMET")], (MET, UNMET), False),
        ([said("Criterion 1"), {**said("", "UNMET"), "id": 2, "criterion_id": None}], (MET, UNMET), False),
    ]
    for entries, wanted, noted in table:
        found = judged(*entries)
        assert isinstance(found, Answer), entries
        verdicts = tuple(one.verdict.value if one.verdict else None for one in found.value.values())
        assert (verdicts, bool(found.notes)) == (wanted, noted), entries
    # Without any entry that is certain, the whole reply is requested again.
    for entries in (
        [said(1)],
        [said(2), said(1)],
        [said(2), said(3)],
        [said(1), said(2), said(3)],
        [said(None), said(None)],
        [said("Names cause 0")],
        [said("c1"), said("c2", "UNMET")],  # numbered from 1
    ):
        assert isinstance(judged(*entries), Unreadable), entries


def test_lists_that_contradict_each_other_settle_nothing() -> None:
    first, second = (json.dumps({"judgments": [said("c0"), said("c1", status)]}) for status in (MET, UNMET))
    form = '{"judgments": [{"criterion_id": "...", "explanation": "...", "criterion_status": "..."}]}'
    case = JudgeInput("Coal.", tuple(Criterion(requirement=f"Names cause {number}") for number in range(2)))
    table: list[tuple[str, bool]] = [
        (f"```json\n{second}\n```\nAgain:\n{second}", True),
        (f"{form}\n\n{second}", True),
        (f"{second}\n\nThe form was {form}", True),
        # In or out of a fence, a list may be quoted from the submission.
        (f"The submission holds\n```json\n{first}\n```\nMy own:\n{second}", False),
        (f"The submission holds {first}\nMy own:\n```json\n{second}\n```", False),
        (f"{first}\nCorrection: {json.dumps(said('c1', UNMET))}", False),
        (f"{first}\n\n{json.dumps({'id': 'c1', 'criteria_met': False})}", False),
        (f"{second}\nSuch as: {json.dumps(said('c1', UNMET))}", True),
        (json.dumps({**json.loads(first), "final": json.loads(second)["judgments"]}), False),
        (f"<|channel|>analysis<|message|>Perhaps {first}", False),
    ]
    for text, settled in table:
        found = RubricJudge(ScriptedModel({})).read(case, (0, 1), Reply(text))
        verdicts = [one.verdict for one in found.value.values()] if isinstance(found, Answer) else None
        assert verdicts == ([CriterionVerdict.MET, CriterionVerdict.UNMET] if settled else None), text


def test_a_rubric_that_says_it_leaves_criteria_out_is_none() -> None:
    for said_so in ("...", "… (7 more)", " ... and so on"):
        for entries in ([ONE, said_so], [ONE, said_so, {**ONE, "description": "Warns of alcohol."}]):
            found = read_rubric(Reply(json.dumps({"criteria": entries})))
            assert isinstance(found, Unreadable) and found.again, entries
            assert found.message.startswith("the reply leaves criteria out: '")
    dots = {"title": "...", "description": "...", "weight": 0}
    for text in (json.dumps([ONE, dots]), json.dumps([ONE])[:-1] + ",\n// and so on for the other steps\n]"):
        found = read_rubric(Reply(text))
        assert isinstance(found, Unreadable) and found.again, text
