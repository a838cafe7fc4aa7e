"""The package where parts of the system, or packages of the extras, are missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.checks import PACKAGES
from tools.check_page import read_examples

ROOT = Path(__file__).parents[2]
CHECKS_PAGE = ROOT / "docs" / "reference" / "checks.md"
EXAMPLES = [[one["check"], one["parameters"], one["submission"]] for one in read_examples()]
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
    checked = a_dataset(folder / "checked.json", {"name": "KeywordChecker", "parameters": {"keywords": ["ice"]}})
    paths = [queries, a_dataset(folder / "ice.json"), checked, folder / "out"]
    return subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", str(BARE), kind, *map(str, paths)],
        input=json.dumps(EXAMPLES),
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={"PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.parametrize("kind", ["unix", "extras"])
def test_everything_imports_and_the_main_jobs_run(kind: str, tmp_path: Path) -> None:
    done = run_without(kind, tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["imported"] > 300
    assert set(said["statuses"]) == {0}, (said["statuses"], done.stderr)
    assert said["interrupts"] == 2
    assert len((tmp_path / "out" / "rubrics" / "final.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    names = {path.name for path in (tmp_path / "out").rglob("*")}
    assert not [name for name in names if set(name) & set('<>:"/\\|?*')]
    # Only the server of `autorubric view` imports an extra.
    assert {name for name in said["lacking"] if not name.startswith("autorubric.view.")} == set()
    assert {package.partition(".")[0] for package in said["lacking"].values()} <= {"starlette", "uvicorn"}
    if kind == "extras":
        refuses_what_needs_an_extra(said, done.stderr, tmp_path / "out")


def refuses_what_needs_an_extra(said: dict[str, Any], told: str, folder: Path) -> None:
    assert said["refused"] == [2] * 7, told
    for words in (
        "an Excel workbook needs openpyxl; run: pip install 'autorubric-hub[xlsx]'",
        "check 'KeywordChecker' needs regex; run: pip install 'autorubric-hub[checks]'",
        "evidence=True (--evidence) needs rapidfuzz; run: pip install 'autorubric-hub[evidence]'",
        "writing TOML needs tomli_w; run: pip install 'autorubric-hub[toml]'",
        "run: pip install 'autorubric-hub[ui]'",
        "leaves it out) needs defusedxml, emoji, jsonschema, langdetect, nltk, punkt, py3langid, regex, syllapy; run",
    ):
        assert words in told
    assert not list(folder.rglob("refused*/**/ledger.sqlite")), "a refused run has asked something"
    needed = {name: set(re.findall(r"needs (.*);", words)[0].split(", ")) for name, words in said["checks"].items()}
    assert needed == packages_in_the_reference()


def packages_in_the_reference() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", CHECKS_PAGE.read_text("utf-8"), re.MULTILINE)
    for package, checks in (row for row in rows if row[0] in PACKAGES):
        for check in re.findall(r"[^`, ]+", checks):
            found.setdefault(check, set()).add(package)
    return found
