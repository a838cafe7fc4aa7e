"""`--log-json`, as users type it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint


def essays(folder: Path) -> Path:
    made = RubricDataset("Explain.", Rubric([Criterion(requirement="Is kind."), Criterion(requirement="Is right.")]))
    for number in range(3):
        made.add_item(f"Essay {number}.", id=f"e{number}", description="")
    made.to_file(folder / "essays.json")
    return folder / "essays.json"


def test_grading_writes_a_line_for_each_judgment(tmp_path: Path) -> None:
    log, out = tmp_path / "calls.jsonl", tmp_path / "run"
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", str(essays(tmp_path)), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        assert run([*command, "--log-json", str(log)]) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(line["item"] for line in lines) == ["e0", "e0", "e1", "e1", "e2", "e2"]
    assert {(line["run"], line["role"], line["status"]) for line in lines} == {(str(out), "judge", "ok")}


def test_only_lines_of_the_log_are_on_standard_output_if_it_goes_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "queries.jsonl").write_text('{"question": "Why is the sea salty?"}\n')
    synthesis = ["augment", "merge", "reference", "response", "response", "rubric", "rubric"]
    for words, roles, told in (
        (
            ["synthesize", str(tmp_path / "queries.jsonl"), "-m", "builtin/offline"],
            synthesis,
            "1 of 1 query finished",
        ),
        (["grade", str(essays(tmp_path)), "--judge", "builtin/offline"], ["judge"] * 6, "3 of 3 items graded"),
    ):
        assert run([*words, "-o", str(tmp_path / words[0]), "--log-json", "-"]) == 0
        said = capfd.readouterr()
        assert sorted(json.loads(line)["role"] for line in said.out.splitlines()) == roles
        assert told in said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--log-prompts"], "or pass --log-json FILE"),
        (["--log-json", "/no/such/folder/calls.jsonl"], "cannot be written: No such file or directory"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_asked(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["grade", str(essays(tmp_path)), "--judge", "builtin/offline", "-o", str(tmp_path / "run"), *flags]
    assert run(command) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ['{"dataset": {"name": "essays"}}\n', "not JSON", "[1]\n", "\0" * 100])
def test_a_file_that_holds_something_else_is_not_written_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    log = tmp_path / "calls.jsonl"
    log.write_text(content)
    command = ["grade", str(essays(tmp_path)), "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run([*command, "--log-json", str(log)]) == 2
    assert "exists already and is not a log of attempts" in capsys.readouterr().err
    assert log.read_text() == content
    assert not (tmp_path / "run").exists()


def test_a_second_run_goes_on_in_the_log_of_the_first(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    for name in ("one", "two"):
        command = ["grade", str(essays(tmp_path)), "--judge", "builtin/offline", "-o", str(tmp_path / name)]
        assert run([*command, "--log-json", str(log)]) == 0
    assert len({json.loads(line)["run"] for line in log.read_text().splitlines()}) == 2


def test_a_pipe_that_nobody_reads_is_refused_instead_of_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = ["grade", str(essays(tmp_path)), "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run([*command, "--log-json", str(tmp_path / "pipe")]) == 2
    assert "cannot be written" in capsys.readouterr().err
