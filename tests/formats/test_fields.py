"""What rows of other projects hold next to their rubric, and what is in the rows that are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autorubric.core.criterion import Criterion
from autorubric.errors import InputError
from autorubric.formats import Record, detect, find_format
from autorubric.formats.rubrichub import dump_details
from tests.offenders import each

POINTS = [{"criterion": "Names a cause.", "points": 5}]
VERL = {"prompt": "Why?", "reward_model": {"rubrics": POINTS}}
RURL = {"prompt": "Why?", "data_source": "Medical", "ability": "Medical", **VERL, "Rubrics": None}
INSTRUCT = json.dumps({"query": "Why?", "rubrics": [{"description": "Names a cause.", "weight": 5}]})
LEVELS = {f"score{score}_description": f"Level {score}." for score in range(1, 6)}


def read(row: dict[str, Any]) -> Record:
    return detect(row).read(row)


@each(
    ("row", "fields"),
    [
        (VERL, {"id": "", "reference": None, "domain": "", "answer": None, "metadata": {}}),
        ({**VERL, "id": "q1"}, {"id": "q1"}),
        ({**VERL, "id": "q1", "extra_info": {"id": "q7"}}, {"id": "q7"}),
        ({**VERL, "reward_model": {"rubrics": POINTS, "ground_truth": "Coal."}}, {"reference": "Coal."}),
        ({**VERL, "ability": "chat", "data_source": "chat"}, {"domain": "chat", "metadata": {}}),
        ({"reward_model": {"rubrics": POINTS}, "extra_info": {"prompt": "Who?"}}, {"prompt": "Who?"}),
        ({"prompt": "Why?", "prompt_id": "h1", "id": "h2", "rubrics": POINTS}, {"id": "h1", "reference": None}),
        ({"prompt": "Why?", "id": "h2", "rubrics": POINTS}, {"id": "h2"}),
        (
            {
                "id": "r1",
                "question": "Why?",
                "reference_answer": "Coal.",
                "rubric": [{"description": "Says so.", "weight": 5}],
            },
            {"id": "r1", "reference": "Coal.", "prompt": "Why?"},
        ),
        ({"messages": "Why?", "ground_truth": INSTRUCT}, {"prompt": "Why?", "metadata": {}}),
        ({"messages": "Why?", "ground_truth": [INSTRUCT]}, {"prompt": "Why?", "metadata": {}}),
        (
            {"messages": "Why?", "ground_truth": INSTRUCT, "dataset": "mine"},
            {"metadata": {"dataset": "mine"}},
        ),
        (
            {"id": "p1", "instruction": "Why?", "response": "Tea.", "reference_answer": "Coal.", "criteria": "Is it?"}
            | LEVELS,
            {"id": "p1", "prompt": "Why?", "answer": "Tea.", "reference": "Coal."},
        ),
    ],
)
def test_a_row_keeps_what_is_next_to_its_rubric(row: dict[str, Any], fields: dict[str, Any]) -> None:
    record = read(row)
    assert {key: getattr(record, key) for key in fields} == fields
    assert len(record.criteria) == 1


RECORD = Record(
    (Criterion(name="cause", weight=5, requirement="Names a cause."), Criterion(weight=-2, requirement="Guesses.")),
    "Why?",
    "q1",
    "Coal.",
    domain="chat",
)


@each(
    ("name", "path", "value"),
    [
        ("verl", ("reward_model", "ground_truth"), "Coal."),
        ("verl", ("extra_info", "id"), "q1"),
        ("verl", ("ability",), "chat"),
        ("healthbench", ("prompt_id",), "q1"),
        ("healthbench", ("ideal_completions_data", "ideal_completion"), "Coal."),
        ("rar", ("reference_answer",), "Coal."),
        ("rar", ("rubric_count",), 2),
        ("rar", ("rubric", 0), {"title": "cause", "description": "Names a cause.", "weight": 5}),
        ("rar", ("rubric", 1, "title"), ""),
        ("open-instruct", ("dataset",), "general_rubric"),
    ],
)
def test_a_row_is_written_with_what_the_project_reads(name: str, path: tuple[Any, ...], value: Any) -> None:
    found: Any = find_format(name).write(RECORD).row
    for key in path:
        found = found[key]
    assert found == value


def test_an_entry_of_open_instruct_has_a_title_only_where_the_criterion_has_a_name() -> None:
    row = find_format("open-instruct").write(RECORD).row
    assert json.loads(row["ground_truth"])["rubrics"] == [
        {"title": "cause", "description": "Names a cause.", "weight": 5},
        {"description": "Guesses.", "weight": -2},
    ]
    renamed = find_format("open-instruct").write(Record(RECORD.criteria, "Why?", metadata={"dataset": "mine"})).row
    assert renamed["dataset"] == "mine"


@each(
    ("extra", "said"),
    [
        ({"reward_model": {"rubrics": [{**POINTS[0], "points": 6}]}}, "extra_info.reward_model.rubrics differs"),
        ({"prompt": "Who?"}, "extra_info.prompt differs"),
    ],
)
def test_a_released_row_whose_extra_info_differs_is_refused(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read({**RURL, "extra_info": extra})


def test_a_released_row_is_read_with_mirrors_and_without() -> None:
    for extra in (None, {}, {"prompt": "Why?"}, {"prompt": "Why?", "reward_model": {"rubrics": POINTS}}):
        assert [one.weight for one in read({**RURL, "extra_info": extra}).criteria] == [5]


@each(
    ("details", "kept", "text"),
    [
        (None, None, None),
        ([{"met": True}], [{"met": True}], '[{"met": true}]'),
        ('[{"met": true}]', [{"met": True}], '[{"met": true}]'),
        ("12", "12", "12"),
        ("[cut off", "[cut off", "[cut off"),
    ],
)
def test_details_of_fine_tuning_rows_may_be_values_text_or_missing(details: Any, kept: Any, text: Any) -> None:
    row: dict[str, Any] = {"source": "s", "query": "Why?", "answer": "Tea.", "sample_id": "1", "rubrics": POINTS}
    row |= {"rubric_score": 0.5, "rubric_judge_details": details}
    assert read(row).metadata.get("rubric_judge_details") == kept
    assert dump_details(row)["rubric_judge_details"] == text


def test_an_item_of_our_own_keeps_its_id_its_labels_and_what_it_is_compared_with() -> None:
    item: dict[str, Any] = {
        "id": "q1",
        "prompt": "Why?",
        "submission": "Tea.",
        "description": "",
        "reference_submission": "Coal.",
        "rubric": [{"requirement": "Names a cause.", "weight": 5.0}],
        "ground_truth": ["MET"],
    }
    form = find_format("autorubric")
    record = form.read(item)
    assert (record.id, record.reference, record.answer) == ("q1", "Coal.", "Tea.")
    assert record.metadata == {"ground_truth": ["MET"]}
    written = form.write(record).row
    kept = ("id", "prompt", "submission", "reference_submission", "ground_truth")
    assert {key: written[key] for key in kept} == {key: item[key] for key in kept}
    bare = form.write(Record(record.criteria, "Why?")).row
    assert not bare.keys() & {"id", "reference_submission"}
    assert (bare["submission"], bare["ground_truth"]) == ("", None)


def test_criteria_with_one_name_or_id_are_told_apart_in_an_item() -> None:
    criteria = tuple(
        Criterion(name="Tone", id="a", section=section, requirement=f"r{number}")
        for number, section in enumerate((None, None, "Style", None))
    )
    written: Any = find_format("autorubric").write(Record((*criteria, Criterion(requirement="r4")), "Why?")).row
    entries = written["rubric"]["rubric"] if isinstance(written["rubric"], dict) else written["rubric"]
    assert [one.get("requirement") for one in entries] == [f"r{number}" for number in range(5)]
    assert [one.get("name") for one in entries] == ["Tone", "Tone (2)", "Tone", "Tone (3)", None]
    assert [one.get("id") for one in entries] == ["a", None, None, None, None]
