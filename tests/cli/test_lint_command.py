"""`autorubric lint`, as users type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.linting import RULES

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Line 1 breaks a rule of each severity, line 2 none."""
    good = ["Names the year of the strike.", "Names the leader of the strike.", "Names the outcome of the vote."]
    bad = [*good[:2], "Uses an appropriate tone throughout."]
    path = tmp_path / "final.jsonl"
    path.write_text(
        json.dumps({"question": "Why?", "id": "q1", "rubrics": [{"criterion": text, "points": 5} for text in bad]})
        + "\n"
        + json.dumps(
            {
                "question": "Why?",
                "id": "q2",
                "rubrics": [{"criterion": t, "points": n} for n, t in enumerate(good, 4)],
            }
        )
        + "\n"
    )
    return path


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--fail-on", "note"], 100),
        (["--fail-on", "warning"], 100),
        ([], 0),
        (["--fail-on", "error"], 0),
        (["--fail-on", "never"], 0),
        (["--fail-on", "warning", "--ignore", "vague-words"], 0),
        (["--fail-on", "warning", "--select", "equal-weights"], 0),
        (["--fail-on", "note", "--select", "length,duplicate"], 0),
    ],
)
def test_the_status_says_whether_a_finding_is_as_grave_as_asked(rows: Path, words: list[str], status: int) -> None:
    assert run(["lint", str(rows), *words]) == status


def test_text_names_file_row_criterion_and_rule(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["lint", str(rows)])
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith(f"{rows}:1: note: all 3 criteria have weight 5. ")
    assert second.startswith(f"{rows}:1: criterion 3 (Uses an appropriate tone throughout.): warning: 'appropriate' ")
    assert second.endswith("[vague-words]")
    assert err.splitlines()[0] == "6 criteria in 2 rubrics: 0 errors, 1 warning, 1 note"
    assert "another language" not in err
    rows.write_text("- 성인의 하루 최대 복용량이 4그램이라고 명시한다.\n", "utf-8")
    run(["lint", str(rows.rename(rows.with_suffix(".yaml")))])
    known = "the wording rules support only English and Chinese"
    assert capsys.readouterr().err.splitlines()[-1] == f"note: 1 rubric in another language; {known}"


def test_json_holds_every_field_of_a_finding(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["lint", str(rows), "--format", "json", "--select", "vague-words"])
    [found] = json.loads(capsys.readouterr().out)
    assert {key: found[key] for key in ("file", "row", "record", "criterion", "rule", "severity")} == {
        "file": str(rows),
        "row": 1,
        "record": "q1",
        "criterion": 3,
        "rule": "vague-words",
        "severity": "warning",
    }
    assert found["message"]
    assert found["suggestion"]


def test_json_of_no_findings_is_an_empty_list(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["lint", str(rows), "--format", "json", "--select", "duplicate"])
    assert json.loads(capsys.readouterr().out) == []


def sarif_problems(log: dict[str, Any]) -> list[str]:
    """What SARIF 2.1.0 requires (sections 3.13 to 3.28) and the log does not have."""
    found = [] if log.get("version") == "2.1.0" and log.get("$schema", "").endswith(".json") else ["head"]
    for one in log["runs"]:
        driver = one["tool"]["driver"]
        ids = [rule["id"] for rule in driver["rules"]]
        found += [] if driver["name"] and len(set(ids)) == len(ids) else ["driver"]
        for rule in driver["rules"]:
            known = rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
            found += [] if known and rule["shortDescription"]["text"].endswith(".") else [rule["id"]]
        for result in one["results"]:
            place = result["locations"][0]["physicalLocation"]
            region = place.get("region", {"startLine": 1})
            right = (
                ids[result["ruleIndex"]] == result["ruleId"]
                and result["level"] in ("none", "note", "warning", "error")
                and result["message"]["text"]
                and " " not in place["artifactLocation"]["uri"]
                and region["startLine"] >= 1
            )
            found += [] if right else [json.dumps(result)]
    return found


def test_sarif_has_the_structure_that_its_standard_requires(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spaced = tmp_path / "a rubric.json"
    spaced.write_text('[{"requirement": "„Gut“ \\u4f60\\u597d is good.", "weight": -2}]')
    run(["lint", str(rows), str(spaced), "--format", "sarif"])
    log = json.loads(capsys.readouterr().out)
    assert sarif_problems(log) == []
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == [rule.id for rule in RULES]
    results = log["runs"][0]["results"]
    assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}
    assert results[-1]["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_the_structure_test_of_sarif_can_fail() -> None:
    log = {
        "version": "2.1.0",
        "$schema": "x.json",
        "runs": [{"tool": {"driver": {"name": "a", "rules": []}}, "results": []}],
    }
    assert sarif_problems(log) == []
    assert sarif_problems({**log, "version": "2.0"}) == ["head"]


def test_the_rules_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "--list-rules"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [rule.id for rule in RULES]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no input file"),
        (["x.yaml", "--format", "xml"], "--format is 'xml'; expected one of text, json, sarif"),
        (["x.yaml", "--fail-on", "fatal"], "--fail-on is 'fatal'; expected one of error, warning, note, never"),
        (["x.yaml", "--select", "lenght"], "did you mean 'length'?"),
        (["x.yaml", "--select", "length", "--ignore", "length"], "no rule is left"),
        (["x.yaml"], "File not found: x.yaml"),
    ],
)
def test_wrong_input_is_status_two_with_one_message(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lint", *words]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_what_cannot_be_read_does_not_hide_the_other_files(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("- requirement: [")
    assert run(["lint", str(broken), str(rows)]) == 2
    out, err = capsys.readouterr()
    assert "vague-words" in out
    assert "broken.yaml" in err


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    row = json.dumps({"question": "Why?", "id": "q1", "rubrics": [{"criterion": "Is helpful.", "points": 5}]})
    path = tmp_path / "final.jsonl"
    path.write_text(f"{row}\n" * 5000)
    command = [sys.executable, "-m", "autorubric", "lint", str(path), "--fail-on", "never"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        assert started.stdout.readline()
        started.stdout.close()
        assert started.stderr.read() == b""
        assert started.wait() == 0
