"""Checks that users add: by the decorator, and by an installed package's entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autorubric.checks import CheckOutcome, check
from autorubric.errors import ConfigError
from tests.processes import finish_with_packages

SOURCE = """
from autorubric.checks import CheckOutcome, check

@check("mentions_unit")
def mentions_unit(text: str, *, unit: str) -> CheckOutcome:
    return CheckOutcome(unit in text, f"looked for {unit!r}")
"""


def installed(folder: Path, source: str) -> dict[str, str]:
    """The environment in which a package with one check is installed."""
    info = folder / "units-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "units.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: units\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[autorubric.checks]\nmentions_unit = units:mentions_unit\n", encoding="utf-8"
    )
    return {**os.environ, "PYTHONPATH": str(folder)}


WORDS = ["grade", "data.json", "-o", "run"]


def lay_out(folder: Path) -> None:
    """Texts and the rubric that `WORDS` grades."""
    rubric = [
        {"name": "unit", "requirement": "Gives km.", "check": {"name": "mentions_unit", "parameters": {"unit": "km"}}}
    ]
    items = [{"submission": text, "description": text} for text in ("5 km", "5 miles")]
    (folder / "data.json").write_text(json.dumps({"prompt": "How far?", "rubric": rubric, "items": items}))


def test_a_check_of_an_installed_package_grades_in_the_command(tmp_path: Path) -> None:
    lay_out(tmp_path)
    command, environment = [sys.executable, "-m", "autorubric", *WORDS], installed(tmp_path / "site", SOURCE)
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "run" / "items.jsonl").read_text(encoding="utf-8").splitlines()
    assert [("looked for 'km'" in line, json.loads(line)["report"]["score"]) for line in lines] == [
        (True, 1.0),
        (True, 0.0),
    ]


def test_a_package_that_cannot_be_imported_is_named_before_anything_runs(tmp_path: Path) -> None:
    lay_out(tmp_path)
    ended = finish_with_packages(tmp_path / "site", WORDS, tmp_path, installed(tmp_path / "site", "import nowhere"))
    assert ended.returncode == 2
    assert "units:mentions_unit" in ended.stderr
    assert "No module named 'nowhere'" in ended.stderr


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"check 'word_count' .* is already registered"):

        @check("word_count")
        def word_count(text: str) -> CheckOutcome:
            return CheckOutcome(True, "")
