"""The command as a process, in terminals and under settings that few have."""

from __future__ import annotations

import gc
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autorubric.cli import main
from autorubric.cli.app import run
from tests.battery.bench import lay_out
from tests.warm_commands import WarmProcess

ROOT = Path(__file__).parents[2]
PYTHON = shlex.quote(sys.executable)
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def typed(folder: Path, *words: str | bytes, **more: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    surroundings = {**kept, "PYTHONPATH": str(ROOT / "src"), **more}
    command = [sys.executable, "-m", "autorubric", *words]
    return subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, check=False, timeout=600)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lay_out(tmp_path)
    return tmp_path


ROW = {"id": "é", "question": "什么是光合作用? – 🙂"}
SHOWN = ("synthesize", "queries.jsonl", "--out", "out", "--models", "builtin/offline", "--show", "1")


def written(folder: Path) -> object:
    return json.loads((folder / "out" / "final.jsonl").read_text(encoding="utf-8"))["question"]


def test_rubrics_in_any_language_are_shown_in_any_terminal(folder: Path) -> None:
    (folder / "queries.jsonl").write_text(json.dumps(ROW, ensure_ascii=False) + "\n", encoding="utf-8")
    ended = typed(folder, *SHOWN, **PLAIN)
    assert ended.returncode == 0, ended.stderr.decode()
    assert written(folder) == ROW["question"]


def test_rubrics_in_any_language_are_shown_on_a_stream_of_ascii(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams as `PYTHONIOENCODING=ascii` makes them."""
    (folder / "queries.jsonl").write_text(json.dumps(ROW, ensure_ascii=False) + "\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    shown = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in shown.items():
        wrapped = io.TextIOWrapper(stream, "ascii", line_buffering=True)
        monkeypatch.setattr(sys, name, wrapped)
        monkeypatch.setattr(sys, f"__{name}__", wrapped)
    with pytest.raises(SystemExit) as ended:
        main((*SHOWN, "--log-json", "-", "--log-prompts"))
    gc.unfreeze()  # else each run of the tests that follow would count what this one has frozen
    assert ended.value.code == 0, shown["stderr"].getvalue()
    assert b"\\u4ec0\\u4e48" in shown["stderr"].getvalue()
    calls = [json.loads(line) for line in shown["stdout"].getvalue().splitlines()]
    assert any(ROW["question"] in str(call["messages"]) for call in calls)
    assert written(folder) == ROW["question"]


def test_a_name_that_is_no_text_is_told_without_a_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = typed(folder, b"agree", b"\xff", **PLAIN)
    assert ended.returncode == 2, ended.stderr.decode(errors="replace")
    assert ended.stderr.startswith(b"autorubric: ")
    assert b"Traceback" not in ended.stderr
    monkeypatch.chdir(folder)
    assert run(["synthesize", "\udcff.jsonl", "--out", "o\udcff"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("autorubric: ")
    assert "Traceback" not in told


def test_a_file_whose_name_is_no_text_is_graded_and_selected_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The manifest says how to go on with the run, and a shell can take the line."""
    monkeypatch.chdir(folder)
    for name in ("essays.json", "final.jsonl"):
        (folder / name).rename(folder / f"\udcff{Path(name).suffix}")
    judge = ("--judge", "builtin/offline", "--out")
    for out, words in (
        ("graded", ("grade", "\udcff.json", *judge, "graded")),
        ("chosen", ("select", "\udcff.jsonl", "--candidates", "candidates.jsonl", *judge, "chosen")),
    ):
        status = run([*words])
        told = capsys.readouterr().out
        # Status 1 where the stand-in's scores keep no answer.
        assert status == (1 if "; 0 answers kept" in told else 0), told
        assert b"\\\\xff.json" in (folder / out / "manifest.json").read_bytes()


def test_debug_shows_the_traceback_and_the_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert (run(["grade", "none.json"]), run(["grade", "none.json", "--debug"])) == (2, 2)
    plain, traceback, debug = capsys.readouterr().err.partition("Traceback (most recent call last)")
    assert traceback and debug.endswith(plain)


def test_a_reader_that_leaves_early_is_no_fault(folder: Path) -> None:
    pipe = subprocess.PIPE
    with WarmProcess(["synthesize", "--help"], cwd=folder, stdout=pipe, stderr=pipe) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert "Traceback" not in running.stderr.read()


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_run_without_standard_streams_is_finished_and_says_nothing_in_a_wrong_place(
    folder: Path, closed: str
) -> None:
    command = f"{PYTHON} -m autorubric grade essays.json --judge builtin/offline --out out {closed}"
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(["bash", "-c", command], cwd=folder, env=surroundings, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert json.loads((folder / "out" / "manifest.json").read_text())["status"] == "completed"


def test_a_wrong_command_without_standard_error_is_refused_by_its_status_alone(folder: Path) -> None:
    wrong = subprocess.run(
        ["bash", "-c", f"{PYTHON} -m autorubric status nowhere 2>&-"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )
    assert (wrong.returncode, wrong.stdout) == (2, b"")
