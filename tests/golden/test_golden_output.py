"""What every command prints stays as it is, unless a change means to change it."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from autorubric.cli.app import COMMANDS
from tests.golden.lines import HERE, LINES, told


def test_commands_print_what_is_kept(tmp_path: Path) -> None:
    """After a change that is meant: `python -m tests.golden.write`, then read the diff."""
    kept = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("*.txt")}
    found = dict(told(tmp_path))
    diffs = [
        line
        for name in sorted({*kept, *found})
        for line in unified_diff(
            kept.get(name, "").splitlines(), found.get(name, "").splitlines(), f"{name}.txt", "now", lineterm="", n=1
        )
    ]
    assert not diffs, "\n".join(diffs)


def test_every_command_has_golden_output_and_help() -> None:
    commands = set(COMMANDS)
    lines = [line.rpartition(": ")[2].split() for line in LINES.values()]
    # What `doctor` finds depends on the machine.
    assert {words[0] for words in lines if "--help" not in words} >= commands - {"doctor"}
    assert {words[0] for words in lines if "--help" in words} >= commands
