"""`autorubric.lint` of what is in memory finds what it finds in a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest

from autorubric import Criterion, DataItem, Finding, InputError, Rubric, RubricDataset, lint
from tests.offenders import offenders

VAGUE = Rubric([Criterion(name="Tone", requirement="Has a good tone.", weight=3)])
ROWS: list[dict[str, Any]] = [
    {"question": f"Why {number}?", "id": f"q{number}", "rubrics": [{"criterion": "Is good.", "points": 3}]}
    for number in range(2)
]


def without_file(found: list[Finding]) -> list[Finding]:
    assert found
    return [replace(one, place=replace(one.place, file="")) for one in found]


def test_a_dataset_rows_and_a_table_are_linted_as_their_file_is(tmp_path: Path) -> None:
    dataset = RubricDataset("Why?", VAGUE, [DataItem("So.", "", rubric=VAGUE, id="a"), DataItem("No.", "")])
    asked = [{**row, "task": row["question"]} for row in ROWS]
    columns = {"requirement": [one.requirement for one in VAGUE], "weight": [one.weight for one in VAGUE]}
    table: list[tuple[str, Any, str, dict[str, Any]]] = [
        ("a dataset", dataset, dataset.to_json(), {}),
        ("rows", ROWS, json.dumps(ROWS), {}),
        ("an iterator of rows", iter(ROWS), json.dumps(ROWS), {}),
        ("a table", pandas.DataFrame(ROWS), json.dumps(ROWS), {}),
        ("rows with a chosen column", asked, json.dumps(asked), {"column": {"query": "task"}}),
        ("criteria in columns", columns, json.dumps(columns), {}),
        ("criteria", list(VAGUE), json.dumps(VAGUE.to_dict()), {}),
        ("a table of criteria", pandas.DataFrame(VAGUE.to_dict()), json.dumps(VAGUE.to_dict()), {}),
    ]
    with offenders() as case:
        for name, data, text, settings in table:
            with case(name):
                (tmp_path / "data.json").write_text(text)
                of_file = without_file(lint(tmp_path / "data.json", **settings))
                assert without_file(lint(data, **settings)) == of_file


def test_a_row_that_cannot_be_read_is_named_by_its_place() -> None:
    with pytest.raises(InputError, match=r"^data:2: criterion 1: it has no text"):
        lint([ROWS[0], {**ROWS[1], "rubrics": [{"points": 1}]}])
    with pytest.raises(
        InputError, match=r"^data is 3; expected a Rubric, a list of Rubrics, criteria, a RubricDataset, rows"
    ):
        lint(3)  # type: ignore[arg-type]


def test_several_rubrics_are_linted_one_after_the_other_and_found_by_their_place() -> None:
    plain = Rubric([Criterion(name=name, requirement=f"Names {name} and says why it did so.") for name in "abcd"])
    both, alone = lint([plain, VAGUE]), lint(VAGUE)
    assert [one.place.row for one in both] == [1] * len(lint(plain)) + [2] * len(alone)
    assert [one.message for one in both] == [one.message for one in [*lint(plain), *alone]]
    mixtures: list[list[Any]] = [[VAGUE, VAGUE[0]], [VAGUE, "rubric.yaml"]]
    for mixed in mixtures:
        with pytest.raises(
            InputError, match="expected a list of Rubrics or a list of criteria, got both in one list"
        ):
            lint(mixed)
