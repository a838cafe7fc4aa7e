"""Runs that an earlier version wrote resume without a call and give the results they gave."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from autorubric.cli.app import run
from tests.stored_runs.api import grade_in_python
from tests.stored_runs.serving import serve_and_ask
from tests.stored_runs.stand import Stand, standing

HERE = Path(__file__).parent
COMMANDS = sorted(path.parent.name for path in HERE.glob("*/command.json"))
DECISIONS = "improvement.json"
"""Of a finished improvement, which is read and not replayed; a run that was killed before the end has none."""
RESULTS = (
    *("*.jsonl", "*.csv", "*.parquet", "selection.json", "llamafactory/*"),
    *(DECISIONS, "rubric.json", "review.json", "proposals.json"),
)
"""Files of a run directory that have to come out again as they are; the rest holds times and counts of sessions."""
VOLATILE = {"duration_seconds", "latency", "updated_at", "created_at", "timestamp", "at", "autorubric", "language"}
"""Keys whose values may differ; `language`, since more languages of short queries are detected than were then."""


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A proxy that answers everything with an HTTP 500, in the environment of the test."""
    with standing() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A copy of a stored directory, as the current directory."""
    folder = tmp_path / "stored"
    shutil.copytree(HERE / request.param, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("stored", COMMANDS, indirect=True)
def test_the_command_of_a_stored_run_makes_no_request_and_writes_the_same_results(
    stored: Path, stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    command = json.loads((stored / "command.json").read_text())
    before = results(stored / "run")
    assert before
    (stored / "run" / DECISIONS).unlink(missing_ok=True)
    assert run([*command["arguments"], "--dry-run"]) == 0
    # Replies to re-asks and to higher limits are on record as well.
    planned = [line for line in capsys.readouterr().out.splitlines() if " to make, " in line]
    assert all(": 0 calls to make, " in line for line in planned), planned
    assert run(command["arguments"]) == command["status"]
    assert stand.requests == []
    after = results(stored / "run")
    told = [line for name in sorted({*before, *after}) for line in difference(name, before, after)]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("stored", ["api"], indirect=True)
def test_a_cache_directory_of_an_earlier_version_answers_every_question(stored: Path, stand: Stand) -> None:
    found = grade_in_python(stored)
    assert stand.requests == []
    assert found == json.loads((stored / "reports.json").read_text())


@pytest.mark.parametrize("stored", ["serve"], indirect=True)
def test_a_reward_service_on_a_stored_run_gives_the_same_answers(stored: Path, stand: Stand) -> None:
    found = serve_and_ask(stored, stand)
    assert stand.requests == []
    assert keeps(found, json.loads((stored / "answers.json").read_text())), found


def keeps(found: Any, stored: Any) -> bool:
    """Whether an answer has everything that the stored one has; it may have further keys."""
    if isinstance(stored, dict):
        return isinstance(found, dict) and all(key in found and keeps(found[key], stored[key]) for key in stored)
    if isinstance(stored, list):
        return isinstance(found, list) and len(found) == len(stored) and all(map(keeps, found, stored))
    return bool(found == stored)


def test_every_kind_of_run_is_stored() -> None:
    kinds = {json.loads((HERE / name / "command.json").read_text())["arguments"][0] for name in COMMANDS}
    assert kinds == {"synthesize", "grade", "select", "improve", "review"}
    assert len(COMMANDS) >= 8


def results(folder: Path) -> dict[str, list[str]]:
    """The lines of each file of results, by its path."""
    paths = {path for pattern in RESULTS for path in folder.glob(pattern)}
    return {str(path.relative_to(folder)): contents(path) for path in paths}


def contents(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        return [steady(json.dumps(row, default=str)) for row in pq.read_table(path).to_pylist()]
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".json":
        return [steady(path.read_text(encoding="utf-8"))]
    return [steady(line) for line in lines] if path.suffix == ".jsonl" else lines


def steady(line: str) -> str:
    return json.dumps(without_times(json.loads(line)))


def without_times(value: Any) -> Any:
    """Without times, and without the last digits of numbers, which differ between ways to compute a quantile."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in VOLATILE}
    if isinstance(value, str) and value.startswith("{"):  # the figures of a gate
        return steady(value)
    return [without_times(one) for one in value] if isinstance(value, list) else value


def difference(name: str, before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    old, new = before.get(name, ["(no such file)"]), after.get(name, ["(no such file)"])
    return list(unified_diff(old, new, f"stored {name}", f"written {name}", lineterm="", n=0))
