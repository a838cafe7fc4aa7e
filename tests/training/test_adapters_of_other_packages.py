"""Trainer adapters that an installed package registers as entry points."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autorubric.cli.app import run
from autorubric.plugins import find_plugins
from tests.offenders import offenders

ALPACA = """
from autorubric.training.trainer_files import Adapter

def row(kept):
    return {"instruction": kept.query.text, "output": kept.chosen.candidate.answer}

ALPACA = Adapter({"alpaca/train.jsonl": row})
"""


@pytest.fixture
def select(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], int]]:
    """Selects from two answers with a package installed that registers the adapter `alpaca`."""
    info = tmp_path / "alpaca_files-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: alpaca-files\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[autorubric.adapters]\nalpaca = alpaca_files:ALPACA\n", encoding="utf-8")
    check = {"name": "contains", "parameters": {"phrases": "moon"}}
    row = {"id": "q1", "query": "Why tides?", "rubric": [{"requirement": "Names the moon.", "check": check}]}
    answers = {"id": "q1", "answers": ["Because of the moon.", "I do not know."]}
    (tmp_path / "queries.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / "answers.jsonl").write_text(json.dumps(answers) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    find_plugins.cache_clear()

    def selected(source: str, trainer: str) -> int:
        sys.modules.pop("alpaca_files", None)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        (tmp_path / "alpaca_files.py").write_text(source, encoding="utf-8")
        return run(["select", "queries.jsonl", "--candidates", "answers.jsonl", "-o", "run", "--trainer", trainer])

    yield selected
    monkeypatch.undo()
    sys.modules.pop("alpaca_files", None)
    find_plugins.cache_clear()


def test_an_installed_adapter_writes_its_file_and_a_selection_without_it_removes_it(
    tmp_path: Path, select: Callable[[str, str], int]
) -> None:
    assert select(ALPACA, "alpaca") == 0
    written = tmp_path / "run" / "alpaca" / "train.jsonl"
    expected = {"instruction": "Why tides?", "output": "Because of the moon."}
    assert json.loads(written.read_text(encoding="utf-8")) == expected
    assert not (tmp_path / "run" / "chat.jsonl").exists()

    assert select(ALPACA, "chat") == 0
    assert (tmp_path / "run" / "chat.jsonl").exists()
    assert not written.parent.exists()


def test_an_adapter_that_cannot_be_used_is_refused_before_anything_is_written(
    tmp_path: Path, select: Callable[[str, str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [
        (ALPACA, "alpac", "trainer 'alpac' is unknown; did you mean 'alpaca'?"),
        ("import nowhere", "alpaca", "No module named 'nowhere'"),
        ("ALPACA = 3", "alpaca", "'alpaca' in group 'autorubric.adapters' is a int; expected an Adapter"),
    ]
    with offenders() as case:
        for source, trainer, message in cases:
            with case(message):
                assert select(source, trainer) == 2
                assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
                assert not (tmp_path / "run").exists()
