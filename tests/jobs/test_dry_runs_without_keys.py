"""A dry run sends nothing and needs no key; the run itself refuses to start without one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autorubric.cli.app import run
from tests.battery.bench import DATASET, RUBRIC
from tests.offenders import offenders

MODEL = "openai/gpt-5.1"
COMMANDS = {
    "synthesize": ("synthesize", "queries.jsonl", "--models", MODEL),
    "variable of the run": ("synthesize", "queries.jsonl", "--models", MODEL, "--api-key-env", "NO_SUCH_KEY"),
    "variable of a role": ("synthesize", "queries.jsonl", "--models", MODEL, "--config", "roles.json"),
    "grade": ("grade", "essays.json", "--judge", MODEL),
    "own address": ("grade", "essays.json", "--judge", "m@https://llm.example.com/v1"),
    "select": ("select", "final.jsonl", "--sample", MODEL, "--judge", MODEL),
    "improve": ("improve", "rubric.json", "--labels", "varied.json", "--judge", MODEL, "--writer", MODEL),
    "review": ("review", "rubric.json", "--reviewer", MODEL),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    varied = [
        {**item, "submission": f"Essay {n}.", "id": f"e{n}", "ground_truth": ["UNMET" if n % 2 else "MET", "MET"]}
        for n, item in enumerate(DATASET["items"] * 20)
    ]
    files = {
        "queries.jsonl": {"question": "Why?"},
        "essays.json": DATASET,
        "final.jsonl": {"question": "Why?", "rubrics": [{"title": "Short", "description": "Is short.", "weight": 5}]},
        "rubric.json": RUBRIC,
        "varied.json": {**DATASET, "items": varied},
        "roles.json": {"roles": {"merge": {"model": MODEL, "api_key_env": "NO_SUCH_KEY"}}},
    }
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    return tmp_path


def test_a_dry_run_needs_no_key_and_the_run_after_it_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with offenders() as case:
        for name, words in COMMANDS.items():
            with case(name):
                status = run([*words, "--out", "out", "--dry-run"])
                told = capsys.readouterr()
                assert status == 0, told.err
                assert "note: no key for " in told.err and told.err.count("continues without it") <= 2
                assert run([*words, "--out", "out"]) == 2
                assert "no key for " in capsys.readouterr().err
                assert not (folder / "out").exists()
