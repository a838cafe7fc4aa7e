from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from autorubric.core.criterion import Criterion
from autorubric.core.misread_keys import (
    describe_unread,
    find_misread,
    find_section_weights,
    find_stray_keys,
    find_total_rows,
)
from autorubric.core.rubric import Rubric
from autorubric.core.rubric_from import rubric_from
from autorubric.errors import InputError
from autorubric.linting.rubric_sources import lint_rubric
from tests.offenders import each

WRONG_WAY = "give a criterion that describes a fault a negative weight"
VERIFIERS = {"choices": ["MET", "UNMET"], "text": "Is rude."}


@each(
    ("entry", "known", "said"),
    [
        ({"score_1": "poor", "score_5": "good"}, {}, "'score_1', 'score_5' describe a scale"),
        ({"tier 1 description": "all", "tier 2 description": "some"}, {}, "'tier 1 description', 'tier 2 de"),
        ({"score_1": "poor"}, {}, ""),
        ({"score_1": "poor", "score_5": "good"}, {"options": ["Good"]}, ""),
        (VERIFIERS, {}, WRONG_WAY),
        (VERIFIERS, {"weight": -1}, ""),
        (VERIFIERS, {"weight": 0}, WRONG_WAY),
        (VERIFIERS, {"options": ["Good"]}, ""),
        ({"choices": ["MET", "UNMET"]}, {}, ""),
        ({"choices": ["UNMET", "MET"], "text": "Is kind."}, {}, ""),
        ({"section_weight": "60"}, {"weight": 1}, "'section_weight' is '60'; nothing applies it: multiply it into"),
        ({"Category Points": 40}, {"weight": 1}, "'Category Points' is 40; nothing applies it"),
        ({"section_weight": 1, "group_weighting": "none"}, {"weight": 1}, ""),
        ({"pitfalls": [{"requirement": "Is rude."}]}, {}, "'pitfalls' has 1 more"),
        ({"items": [{"criterion": "Is rude.", "points": 2}]}, {}, "'items' has 1 more"),
        ({"items": [{"criterion": "Is rude."}]}, {}, ""),
        ({"items": [{"text": "Is rude.", "weight": 2}]}, {}, "'items' has 1 more"),
        ({"assert": [{"type": "llm-rubric", "value": "Is kind."}]}, {}, "'assert' has 1 more"),
        ({"indicators": ["Is kind.", "Is brief."]}, {"weight": 1}, "'indicators' has 2 more"),
        ({"Level 1": "poor", "Level 2": "good"}, {"weight": 1}, "'Level 1', 'Level 2' describe a scale"),
        ({"level1": "Physics", "level2": "Light"}, {"weight": 1}, ""),  # a taxonomy
        ({"Sehr gut": "klar", "Mangelhaft": "fehlt"}, {"weight": 1}, "'Sehr gut', 'Mangelhaft' describe a scale"),
        ({"Très bien": "clair", "Insuffisant": "rien"}, {"weight": 1}, "'Très bien', 'Insuffisant' describe"),
        (
            {"scores": {1: "poor", 5: "good"}},
            {"weight": 1},
            "'scores' is {1: 'poor', 5: 'good'}, but without options",
        ),
        ({"rubric": [{"score": 1, "text": "poor"}, {"score": 5, "text": "good"}]}, {}, "'rubric' is [{'score': 1"),
        ({"scores": {"1": "poor", "5": "good"}}, {"options": ["Good"]}, ""),
        ({"counts": {"1": 40, "5": 7}}, {"weight": 1}, ""),
        ({"expected": "no"}, {"weight": 1}, WRONG_WAY),
        ({"expected": "yes"}, {"weight": 1}, ""),
        ({"effect": "deduct"}, {"weight": 1}, WRONG_WAY),
        ({"Punkte": 3}, {"weight": 1}, "weight=1 and Punkte=3; leave one out"),
    ],
)
def test_a_key_that_would_change_the_criterion_is_told(
    entry: dict[str, Any], known: dict[str, Any], said: str
) -> None:
    told = list(find_misread(entry, known))
    assert (said in told[0] and len(told) == 1) if said else told == []


@each(
    ("entries", "notes"),
    [
        ([{"requirement": "Is kind.", "why": "Not too long."}], ["'why' of the criteria is metadata"]),
        ([{"requirement": "Is kind.", "why": "long", "name": "Tone"}], []),
        ([{"requirement": "Is kind.", "Kriterium": "Ton", "level": 3}], ["'Kriterium' of the criteria is metadata"]),
        (
            [{"requirement": "A", "weight": 1}, {"requirement": "B"}, {"requirement": "C"}],
            ["2 of 3 criteria have no weight and count 10, the first is criterion 2"],
        ),
        ([{"requirement": "A"}, {"requirement": "B"}], []),
        ([{"requirement": "A", "name": "a", "keywords": ["sun", "moon", "tide"]}], ["'keywords' of the criteria is"]),
        (
            [{"requirement": "A"}, {"requirement": "B", "tags": ["pitfall"]}],
            ["criterion 2 has the tags ['pitfall'] and a positive weight"],
        ),
        ([{"requirement": "A", "weight": -1, "tags": ["pitfall"]}], []),
    ],
)
def test_texts_and_weights_that_are_not_there_are_noted(entries: list[dict[str, Any]], notes: list[str]) -> None:
    found = describe_unread([Criterion.model_validate(entry) for entry in entries])
    assert [note[: len(said)] for note, said in zip(found, notes, strict=True)] == notes


@each(
    ("entries", "told"),
    [
        (
            [{"text": "A", "out of": 3}, {"text": "B", "out of": "2,5"}],
            "'out of' is 3; rename it to 'weight' if that is the weight (none has one)",
        ),
        ([{"requirement": "A", "%": 60}, {"requirement": "B", "%": 40}], "'%' is 60; rename it to 'weight'"),
        ([{"text": "A"}, {"text": "B", "out of": 3}], "'out of' is 3"),
        ([{"text": "A", "credits": 1}, {"text": "B", "credits": 2}], "'credits' is 1"),
        ([{"requirement": "A", "score": 5}, {"requirement": "B", "score": 5}], "'score' is 5"),
        ([{"text": "A", "#": "1"}, {"text": "B", "#": "2"}], ""),  # a count
        ([{"text": "A", "max": None, "pct": ""}, {"text": "B"}], ""),
        ([{"text": "A", "max_words": 40}], ""),  # a weight would change nothing
        ([{"text": "A", "axis_id": 7}, {"text": "B", "axis_id": 5}], ""),
        *(
            ([{"text": "A", key: 50}, {"text": "B", key: 80}], "")
            for key in ("max_words", "Word limit", "level", "year", "votes", "createdAt")
        ),
        ([{"text": "A", "max_value": 3}, {"text": "B", "max_value": 5}], "'max_value' is 3"),
        ([{"text": "A", "Wert": 3}, {"text": "B", "Wert": 5}], "'Wert' is 3"),
        ([{"text": "42"}, {"text": "7"}], ""),
        ([{"text": "A", "points": 1, "out of": 3}, {"text": "B", "points": 1, "out of": 5}], ""),
        (["Is kind (3 points)", "Is brief"], "a text has '(3 points)'"),
        (["[10 pts] Is kind", "[5 pts] Is brief"], "a text has '[10 pts]'"),
        (["Is kind (60%)", "Is brief (40 %)"], "a text has '(60%)'"),
        (["Is kind (+3)", "Is rude (-7)."], "a text has '(+3)'"),
        (["3 - Is kind", "5 - Is brief"], "a text has '3 -'"),
        (["Is kind /3", "Is brief /5."], "a text has '/3'"),
        (["1 - Is kind", "2 - Is brief"], ""),  # numbers of the criteria
        (["Names the discount (10%)", "Is brief"], ""),  # not in all
        (["Names the discount (10%)"], ""),
        (["[1] Is kind", "[2] Is brief"], ""),
        (["Has few sentences (max 3)", "Is brief"], ""),
        (["Is kind (1 point)", "Is brief"], "a text has '(1 point)'"),
        (["Nennt den Mond (5 Punkte)", "Nennt die Sonne"], "a text has '(5 Punkte)'"),
        (["月に触れる（5点）", "日に触れる（2点）"], "a text has '（5点）'"),
        (["달을 언급한다 (5점)", "해를 언급한다 (2점)"], "a text has '(5점)'"),
        (["Называет Луну (5 баллов)", "Называет Солнце (1 балл)"], "a text has '(5 баллов)'"),
        (["Nennt die Ursache（5分）", "Is brief"], "a text has '（5分）'"),
        (["Names the largest planet (5)"], ""),  # one criterion needs no weight
        (["Cites Smith (2019)", "Cites Ruiz (2020)"], ""),
        (["Is short (at most 3 sentences)", "Is brief"], ""),
    ],
)
def test_weights_that_nothing_reads_are_refused_by_every_reader(entries: list[Any], told: str) -> None:
    for read in (Rubric.from_dict, lint_rubric):
        try:
            found = list(read(entries))
            problems = [str(finding) for finding in found if "'refused'" in repr(finding)]
        except InputError as error:
            problems = [*error.problems]
        assert len(problems) == bool(told), problems
        assert told in "".join(problems)


@each(
    ("header", "row"),
    [
        (("Criterion", "Sub-criterion", "Points"), ("Content", "Names the cause of the tides.", 2.5)),
        (("Criterion", "Indicator", "Weight"), ("Thesis", "States a clear thesis", 2.5)),
        (("description", "long_description", "points"), ("Thesis", "States a clear thesis", 2.5)),
        (("Kriterium", "Punkte"), ("Nennt die Ursache.", "2,5 Punkte")),
        (("Critère", "Description", "Barème"), ("Cause", "Nomme la cause des marées.", "2.5")),
        (("Criterio", "Puntos"), ("Nombra la causa.", "2,5")),
        (("Critério", "Peso"), ("Nomeia a causa.", 2.5)),
        (("Критерий", "Баллы"), ("Называет причину.", 2.5)),
        (("観点", "基準", "配点"), ("内容", "潮の満ち引きの原因を述べている。", 2.5)),
        (("평가항목", "배점"), ("조석의 원인을 말한다.", "2.5점")),
    ],
)
def test_tables_of_criteria_are_read_in_the_languages_of_schools(
    header: tuple[str, ...], row: tuple[Any, ...]
) -> None:
    entry = dict(zip(header, row, strict=True))
    [criterion] = Rubric.from_dict([entry])
    assert (criterion.requirement, criterion.weight) == (row[-2], 2.5)
    assert criterion.name == (row[0] if len(row) == 3 else None)
    assert criterion.metadata == {}


@each(
    ("weight", "weights", "told"),
    [
        (5, [2, 3], False),  # a total
        (5, [2, 3, -4], False),  # what can be reached
        (11, [1, None], False),  # a missing weight is 10
        (5, ["all", 5], False),
        (1, [2, 3], False),
        (0, [2, 3], True),
        (4, [2, 3], True),
    ],
)
def test_the_weight_of_a_section_is_told_unless_it_is_a_total(weight: int, weights: list[Any], told: bool) -> None:
    assert bool(list(find_section_weights({"points": weight}, weights))) == told


@each(
    ("around", "said"),
    [
        ({"weights": [1, 2]}, ["'weights' is [1, 2]; write each weight into its criterion"]),
        ({"weights": []}, []),
        ({"scores": [3, -1]}, []),
        ({"weight": 2}, []),
        ({"more": [{"requirement": "Is kind."}]}, ["'more' has 1 more criteria; write all criteria into one list"]),
    ],
)
def test_what_stands_next_to_the_criteria_and_belongs_into_them_is_told(
    around: dict[str, Any], said: list[str]
) -> None:
    assert [one.partition(", or put")[0] for one in find_stray_keys(around, [])] == said


def test_scores_in_the_number_of_the_criteria_are_told() -> None:
    with pytest.raises(InputError, match="'scores' is \\[3, -1\\]; write each weight into its criterion"):
        rubric_from({"criteria": ["Is kind.", "Is rude."], "scores": [3, -1]}, "row 1")


@each(
    ("rows", "told"),
    [
        ([("Total", 5)], [3]),
        ([("总分", 5)], [3]),
        ([("Grand Total", 5)], [3]),
        ([("Subtotal", 5), ("C", 1), ("Subtotal", 1), ("Grand total", 6)], [3, 5, 6]),
        ([("Subtotal (points)", 5), ("C", 1)], [3]),
        ([("Sub-total", 5), ("C", 1), ("Sub total", 1), ("Zwischensumme", 6), ("合计", 6)], [3, 5, 6, 7]),
        ([("Sous-total", 5), ("Subtask", 5)], [3]),
        ([("Total", 4)], []),
        ([("Names the total.", 5)], []),
        ([("Is kind.", 5)], []),
    ],
)
def test_rows_with_a_sum_of_the_weights_are_told(rows: list[tuple[str, float]], told: list[int]) -> None:
    """By lint too."""
    rows = [("A", 3), ("B", 2), *rows]
    way = "and has the sum of other weights; leave it out"
    expected = [f"criterion {row} is {rows[row - 1][0]!r} {way}" for row in told]
    assert list(find_total_rows(rows)) == expected
    entries = [{"criterion": text, "points": weight} for text, weight in rows]
    for read in (Rubric.from_dict, lint_rubric):
        try:
            read(entries)
            problems: tuple[str, ...] = ()
        except InputError as error:
            problems = error.problems
        assert [*problems] == expected


@each(
    ("rows", "told"),
    [
        ("1,Content,5\n1.1,A,3\n1.2,B,2\n2,Style,1\n", ["1"]),
        ("1.,Content,5\n1.1.,A,3\n1.2.,B,2\n", ["1"]),
        (",1 Content,5\n,1.1 A,3\n,1.2 B,2\n", ["1"]),
        ("1,All,6\n1.1,Content,5\n1.1.1,A,3\n1.1.2,B,2\n1.2,C,1\n", ["1", "1.1"]),
        ("1,Content,1\n1.1,A,3\n1.2,B,2\n", []),  # a criterion of its own
        ("1,A,1\n2,B,1\n11,C,1\n", []),
        ("a,A,1\nb,B,1.0\n", []),  # weights are not numbers of rows
    ],
)
def test_a_numbered_row_with_the_sum_of_its_parts_is_refused(rows: str, told: list[str]) -> None:
    path = Path(tempfile.mkdtemp()) / "rubric.csv"
    path.write_text(f"No,Criterion,Points\n{rows}")
    problems: tuple[str, ...] = ()
    try:
        Rubric.from_file(path)
    except InputError as error:
        problems = error.problems
    assert [problem.partition(" has the sum")[0].rpartition(" ")[2] for problem in problems] == told


def test_a_second_list_of_criteria_is_refused_unless_it_is_the_same_one() -> None:
    first, second = ([{"criterion": text, "points": 3}] for text in ("Is kind.", "Is brief."))
    assert len(rubric_from({"rubric": first, "criteria": first}, "row 1").rubric) == 1
    with pytest.raises(InputError, match="'criteria' has 1 more criteria"):
        rubric_from({"rubric": first, "criteria": second}, "row 1")
