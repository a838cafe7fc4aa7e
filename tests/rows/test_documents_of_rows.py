"""Rows in a JSON or YAML document: in a list, in an object around it, alone, or laid out in a way that is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import InputError, convert, grade, lint, select, synthesize
from tests.offenders import offenders

ROWS = [
    {"id": "a", "question": "Why?", "response": "So.", "rubrics": [{"criterion": "Names the cause.", "points": 2}]},
    {"id": "b", "question": "How?", "response": "No.", "rubrics": [{"criterion": "Names the way.", "points": -1}]},
]
RUBRIC = [{"name": "Short", "requirement": "Contains at most 5 words."}]


def _asks(out: Path) -> dict[str, Callable[[Path], Any]]:
    """What each function reads of a file of rows."""

    def graded(path: Path) -> Any:
        found: Any = grade(path, judge="builtin/offline", out=out / "graded", replace=True).item_results
        return [(one.item.id, one.item.submission, one.report.report[0].criterion.weight) for one in found]

    def converted(path: Path) -> Any:
        convert(path, target=out / "rows.jsonl", to="healthbench", force=True)
        return (out / "rows.jsonl").read_text()

    def selected(path: Path) -> Any:
        select(path, candidates=path, judge="builtin/offline", out=out / "kept", replace=True)
        return json.loads((out / "kept" / "dataset.json").read_text())["items"]

    def synthesized(path: Path) -> Any:
        synthesize(path, models="builtin/offline", out=out / "made", until="reference", replace=True)
        return (out / "made" / "step0_reference.jsonl").read_text()

    return {
        "grade": graded,
        "lint": lambda path: [(one.rule, one.criterion, one.message) for one in lint(path)],
        "convert": converted,
        "select": selected,
        "synthesize": synthesized,
    }


def test_every_command_reads_the_list_that_an_object_keeps(tmp_path: Path) -> None:
    wrapped = {
        "list.json": ROWS,
        "data.json": {"data": ROWS},
        "later.json": {"version": "1.1", "about": {"by": "ana"}, "rows": ROWS},
        "records.yaml": {"records": ROWS},
        "log.json": {"status": "success", "results": {"scores": [{"name": "match"}]}, "samples": ROWS},
        "deep.json": {"config": {"tests": []}, "results": {"version": 3, "results": ROWS}},
        "other.json": {"version": 1, "entries": ROWS},
        "items.json": {"version": 1, "items": ROWS},
    }
    asks = _asks(tmp_path)
    expected: dict[str, Any] = {}
    with offenders() as case:
        for name, value in wrapped.items():
            (tmp_path / name).write_text(json.dumps(value))
            for command, ask in asks.items():
                with case(f"{command} {name}"):
                    found = ask(tmp_path / name)
                    assert found and found == expected.setdefault(command, found)


def test_a_reference_next_to_items_is_not_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"reference_submission": "Rayleigh.", "items": ROWS}))
    with pytest.raises(InputError, match="Missing required field: 'rubric'"):
        grade(tmp_path / "a.json", judge="builtin/offline", dry_run=True)


def test_objects_of_objects_are_refused_as_such(tmp_path: Path) -> None:
    layouts: dict[str, Any] = {
        "by id": {row["id"]: row for row in ROWS},
        "by column": {name: {str(index): row[name] for index, row in enumerate(ROWS)} for name in ROWS[0]},
    }
    (tmp_path / "rubric.json").write_text(json.dumps(RUBRIC))
    asks = _asks(tmp_path)
    asks["grade"] = lambda path: grade(path, rubric=tmp_path / "rubric.json", judge="builtin/offline", out=tmp_path)
    with offenders() as case:
        for layout, value in layouts.items():
            (tmp_path / "rows.json").write_text(json.dumps(value))
            for command in ("grade", "lint", "select", "synthesize"):
                with (
                    case(f"{command} {layout}"),
                    pytest.raises(InputError, match=r"rows\.json: an object of objects"),
                ):
                    asks[command](tmp_path / "rows.json")
    (tmp_path / "rows.json").write_text('{"question": ["Why?", "How?"], "response": ["So.", "No."]}')
    for command in ("grade", "select", "synthesize"):
        with pytest.raises(InputError, match=r"rows\.json: an object of lists, the first under 'question'"):
            asks[command](tmp_path / "rows.json")
    (tmp_path / "rows.json").write_text(json.dumps(layouts["by column"]))
    with pytest.raises(InputError, match=r"rows\.json: the document: an object of objects, the first under 'id'"):
        grade(tmp_path / "rows.json", judge="builtin/offline", out=tmp_path / "graded")


def test_files_of_rows_with_a_rubric_for_all_are_no_datasets(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "rubrics"} for row in ROWS]
    files = {
        "list.json": (rows, "2 of 2"),
        "wrapped.json": ({"data": rows}, "2 of 2"),
        "one.json": (rows[0], "1 of 1"),
        "none.json": ([], "none.json: no submissions in it"),
        "none.jsonl": ("", "none.jsonl: no submissions in it"),
        "blank.jsonl": ("\n\n", "blank.jsonl: no submissions in it"),
    }
    (tmp_path / "rubric.json").write_text(json.dumps(RUBRIC))
    with offenders() as case:
        for name, (value, says) in files.items():
            with case(name):
                (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))
                out = tmp_path / f"run-{name}"
                try:
                    said = repr(
                        grade(tmp_path / name, rubric=tmp_path / "rubric.json", judge="builtin/offline", out=out)
                    )
                except InputError as error:
                    said = str(error)
                assert says in said
