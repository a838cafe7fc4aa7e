"""HealthBench's rows to every format and back, and their scores."""

from __future__ import annotations

import gzip
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autorubric.core.rubric import Rubric
from autorubric.core.scoring import build_cell, sum_cells
from autorubric.formats import FORMATS, Record, convert, read_records

DATA = Path(__file__).parents[1] / "data"
HEALTHBENCH = DATA / "healthbench.jsonl.gz"
LINES = gzip.decompress(HEALTHBENCH.read_bytes()).decode().splitlines()
ROWS = [json.loads(line) for line in LINES]

TARGETS = [(name, kind) for name, form in FORMATS.items() for kind in form.containers]
ONE_RUBRIC = {
    ("verifiers", ".toml"),
    ("verifiers", ".json"),
    ("llmdc", ".json"),
    ("llmdc", ".yaml"),
    ("llmdc", ".yml"),
    ("paperbench", ".json"),
}


def records(path: Path) -> list[Record]:
    return [record for _, record in read_records(path)]


published = cache(lambda: records(HEALTHBENCH))


def verdicts_for(rows: list[dict[str, Any]]) -> list[list[bool]]:
    draw = random.Random(7)
    return [[draw.random() < 0.4 for _ in row["rubrics"]] for row in rows]


def healthbench_score(rows: list[dict[str, Any]], verdicts: list[list[bool]]) -> float:
    """HealthBench's formula, on the rows as published: points met over points above 0, the mean of them clipped."""
    shares: list[float] = []
    for row, met in zip(rows, verdicts, strict=True):
        points = [entry["points"] for entry in row["rubrics"]]
        possible = sum(point for point in points if point > 0)
        shares.append(sum(point for point, is_met in zip(points, met, strict=True) if is_met) / possible)
    return min(1.0, max(0.0, sum(shares) / len(shares)))


def our_score(found: list[Record], verdicts: list[list[bool]]) -> float:
    shares = []
    for record, met in zip(found, verdicts, strict=True):
        rubric = Rubric(list(record.criteria))
        cells = [build_cell(one, "MET" if is_met else "UNMET") for one, is_met in zip(rubric, met, strict=True)]
        sums = sum_cells(cells)
        shares.append(sums.points / sums.positive)
    return min(1.0, max(0.0, sum(shares) / len(shares)))


@pytest.mark.parametrize(("name", "kind"), [one for one in TARGETS if one not in ONE_RUBRIC])
def test_all_rows_go_to_every_format_and_back_with_the_same_scores(name: str, kind: str, tmp_path: Path) -> None:
    there, back = tmp_path / f"there{kind}", tmp_path / "back.jsonl"
    done = convert(HEALTHBENCH, there, name)
    convert(there, back, "healthbench")
    before, after = published(), records(back)
    assert [[c.requirement for c in one.criteria] for one in after] == [
        [c.requirement for c in one.criteria] for one in before
    ]
    if not done.lost:
        assert after == before
    verdicts = verdicts_for(ROWS)
    assert our_score(after, verdicts) == pytest.approx(healthbench_score(ROWS, verdicts), abs=1e-12)


@pytest.mark.parametrize(("name", "kind"), sorted(ONE_RUBRIC))
def test_every_rubric_goes_to_a_file_of_its_own_and_back(name: str, kind: str, tmp_path: Path) -> None:
    row = tmp_path / "row.jsonl"
    for line in LINES[:20]:
        row.write_text(line)
        there = tmp_path / f"{json.loads(line)['id']}{kind}"
        convert(row, there, name)
        pairs = [(one.weight, one.requirement) for one in records(there)[0].criteria]
        assert pairs == [(entry["points"], entry["criterion"]) for entry in json.loads(line)["rubrics"]]


def test_the_losses_are_those_that_the_way_back_shows(tmp_path: Path) -> None:
    # Every row has tags; 30 of 60 are conversations, which a text holds as JSON where readers know of it.
    assert dict(convert(HEALTHBENCH, tmp_path / "final.parquet", "rubrichub").lost) == {"criteria.tags": 60}
    done = convert(HEALTHBENCH, tmp_path / "ruft.jsonl", "ruft")
    assert dict(done.lost) == {"criteria.tags": 60, "prompt": 30}


def test_the_audit_finds_the_rows_that_healthbench_words_against_their_points(tmp_path: Path) -> None:
    audit = convert(HEALTHBENCH, None, None).polarity
    # Read by hand: 4 negative criteria that begin with "avoid(s)", 2 positive ones with "incorrectly" or "fails to".
    assert (audit.counts["negative", "good"], audit.counts["positive", "fault"]) == (17, 2)
    assert audit.counts["negative", "fault"] > 50


def test_a_dataset_of_ours_goes_through_healthbench_and_back(tmp_path: Path) -> None:
    essays = DATA / "essay_grading_dataset.json"
    convert(essays, tmp_path / "rows.jsonl", "healthbench")
    convert(tmp_path / "rows.jsonl", tmp_path / "back.json", "autorubric")
    assert records(tmp_path / "back.json") == records(essays)
    assert all(record.metadata["ground_truth"] for record in records(tmp_path / "back.json"))
