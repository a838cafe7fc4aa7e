"""`--replace`: another run under the same `-o` is refused, then takes the place of the old one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.testing import LoopbackEndpoint

RUBRIC = [{"name": "Kind", "requirement": "Is kind."}, {"name": "Moon", "requirement": "Mentions the moon."}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with inputs, as the current directory."""
    monkeypatch.chdir(tmp_path)
    for name, texts in (("one", ["The moon.", "Dear me."]), ("two", ["The moon!", "Dear me."])):
        items = [{"submission": text, "description": "", "id": f"e{n}"} for n, text in enumerate(texts)]
        Path(f"{name}.json").write_text(
            json.dumps({"prompt": "Explain tides.", "rubric": RUBRIC, "items": items}), "utf-8"
        )
    for name, questions in (("q", ["Why?", "How?"]), ("r", ["Who?"]), ("s", ["Why?", "How?", "When?"])):
        rows = ({"id": question[:-1], "question": question} for question in questions)
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def calls(out: str) -> int:
    with ledger_view(Path(out) / "ledger") as view:
        return view.sum_spent().calls


GRADE = "grade one.json --judge builtin/offline -o run"
SYNTHESIZE = "synthesize q.jsonl --models builtin/offline --id-column id -o run"
CASES: dict[str, tuple[str, str, str]] = {
    "another dataset": (
        GRADE,
        "grade two.json --judge builtin/offline -o run",
        "'The moon.' before, now 'The moon!'",
    ),
    "another scale": (GRADE, f"{GRADE} --cannot-assess zero", "cannot_assess.strategy: skip before, now zero"),
    "other queries": (
        SYNTHESIZE,
        SYNTHESIZE.replace("q.jsonl", "r.jsonl"),
        "the input has none of the queries in the directory, such as",
    ),
    "another kind of run": (SYNTHESIZE, GRADE, "kind of run: synthesis before, now evaluation"),
    "another graded run": (
        "select one -o run --threshold 0",
        "select two -o run --threshold 0",
        "graded_run: ",
    ),
}


def prepared(name: str, first: str) -> None:
    if name == "another graded run":
        for data in ("one", "two"):
            assert run(["grade", f"{data}.json", "--judge", "builtin/offline", "-o", data]) == 0
    assert run(first.split()) == 0


@pytest.mark.parametrize("name", CASES)
def test_another_run_is_refused_and_replaced(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, told = CASES[name]
    prepared(name, first)
    before = {
        path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file() and "ledger" not in str(path)
    }
    capsys.readouterr()
    assert run(second.split()) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "Pass another --out, or --replace (in Python: replace=True)" in err
    assert {path: path.read_bytes() for path in before} == before
    assert run([*second.split(), "--replace"]) == 0
    assert "the files of the earlier run in run are now in run/replaced-1" in capsys.readouterr().err
    kept = {path.relative_to("run"): content for path, content in before.items() if path.name != "spent.json"}
    assert {path: (Path("run/replaced-1") / path).read_bytes() for path in kept} == kept
    # The old run takes its place again without a call.
    paid = calls("run") if name != "another graded run" else 0
    assert run([*first.split(), "--replace"]) == 0
    if paid:
        assert calls("run") == paid
    assert run(first.split()) == 0


@pytest.mark.parametrize("name", [name for name, (_, second, _) in CASES.items() if not second.startswith("select")])
def test_a_dry_run_tells_of_another_run_and_changes_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, change = CASES[name]
    assert run(first.split()) == 0
    before = sorted(path.stat().st_mtime_ns for path in Path("run").iterdir() if path.is_file())
    capsys.readouterr()
    assert run([*second.split(), "--dry-run"]) == 0
    told = capsys.readouterr().err
    assert "run contains another run (" in told and change in told and "--replace" in told
    assert run([*first.split(), "--dry-run"]) == 0
    assert "another run" not in capsys.readouterr().err
    assert sorted(path.stat().st_mtime_ns for path in Path("run").iterdir() if path.is_file()) == before


def test_more_rows_and_other_selections_are_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SYNTHESIZE.split()) == 0
    for command in (
        SYNTHESIZE.replace("q.jsonl", "s.jsonl"),
        f"{SYNTHESIZE} --limit 1",
        f"{SYNTHESIZE} --max-criteria 1",
        f"{SYNTHESIZE} --until merge",
        SYNTHESIZE.replace("q.jsonl", "s.jsonl"),
        f"{SYNTHESIZE} --temperature 0.9",
    ):
        assert run(command.split()) == 0, capsys.readouterr().err
    assert run(["grade", "one.json", "--judge", "builtin/offline", "-o", "graded", "--limit", "1"]) == 0
    assert run(["grade", "one.json", "--judge", "builtin/offline", "-o", "graded", "-f", "csv"]) == 0
    for threshold in ("0", "0.4"):
        assert run(["select", "graded", "-o", "kept", "--threshold", threshold]) == 0


def test_a_run_without_a_result_does_not_hold_its_directory(capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackEndpoint(faults=["500"] * 40).in_thread() as endpoint:
        wrong = f"grade one.json --judge wrong@{endpoint.base_url} --retry 0 -o run"
        assert run(wrong.split()) == 1
    assert run(["grade", "two.json", "--judge", "builtin/offline", "-o", "run"]) == 0, capsys.readouterr().err
    graded = [json.loads(line) for line in Path("run/items.jsonl").read_text("utf-8").splitlines()]
    assert [row["error"] for row in graded] == [None] * len(graded)
    texts = {item["submission"] for item in json.loads(Path("run/dataset.json").read_text("utf-8"))["items"]}
    assert "The moon!" in texts


def test_tables_of_an_earlier_session_follow_the_results() -> None:
    assert run(["grade", "one.json", "--judge", "builtin/offline", "-o", "graded", "--limit", "1", "-f", "csv"]) == 0
    assert run(["grade", "one.json", "--judge", "builtin/offline", "-o", "graded"]) == 0
    assert len(Path("graded/results.csv").read_text("utf-8").splitlines()) == 1 + 2 * len(RUBRIC)


def test_the_command_that_resumes_a_run_does_not_replace_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(GRADE.split()) == 0
    assert run(["grade", "two.json", "--judge", "builtin/offline", "-o", "run", "--replace"]) == 0
    manifest: dict[str, Any] = json.loads(Path("run/manifest.json").read_text("utf-8"))
    assert manifest["eval_config"]["again"].endswith("grade two.json --judge builtin/offline -o run")


def test_in_python_replace_is_a_parameter(folder: Path) -> None:
    from autorubric import InputError, grade, synthesize

    jobs: tuple[tuple[Callable[..., Any], dict[str, Any], Any, Any], ...] = (
        (grade, {"judge": "builtin/offline", "out": "g"}, "one.json", "two.json"),
        (synthesize, {"models": "builtin/offline", "out": "s"}, ["Why?"], ["Who?"]),
    )
    for function, settings, first, second in jobs:
        function(first, **settings)
        with pytest.raises(InputError, match="contains another run"):
            function(second, **settings)
        with pytest.warns(UserWarning, match="are now in"):
            function(second, **settings, replace=True)
