"""Data with control characters must not drive the terminal: every command spells them out."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.warm_commands import forked_python, warm_folder

EVIL = "a\x1b[2J\x1b]0;owned\x07b\x9b31m\u202egnirts\u2066\x00"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
CRITERIA = [{"name": EVIL.replace("\x00", ""), "requirement": f"Is kind {EVIL}".replace("\x00", ""), "weight": 3}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    item = {"submission": "So.", "description": EVIL.replace("\x00", ""), "ground_truth": ["MET"]}
    dataset = {
        "prompt": "Why?",
        "rubric": {"criteria": CRITERIA},
        "items": [item, {**item, "submission": "It is kind."}],
    }
    (tmp_path / "set.json").write_text(json.dumps(dataset))
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": EVIL, "question": f"Why? {EVIL}"}) + "\n")
    (tmp_path / "bad.jsonl").write_text(json.dumps({EVIL: "Why?"}) + "\n")
    return tmp_path


MARK = "----- the next command -----"
SESSION = f"""
import gc, json, sys
from autorubric.cli import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit:
        pass
    gc.unfreeze()  # else the next command would count what this one has frozen
    sys.stderr.flush()
    print({MARK!r}, flush=True)
"""


def printed(folder: Path, lines: list[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Everything that each of some commands prints, one after the other in one process, decoded from UTF-8."""
    ended = subprocess.run(
        [forked_python(), "-c", SESSION, json.dumps(lines)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=True,
    )
    *told, rest = ended.stdout.decode().replace("\r\n", "\n").split(f"{MARK}\n")
    assert rest == ""
    return dict(zip(lines, told, strict=True))


def test_no_command_prints_a_control_character_of_the_data(folder: Path) -> None:
    offline = ("--judge", "builtin/offline")
    synthesize = ("synthesize", "rows.jsonl", "--models", "builtin/offline", "--id-column", "id", "--out", "out")
    shown = printed(
        folder,
        [
            ("grade", "set.json", *offline, "-o", "run"),
            ("agree", "run"),
            ("agree", "run", "--criteria"),
            ("agree", "run", "--csv"),
            ("status", "run"),
            ("status", "run", "--json"),
            ("lint", "set.json"),
            ("grade", "set.json", "--judge", f"openai/{EVIL}".replace("\x00", ""), "--dry-run"),
            ("synthesize", "bad.jsonl", "--models", "builtin/offline"),
            (*synthesize, "--show", "1"),
            (*synthesize, "--dry-run"),
            ("status", "out"),
            ("convert", "out/final.jsonl", "--to", EVIL.replace("\x00", "")),
        ],
    )
    unsafe = {words: UNSAFE.findall(text) for words, text in shown.items() if UNSAFE.search(text)}
    assert not unsafe
    named = {words[0] for words, text in shown.items() if "\\u001b[2J" in text}
    assert named >= {"agree", "synthesize"}
    assert json.loads(shown["status", "run", "--json"])
    assert len(list(csv.reader(io.StringIO(shown["agree", "run", "--csv"])))) > 1


def test_the_progress_display_of_a_terminal_still_draws(folder: Path) -> None:
    """On a terminal our own escape sequences go through, and those of the data do not."""
    master, slave = pty.openpty()
    words = ["synthesize", "rows.jsonl", "--models", "builtin/offline", "--out", "tty"]
    command = [str(warm_folder() / "autorubric"), *words]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave):
        os.close(slave)
        seen = bytearray()
        try:
            while block := os.read(master, 65_536):
                seen += block
        except OSError:  # Linux: the terminal's other end is closed
            pass
        os.close(master)
    assert b"\x1b[" in seen
    assert b"\x1b[2J" not in seen
    assert b"\x1b]0;owned" not in seen
