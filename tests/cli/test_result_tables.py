"""The tables of `autorubric grade -f`, as their readers see them."""

from __future__ import annotations

import csv
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from autorubric import Criterion, CriterionOption, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.llm.records.lock import find_lock_holder
from autorubric.runs.tables import VoteColumns, write_table
from autorubric.testing import LoopbackEndpoint
from tests.offenders import each


def replier(body: dict[str, Any]) -> str:
    """The judges `a b` and `a,b` disagree about everything; `sick` cannot be read."""
    if body["model"] == "sick":
        return "I would rather not say."
    yes = body["model"] == "a b"
    if "How clear is it?" in str(body["messages"]):
        number = re.search(rf"(\d+)\W+{'=very, so' if yes else 'hardly'}", json.dumps(body["messages"]))
        assert number is not None
        return json.dumps({"explanation": "Read.", "selected_option": int(number[1])})
    return json.dumps({"explanation": "Read.", "criterion_status": "MET" if yes else "UNMET"})


def dataset(folder: Path) -> Path:
    options = [CriterionOption(label="=very, so", value=1.0), CriterionOption(label="hardly", value=0.0)]
    short = {"name": "word_count", "parameters": {"at_most": 5}}
    rubric = Rubric(
        [
            Criterion(name="Kind", requirement="Is kind."),
            Criterion(name="Clear", requirement="How clear is it?", options=options, scale_type="ordinal"),
            Criterion(name="Short", requirement="Has at most 5 words.", check=short),
        ]
    )
    made = RubricDataset("Why?", rubric, name="essays")
    made.add_item("So it is.", "one")
    made.to_file(folder / "essays.json")
    return folder / "essays.json"


def read(folder: Path, kind: str) -> list[dict[str, Any]]:
    path = folder / f"results.{kind}"
    if kind == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    if kind == "parquet":
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return found
    if kind == "jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    listed: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return listed


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "json"])
def test_each_judge_of_a_panel_has_a_column(tmp_path: Path, kind: str) -> None:
    with LoopbackEndpoint(replier=replier).in_thread() as endpoint:
        command = ["grade", str(dataset(tmp_path)), "-f", kind, "-o", str(tmp_path / "out"), "--quorum", "2"]
        for name in ("a b", "a,b", "sick"):
            command += ["--judge", f"{name}@{endpoint.base_url}"]
        assert run(command) == 0
    rows = read(tmp_path / "out", kind)
    assert list(rows[0])[-3:] == ["verdict_a_b", "verdict_a_b_2", "verdict_sick"]
    nothing = "" if kind == "csv" else None
    option = "'=very, so" if kind == "csv" else "=very, so"
    kind_row, clear, short = rows
    assert [kind_row[name] for name in list(kind_row)[-3:]] == ["MET", "UNMET", nothing]
    assert [clear[name] for name in list(clear)[-3:]] == [option, "hardly", nothing]
    # A check decides the last one, and no judge is asked.
    assert short["verdict"] == "MET"
    assert [short[name] for name in list(short)[-3:]] == [nothing] * 3


def test_what_a_judge_said_each_time_is_in_a_column_of_its_own(tmp_path: Path) -> None:
    said = iter(["MET", "UNMET", "MET"])

    def in_turn(body: dict[str, Any]) -> str:
        return json.dumps({"explanation": "So.", "criterion_status": next(said)})

    made = RubricDataset("Why?", Rubric([Criterion(name="Kind", requirement="Is kind.")]))
    made.add_item("So it is.", "one")
    made.to_file(tmp_path / "one.json")
    with LoopbackEndpoint(replier=in_turn).in_thread() as endpoint:
        command = ["grade", str(tmp_path / "one.json"), "--judge", f"judge@{endpoint.base_url}", "-j", "1"]
        command += ["--repeat", "3", "--temperature", "0.9", "-f", "csv", "-o", str(tmp_path / "out")]
        assert run(command) == 0
    [row] = read(tmp_path / "out", "csv")
    assert row["verdict_judge"] == "MET"
    assert sorted(row["repeats_judge"].split("; ")) == ["MET", "MET", "UNMET"]


@each(
    ("judges", "names"),
    [
        (["openai/gpt-5.1", "vllm/Qwen/Qwen3-8B"], ["verdict_openai/gpt-5.1", "verdict_vllm/Qwen/Qwen3-8B"]),
        (["=1+1", "\n\t", "裁判"], ["verdict__1_1", "verdict__", "verdict_裁判"]),
        (["A", "a", "a_2"], ["verdict_A", "verdict_a_2", "verdict_a_2_2"]),
        (["x" * 300, "x" * 301], [f"verdict_{'x' * 100}", f"verdict_{'x' * 100}_2"]),
    ],
)
def test_columns_of_judges_are_readable_and_differ(judges: list[str], names: list[str]) -> None:
    assert VoteColumns.from_judges(dict.fromkeys(judges, 1)).list_names() == names


def test_tables_are_written_while_no_other_process_works_in_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []

    def write_seen(path: Path, rows: Any, columns: Any) -> None:
        held.append(find_lock_holder(path.parent / "ledger"))
        write_table(path, rows, columns)

    monkeypatch.setattr(importlib.import_module("autorubric.jobs.grade"), "write_table", write_seen)
    words = ["grade", str(dataset(tmp_path)), "--judge", "builtin/offline", "-f", "csv", "-o", str(tmp_path / "out")]
    assert run(words) == 0
    assert len(held) == 1 and held[0] is not None
    assert (tmp_path / "out" / "results.csv").exists()
