"""`autorubric drift`, on rewards that a engine gave."""

from __future__ import annotations

import asyncio
import csv
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from autorubric import CriterionGrader, Rubric
from autorubric.cli.app import run
from autorubric.llm.records.ledger import Ledger
from autorubric.training.rewarder import Sample
from autorubric.training.rewards import RewardRule
from autorubric.training.service.engine import RewardEngine


def trained(out: Path, rewards: int = 64) -> None:
    """A run in which submissions get longer, until every one meets the criterion on their length."""
    check = {"name": "word_count", "parameters": {"at_least": 20}}
    said = {"name": "contains", "parameters": {"phrases": ["moon"]}}
    rubric = Rubric.from_dict(
        [
            {"name": "Long", "requirement": "Has 20 words or more.", "weight": 4, "check": check},
            {"name": "Moon", "requirement": "Speaks of the moon.", "weight": 1, "check": said},
        ]
    )

    async def give(ledger: Ledger) -> None:
        engine = RewardEngine(CriterionGrader.of_checks(), ledger, RewardRule())
        for number in range(rewards):
            text = "word " * (10 + number) + ("moon" if number % 3 else "sun") + f" {number}"
            asked = Sample(text, rubric, f"Why {number // 4}?", step=number // 8)
            await engine.check([asked])
            await engine.reward(asked)
        await engine.finish(1.0)

    with Ledger.open(out / "ledger") as ledger:
        asyncio.run(give(ledger))


def test_it_shows_windows_saturated_criteria_and_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path)
    assert run(["drift", str(tmp_path), "--windows", "4"]) == 0
    told = capsys.readouterr().out
    assert "met: Long (weight 4): mean 0.75 before, 1.00 recently, 64 verdicts: Has 20 words or more." in told
    assert "warning: 1 of 2 criteria are saturated, 80% of the weight" in told
    assert "warning: submissions grew from " in told


def test_it_is_told_as_json_and_csv_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path, 16)
    assert run(["drift", str(tmp_path), "--windows", "2", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [window["rewards"] for window in found["windows"]] == [8, 8]
    assert run(["drift", str(tmp_path), "--windows", "2", "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["first step"], row["last step"], row["rewards"]) for row in rows] == [
        ("0", "0", "8"),
        ("1", "1", "8"),
    ]
    for row, window in zip(rows, found["windows"], strict=True):
        starts = datetime.fromisoformat(f"{row['from']}+00:00").timestamp()
        assert abs(starts - window["start"]) < 1
        assert (float(row["failed"]), float(row["mean"])) == (window["failed"], window["reward"])
        assert row["over audit judge"] == ""  # undefined


@pytest.mark.parametrize(
    ("made", "flags", "words"),
    [
        (False, [], "is not a run directory: it has no ledger"),
        (True, [], "contains no rewards yet"),
        (True, ["--json", "--csv"], "--json and --csv are mutually exclusive"),
    ],
)
def test_a_folder_without_rewards_is_named(
    made: bool, flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if made:
        Ledger.open(tmp_path / "ledger").close()
    assert run(["drift", str(tmp_path), *flags]) == 2
    assert words in capsys.readouterr().err
