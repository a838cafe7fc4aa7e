"""The package where parts of the system, or packages of the extras, are missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset

ROOT = Path(__file__).parents[2]
BARE = Path(__file__).with_name("bare_machine.py")


def a_dataset(path: Path, check: dict[str, Any] | None = None) -> Path:
    criterion = Criterion(weight=1.0, requirement="Names the density of ice", name="density", check=check)
    dataset = RubricDataset(name="ice", prompt="Why does ice float?", rubric=Rubric([criterion]))
    for number in range(3):
        dataset.add_item(submission=f"Ice is less dense than water ({number}).", description=f"answer {number}")
    dataset.to_file(path)
    return path


def run_without(kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    queries = folder / "queries.jsonl"
    # Ids that no Windows file name could hold.
    rows = [{"id": f'q:{n}?<a|"*\\/', "question": f"Why does ice float on water? ({n})"} for n in range(2)]
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [sys.executable, "-X", "warn_default_encoding", str(BARE), kind]
    arguments = [str(queries), str(a_dataset(folder / "ice.json")), str(folder / "out")]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "src")}
    )


@pytest.mark.parametrize("kind", ["unix", "extras"])
def test_everything_imports_and_the_main_jobs_run(kind: str, tmp_path: Path) -> None:
    done = run_without(kind, tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["imported"] > 300
    assert said["statuses"] == [0] * 6, done.stderr
    assert said["interrupts"] == 2
    assert len((tmp_path / "out" / "rubrics" / "final.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    names = {path.name for path in (tmp_path / "out").rglob("*")}
    assert not [name for name in names if set(name) & set('<>:"/\\|?*')]
