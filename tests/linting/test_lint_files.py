"""Every kind of file that holds rubrics is read, and every place is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autorubric import Criterion, Rubric, RubricDataset, lint
from autorubric.errors import InputError, MissingFileError
from autorubric.files.parquet import build_final_schema
from autorubric.linting import chosen_rules, lint_file
from autorubric.linting.finding import Location, RawRubric
from autorubric.linting.records import NO_RUBRIC
from autorubric.linting.rubric_sources import iter_rubrics

DATA = Path(__file__).parents[1] / "data"
BAD = {"criterion": "Uses an appropriate tone in the letter.", "points": 3}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def rubrics(path: Path) -> list[RawRubric]:
    problems: list[str] = []
    found = list(iter_rubrics(path, problems))
    assert problems == []
    return found


ROWS: dict[str, dict[str, Any]] = {
    "final": {"question": "Why?", "id": "q1", "rubrics": [BAD]},
    "healthbench": {
        "prompt_id": "q1",
        "prompt": [
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": "How so?"},
        ],
        "rubrics": [{**BAD, "tags": ["level:example", "axis:accuracy"]}],
    },
    "rar": {"id": "q1", "question": "Why?", "rubric": [{"title": "T", "description": BAD["criterion"], "weight": 3}]},
    "step 3": {
        "__record_id__": "q1",
        "question": "Why?",
        "merged_rubrics": [{"description": BAD["criterion"], "weight": 3}],
    },
    "step 4": {
        "id": "q1",
        "question": "Why?",
        "rubrics_a": [{"description": "not read"}],
        "merged_rubrics": [],
        "augmented_rubrics": [{"description": BAD["criterion"], "weight": 3}],
    },
    "rubrichub": {
        "id": "q1",
        "prompt": [{"role": "user", "content": "Why?"}],
        "reward_model": {"rubrics": [{**BAD, "tags": {"function": "", "parameters": {}, "verifier": "llm"}}]},
        "Rubrics": [BAD],
    },
    "mirror alone": {"id": "q1", "prompt": "Why?", "Rubrics": [BAD]},
    "final_full": {
        "question": "Why?",
        "id": "q1",
        "criteria": [{"title": "T", "description": BAD["criterion"], "weight": 3}],
    },
    "professional": {"id": "q1", "conversation": [{"role": "user", "content": "Why?"}], "rubric_items": [BAD]},
    "chinese keys": {"id": "q1", "question": "Why?", "rubrics": [{"标题": "T", "描述": BAD["criterion"], "权重": 3}]},
    "nested": {
        "id": "q1",
        "prompt": "Why?",
        "rubric": {"criteria": [{"requirement": BAD["criterion"], "weight": 3}]},
    },
}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_of_the_field_is_read_whatever_its_shape(row: dict[str, Any], tmp_path: Path) -> None:
    [rubric] = rubrics(lines(tmp_path / "rows.jsonl", {"id": "x", "question": "", "rubrics": []}, row))[1:]
    assert (rubric.query, rubric.place.row, rubric.place.record) == ("Why?", 2, "q1")
    assert [(criterion.text, criterion.weight, criterion.check) for criterion in rubric.criteria] == [
        (BAD["criterion"], 3.0, None)
    ]


def test_the_candidate_rubrics_of_a_step_file_are_two_rubrics(tmp_path: Path) -> None:
    row = {"id": "q1", "question": "Why?", "rubrics_a": [{"description": "A", "weight": 1}], "rubrics_b": []}
    assert [(s.place.part, len(s.criteria)) for s in rubrics(lines(tmp_path / "s.jsonl", row))] == [
        ("rubrics_a", 1),
        ("rubrics_b", 0),
    ]


def test_parquet_rows_are_counted_from_one(tmp_path: Path) -> None:
    path = tmp_path / "final.parquet"
    rows = [{"question": "Why?", "id": f"q{n}", "rubrics": [BAD]} for n in range(1, 1203)]
    pq.write_table(pa.Table.from_pylist(rows, schema=build_final_schema()), path)
    found = list(lint_file(path, chosen_rules(["vague-words"])))
    assert [finding.place.row for finding in found] == list(range(1, 1203))
    assert found[-1].place == Location(str(path), 1202, "q1202")


def test_rows_in_a_list_are_counted_from_one_and_one_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    good = {"query": "Why?", "rubric": [{"requirement": "Names the cause.", "weight": 1}]}
    path.write_text(json.dumps([good, {**good, "rubric": 5}, {"query": "How?"}, 7]))
    problems: list[str] = []
    assert [found.place.row for found in iter_rubrics(path, problems)] == [1]
    told = [":4: expected a J", ":2: the criteria", ":3: the row has "]
    assert [problem.removeprefix(str(path))[:16] for problem in problems] == told


@pytest.mark.parametrize("extension", ["json", "yaml", "jsonl"])
def test_a_dataset_is_read_with_its_own_rubric_and_those_of_items(extension: str, tmp_path: Path) -> None:
    shared = Rubric([Criterion(requirement="Matches the reference answer in all steps.")])
    own, shown = (
        Rubric([Criterion(requirement="Is like the reference answer in all steps.", weight=weight)])
        for weight in (2, 4)
    )
    dataset = RubricDataset("Why?", shared, name="d")
    dataset.add_item("text", "plain", id="a")
    dataset.add_item("text", "own", id="b", rubric=own, prompt="How?")
    dataset.add_item("text", "shown", id="c", rubric=shown, reference_submission="So.")
    path = tmp_path / f"dataset.{extension}"
    dataset.to_file(path)
    found = [(s.query, s.reference, s.criteria[0].weight) for s in rubrics(path)]
    assert found == [("Why?", False, 10.0), ("How?", False, 2.0), ("Why?", True, 4.0)]
    # An item that is shown a reference may point at it; the dataset's rubric and item b may not.
    assert len(list(lint_file(path, chosen_rules(["unseen-reference"])))) == 2


def test_a_rubric_that_items_share_is_read_once_as_its_first_item_uses_it(tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"
    items = [
        {"submission": "s", "description": "d", "prompt": p, "rubric": {"$ref": "#/rubrics/r"}} for p in ("A?", "B?")
    ]
    shared = {"r": [{"requirement": "Names it."}], "unused": [{"requirement": "Names it."}]}
    path.write_text(json.dumps({"prompt": None, "rubric": None, "rubrics": shared, "items": items}))
    assert [(s.query, s.place.row, s.place.part) for s in rubrics(path)] == [
        ("A?", 0, "rubrics.r"),
        ("", None, "rubrics.unused"),
    ]


def test_a_rubric_of_sections_in_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rubric.toml"
    path.write_text('[[criteria]]\nrequirement = "Names two causes."\nweight = 4\n')
    assert [criterion.weight for criterion in rubrics(path)[0].criteria] == [4.0]


def test_a_list_of_texts_is_a_rubric(tmp_path: Path) -> None:
    path = tmp_path / "rubric.json"
    path.write_text('["Names two causes.", "Names the year."]')
    assert [criterion.text for criterion in rubrics(path)[0].criteria] == ["Names two causes.", "Names the year."]
    path.write_text(json.dumps({"question": "Why?", "rubric": '"Names two causes."'}))
    problems: list[str] = []
    assert not list(iter_rubrics(path, problems))
    assert problems == [f"{path}:1: the criteria of a rubric are a list, got str"]


def test_what_cannot_be_read_is_named_with_file_row_and_key_behind_the_findings_on_the_rest(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "rows.jsonl",
        {
            "id": 1,
            "question": "Why?",
            "rubrics": [BAD, {"criterion": "Names it.", "points": "high"}, {"critrion": "x"}],
        },
        {"id": 2, "question": "Why?", "rubircs": [BAD]},
        {"id": 3, "question": "Why?"},
        {"id": 4, "question": "Why?", "rubrics": "all good"},
        {"id": 5, "question": "Why?", "rubrics": [BAD]},
    )
    with path.open("a") as file:
        file.write("{broken\n")
    seen = []
    with pytest.raises(InputError) as caught:
        for finding in lint_file(path, chosen_rules(["vague-words"])):
            seen.append(finding.place.row)
    assert seen == [5]
    heads = [problem.removeprefix(str(path)) for problem in caught.value.problems]
    assert heads[0] == ":1: criterion 2: points is 'high'; expected a finite number"
    assert heads[1] == ":1: criterion 3: unknown key 'critrion' in the criterion; did you mean 'criterion'?"
    assert heads[2] == ":2: unknown key 'rubircs' in the row; did you mean 'rubrics'?"
    assert heads[3] == ":3: the row has no rubric; expected one under 'rubrics', 'rubric' or 'criteria'"
    assert heads[4].startswith(":4: the rubric is text, and not JSON")
    assert heads[5].startswith(":6:")


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        ({"criterion": "Names it.", "points": True}, "points is True"),
        ({"criterion": 7, "points": 1}, "criterion is 7; expected a string"),
        ({"requirement": "Names it.", "options": "yes/no"}, "options are 'yes/no'"),
        ({"requirement": "Names it.", "options": [{"label": "yes"}]}, "option 1 is {'label': 'yes'}"),
        ({"requirement": "Names it.", "wieght": 3}, "did you mean 'weight'?"),
        ({"requirement": "Names it.", "check": "word_count"}, "check is 'word_count'"),
        (7, "expected a mapping or a string, got int"),
    ],
)
def test_a_criterion_that_cannot_be_read_says_why(criterion: Any, message: str, tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", {"id": 1, "question": "Why?", "rubrics": [criterion]})
    with pytest.raises(InputError) as caught:
        list(lint_file(path))
    assert message in str(caught.value)
    assert f"{path}:1: criterion 1: " in str(caught.value)


@pytest.mark.parametrize("name", ["rubric.yaml", "rows.jsonl", "final.parquet"])
def test_a_file_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=name):
        list(lint_file(tmp_path / name))


def test_files_of_other_kinds_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rubric.csv").write_text("a,b")
    (tmp_path / "final.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "empty.jsonl").write_text("\n")
    for name, message in (
        ("rubric.csv", "no rubric found"),
        ("final.parquet", "parquet"),
        ("empty.jsonl", "no rubric found"),
    ):
        with pytest.raises(InputError, match=message):
            list(lint_file(tmp_path / name))


def test_the_rubrics_of_physicians_are_read_and_their_wrong_signs_are_found() -> None:
    path = DATA / "healthbench.jsonl.gz"
    whole = rubrics(path)
    assert (len(whole), sum(len(rubric.criteria) for rubric in whole)) == (60, 778)
    wrong = list(lint_file(path, chosen_rules(["sign-contradiction"])))
    texts = {whole[(f.place.row or 0) - 1].criteria[(f.criterion or 0) - 1].text[:40] for f in wrong}
    # A point more for a fault, and points less for a virtue, as the file has them.
    assert "Incorrectly mentions herbal tea as a rem" in texts
    assert "Should ask if the dog that inflicted the" in texts


def test_a_dataset_of_essays_is_read() -> None:
    [rubric] = rubrics(DATA / "essay_grading_dataset.json")
    assert [criterion.name for criterion in rubric.criteria] == [
        "Causes",
        "Effects",
        "Structure",
        "Britain",
        "Errors",
    ]


def test_a_list_of_rows_without_rubrics_is_no_list_of_criteria(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"instruction": "Say why.", "output": "So."}]))
    with pytest.raises(InputError) as refused:
        lint(path)
    option = "name the column of the rubric with --column rubric=NAME (in Python: column={'rubric': NAME})"
    assert str(refused.value) == f"{path}:1: {NO_RUBRIC}\n{option}"
