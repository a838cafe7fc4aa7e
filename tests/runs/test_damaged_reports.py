"""A line of `items.jsonl` that is JSON and holds no report: commands that read it name the file and the item."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from tests.offenders import offenders

STORED = Path(__file__).parents[1] / "stored_runs" / "grade" / "run"
REPORTS: tuple[Any, ...] = (
    *(None, 3, "x", {}),
    {"report_type": "single", "criterion_reports": 3},
    {"report_type": "single", "criterion_reports": ["x"]},
    {"report_type": "ensemble", "criterion_reports": [{}]},
    {"report_type": "single", "score": "high", "criterion_reports": []},
)
COMMANDS = (
    ["agree", "run"],
    ["show", "run"],
    ["select", "run", "--out", "selected"],
    ["evolve", "run", "--judge", "builtin/offline", "--writer", "builtin/offline", "--out", "evolved"],
)


def test_a_line_without_a_report_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(STORED, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run" / "items.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines()
    with offenders() as case:
        for report in REPORTS:
            damaged = {**json.loads(first), "error": None, "report": report}
            path.write_text("\n".join([json.dumps(damaged), *others, ""]), encoding="utf-8")
            for words in COMMANDS:
                with case(f"{words[0]} {report}"):
                    assert run(words) == 2
                    assert "items.jsonl: the line of item 0 is damaged" in capsys.readouterr().err


def test_a_changed_key_of_a_line_is_no_missing_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(STORED, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run" / "items.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines()
    with offenders() as case:
        for key in ("verdict", "criterion_reports"):
            damaged = first.replace(f'{key}":', f'{key[:-1]}0":', 1)
            assert damaged != first
            path.write_text("\n".join([damaged, *others, ""]), encoding="utf-8")
            with case(key):
                assert run(["agree", "run"]) == 2
                assert "items.jsonl: the line of item 0 is damaged" in capsys.readouterr().err
