"""Formats that an installed package registers as entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.offenders import offenders
from tests.processes import finish_with_packages

ROOT = Path(__file__).parents[2]
EXAM = """
from autorubric import Criterion
from autorubric.formats import Format, Record

def matches(row):
    return "exam_question" in row

def read(row):
    points = [Criterion(requirement=text, weight=weight) for text, weight in row["points"].items()]
    return Record(tuple(points), row["exam_question"])

def write(record):
    points = {criterion.requirement: criterion.weight for criterion in record.criteria}
    return {"exam_question": record.prompt, "points": points}

EXAM = Format("exam", "Exam questions with points", (".jsonl", ".json"), matches, read, write)
"""
ROW = {"question": "Why?", "id": "q1", "rubrics": [{"criterion": "Says why.", "points": 5}]}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory of installed packages, one of which registers the format `exam`."""
    folder = tmp_path / "site"
    info = folder / "exam_files-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: exam-files\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[autorubric.formats]\nexam = exam_files:EXAM\n", encoding="utf-8")
    (folder / "exam_files.py").write_text(EXAM, encoding="utf-8")
    return folder


def convert(site: Path, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """What the commands print one after the other, up to one that fails, where the package is installed."""
    path = os.pathsep.join([str(site), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"}
    code = (
        "import json, sys; from autorubric.cli.app import run\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    if status := run(['convert', *words]): sys.exit(status)\n"
        "    print('end of a command', flush=True)"
    )
    command = [sys.executable, "-c", code, json.dumps(commands)]
    return subprocess.run(command, cwd=site.parent, env=environment, capture_output=True, text=True, check=False)


def test_a_format_of_an_installed_package_is_listed_written_detected_and_read(site: Path) -> None:
    (site.parent / "final.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    done = convert(
        site,
        ["--list"],
        ["--help"],
        ["final.jsonl", "exam.jsonl", "--to", "exam"],
        ["exam.jsonl", "back.jsonl", "--to", "rubrichub"],
    )
    assert done.returncode == 0, done.stderr
    listed, told, _, back, _ = done.stdout.split("end of a command\n")
    assert "exam           Exam questions with points (.jsonl, .json)" in listed.splitlines()
    assert "Format of OUT; --list shows the formats." in " ".join(told.replace("│", " ").split())
    written = json.loads((site.parent / "exam.jsonl").read_text(encoding="utf-8"))
    assert written == {"exam_question": "Why?", "points": {"Says why.": 5.0}, "autorubric": '{"id": "q1"}'}
    assert back.splitlines()[0] == "read 1 record with 1 criterion from exam; written to back.jsonl as rubrichub"
    assert json.loads((site.parent / "back.jsonl").read_text(encoding="utf-8")) == ROW


def test_a_format_that_cannot_be_used_is_refused_before_anything_is_written(site: Path) -> None:
    (site.parent / "final.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    where = "entry point 'exam' in group 'autorubric.formats'"
    cases = [
        (EXAM, "exams", "unknown format 'exams'; did you mean 'exam'?"),
        ("import nowhere", "exam", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("EXAM = 3", "exam", f"{where} is a int; expected an autorubric.formats.Format"),
        (
            EXAM.replace('"exam", "Exam', '"test", "Exam'),
            "exam",
            f"{where} is the format 'test'; give the entry point",
        ),
    ]
    with offenders() as case:
        for source, name, message in cases:
            with case(message):
                (site / "exam_files.py").write_text(source, encoding="utf-8")
                words = ["convert", "final.jsonl", "out.jsonl", "--to", name]
                done = finish_with_packages(site, words, site.parent, {**os.environ, "COLUMNS": "200"})
                assert (done.returncode, done.stdout) == (2, "")
                assert message in done.stderr
                assert not (site.parent / "out.jsonl").exists()
