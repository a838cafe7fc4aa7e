from __future__ import annotations

import re
from pathlib import Path

import pytest

from autorubric.testing import FAULTS

GUIDE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.S)


def test_the_examples_of_the_guide_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/testing.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("http://127.0.0.1:")
    assert "toddler" in printed


def test_the_guide_lists_every_fault_and_no_other() -> None:
    rows = re.search(r"\| Group \| Faults \|\n(.*?)\n\n", GUIDE, re.S)
    assert rows is not None
    assert set(re.findall(r"`([^`]+)`", rows[1])) == set(FAULTS)
