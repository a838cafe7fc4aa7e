"""What strangers and models write is text in every CSV file, never a formula."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from autorubric.cli.app import run
from autorubric.files.printable import escape_formula
from tests.offenders import each

FORMULAS = ("=HYPERLINK(A1)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1+1")


@each("text", FORMULAS)
def test_a_formula_is_marked_as_text(text: str) -> None:
    assert escape_formula(text) == f"'{text}".replace("\r", "\n")


@each("text", ["plain", "a=b", "-0.5", "+3", "-1.5e-3", "–", "", "12 %", "=".join("ab")])
def test_ordinary_texts_and_numbers_stay_as_they_are(text: str) -> None:
    assert escape_formula(text) == text


def test_no_cell_of_the_tables_of_grade_and_agree_is_a_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rubric = [{"name": name, "requirement": f"{name} Contains at most 5 words."} for name in FORMULAS]
    items = [
        {
            "submission": f"An essay {n}.",
            "description": FORMULAS[n % len(FORMULAS)],
            "id": f"=ID({n})",
            "ground_truth": ["MET" if n % 2 else "UNMET"] * len(rubric),
        }
        for n in range(4)
    ]
    dataset = {"name": "=1", "prompt": "=1", "rubric": rubric, "items": items}
    Path("d.json").write_text(json.dumps(dataset), encoding="utf-8")
    assert run(["grade", "d.json", "--judge", "builtin/offline", "--out", "out", "--format", "csv"]) == 0
    capsys.readouterr()
    assert run(["agree", "out", "--csv"]) == 0
    agreed = capsys.readouterr().out
    for table in (Path("out/results.csv").read_text(encoding="utf-8"), agreed):
        rows = list(csv.reader(io.StringIO(table)))
        assert len(rows) > len(FORMULAS)
        cells = [cell for row in rows for cell in row]
        assert any(cell.startswith("'=") for cell in cells)
        assert not [cell for cell in cells if escape_formula(cell) != cell]
