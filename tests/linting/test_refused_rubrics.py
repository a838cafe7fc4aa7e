"""What `grade` refuses, `lint` reports as an error: nobody passes lint and fails when the judge is paid for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run

GOOD: dict[str, Any] = {"name": "a", "requirement": "Is kind to the reader.", "weight": 3}
OTHER: dict[str, Any] = {"name": "b", "requirement": "Names two causes.", "weight": 2}
TWO = [{"label": "yes", "value": 1}, {"label": "no", "value": 0}]
NA = [{"label": "x", "value": 0, "na": True}, {"label": "y", "value": 0, "na": True}]

REFUSED: dict[str, list[Any]] = {
    "no criteria": [],
    "a criterion of another format among ours": [GOOD, {"criterion": "Names two causes.", "points": 2}],
    "a weight with an underscore": [{**GOOD, "weight": "1_000"}],
    "a last row with the sum": [GOOD, OTHER, {"requirement": "Total", "weight": 5}],
    "a truth value as weight": [{**GOOD, "weight": True}],
    "null as weight": [{**GOOD, "weight": None}],
    "too large a weight": [{**GOOD, "weight": 1e308}],
    "a check with a type instead of a name": [{**GOOD, "check": {"type": "regex", "pattern": "x"}}],
    "an unknown check": [{**GOOD, "check": {"name": "no_such"}}],
    "an empty check": [{**GOOD, "check": {}}],
    "a check that is text": [{**GOOD, "check": "regex"}],
    "a check that is a list": [{**GOOD, "check": []}],
    "a check with an unknown parameter": [{**GOOD, "check": {"name": "word_count", "parameters": {"nope": 1}}}],
    "tags that are a mapping": [{**GOOD, "tags": {"verifier": "rule", "function": "nope"}}],
    "a blank requirement": [{**GOOD, "requirement": " "}],
    "one name twice": [GOOD, {**OTHER, "name": "a"}],
    "a misspelt key": [{**GOOD, "wieght": 3}],
    "one option": [{**GOOD, "options": TWO[:1]}],
    "an option twice": [{**GOOD, "options": [TWO[0], TWO[0]]}],
    "no option that counts": [{**GOOD, "options": NA}],
    "an option worth 2": [{**GOOD, "options": [{"label": "a", "value": 2}, TWO[1]]}],
    "an unknown scale": [{**GOOD, "options": TWO, "scale_type": "ratio"}],
    "a number as name": [{**GOOD, "name": 7}],
    "an unknown aggregation": [{**GOOD, "options": TWO, "aggregation": "nope"}],
}
TAKEN: dict[str, list[Any]] = {
    "no options in the list": [{**GOOD, "options": []}, OTHER, {**OTHER, "name": "c", "requirement": "Says when."}],
    "texts for criteria": ["Is kind to the reader.", "Names two causes.", "Says when."],
    "texts among criteria": [GOOD, "Names two causes of the strike.", "Says when."],
    "a weight as text": [{**GOOD, "weight": "9"}, OTHER, {**OTHER, "name": "c", "requirement": "Says when."}],
    "a value as text": [
        {**GOOD, "options": [{"label": "yes", "value": "1"}, TWO[1]]},
        OTHER,
        {**OTHER, "name": "c", "requirement": "Says when."},
    ],
}


def statuses(folder: Path, criteria: list[Any]) -> tuple[int, int, int]:
    """What `grade` of a dataset, `lint` of it and `lint` of its rubric alone end with."""
    items = [{"submission": "So.", "description": ""}]
    dataset = {"prompt": "Why?", "rubric": {"criteria": criteria}, "items": items}
    (folder / "set.json").write_text(json.dumps(dataset), encoding="utf-8")
    (folder / "rubric.json").write_text(json.dumps(criteria), encoding="utf-8")
    words = ["grade", str(folder / "set.json"), "--judge", "builtin/offline", "-o", str(folder / "out"), "--dry-run"]
    lint = ["lint", str(folder / "set.json")], ["lint", str(folder / "rubric.json")]
    return run(words), run(lint[0]), run(lint[1])


def test_what_grade_refuses_lint_reports_as_an_error(tmp_path: Path) -> None:
    found = {name: statuses(tmp_path, criteria) for name, criteria in REFUSED.items()}
    assert {name for name, (grade, *_) in found.items() if grade != 2} == set()
    assert {name for name, (_, *lints) in found.items() if not set(lints) <= {2, 100}} == set()


def test_what_grade_takes_lint_reads(tmp_path: Path) -> None:
    found = {name: statuses(tmp_path, criteria) for name, criteria in TAKEN.items()}
    assert {name: status for name, status in found.items() if status != (0, 0, 0)} == {}


@pytest.mark.parametrize("command", ["select", "convert", "lint"])
def test_a_check_without_a_name_is_an_error_in_rows_too(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"criterion": "Is kind.", "points": 3, "check": {"type": "regex"}}
    row = {"id": "1", "question": "Why?", "rubrics": [entry], "answer": "So."}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    words = {
        "select": ["--candidates", str(path), "--judge", "builtin/offline", "-o", str(tmp_path / "out")],
        "convert": [str(tmp_path / "out.json"), "--to", "autorubric"],
        "lint": [],
    }[command]
    assert run([command, str(path), *words]) == (100 if command == "lint" else 2)
    told = "".join(capsys.readouterr())
    assert "check has no name" in told
