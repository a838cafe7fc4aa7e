"""`autorubric show`: what was asked about one item, what came back, and what came of it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset, show
from autorubric.cli.app import run
from autorubric.errors import InputError
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.runs.items_file import read_items
from autorubric.testing import LoopbackEndpoint, TokenLimits

STORED = Path(__file__).parents[1] / "stored_runs"
RUNS = {"grade": 7, "grade_panel": 7, "select": 15, "synthesize_basic": 5, "synthesize_full": 5}


@pytest.fixture(params=RUNS)
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a stored run."""
    shutil.copytree(STORED / request.param, tmp_path / request.param)
    return tmp_path / str(request.param) / "run"


def test_every_recorded_call_is_shown_once_with_the_prompt_that_it_answers(stored: Path) -> None:
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    shown = [show(stored, item=str(number)) for number in range(RUNS[stored.parent.name])]
    with ledger_view(stored / "ledger") as view:
        calls = view.sum_spent().calls
        replies = {call.key for found in shown for call in view.read_calls_about(found.id or str(found.index))}
    assert replies
    assert sum(len(found.exchanges) for found in shown) == calls
    assert all(not found.others and not found.notes for found in shown)
    for exchange in (exchange for found in shown for exchange in found.exchanges):
        assert exchange.messages
        assert exchange.reply is not None or exchange.problem is not None
        assert exchange.about
    assert {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()} == before


def test_failed_replies_are_shown_with_what_was_wrong_with_them(tmp_path: Path) -> None:
    shutil.copytree(STORED / "grade", tmp_path / "grade")
    failed, cut_off = show(tmp_path / "grade" / "run", item="e1"), show(tmp_path / "grade" / "run", item="e3")
    unusable, used = failed.exchanges[:2]
    assert (unusable.reply, unusable.problem, unusable.reask) == (
        "I would rather not say.",
        "the reply holds no JSON object",
        0,
    )
    assert (used.problem, used.reask) == (None, 1)
    assert used.messages is not None
    # The second prompt repeats the reply and says why it could not be used.
    assert [message.role for message in used.messages] == ["system", "user", "assistant", "user"]
    assert used.messages[2].content == unusable.reply
    assert all("cut off" in (exchange.problem or "") for exchange in cut_off.exchanges)


def test_a_failed_call_is_shown_although_later_calls_got_a_higher_limit(tmp_path: Path) -> None:
    def refuse_first(body: dict[str, Any]) -> str | None:
        return "422" if "Essay 0." in json.dumps(body) else None

    made = RubricDataset("Explain.", Rubric([Criterion(name="Kind", requirement="Is kind.")]))
    for number in range(3):
        made.add_item(f"Essay {number}.", id=f"e{number}", description="")
    made.to_file(tmp_path / "essays.json")
    out = tmp_path / "run"
    with LoopbackEndpoint(faults=refuse_first, limits=TokenLimits()).in_thread() as endpoint:
        judge = [f"--judge=j@{endpoint.base_url}", "--max-tokens=4", "-j1"]
        assert run(["grade", str(tmp_path / "essays.json"), *judge, "-o", str(out)]) == 1
    with ledger_view(out / "ledger") as view:
        assert view.find_note("reply limits")
    found = show(out, item="e0")
    assert found.others == ()
    assert [(exchange.about, (exchange.problem or "")[:8]) for exchange in found.exchanges] == [("Kind", "rejected")]


def test_the_report_is_the_one_that_the_run_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STORED / "grade_panel", tmp_path / "grade_panel")
    folder = tmp_path / "grade_panel" / "run"
    record = next(one for one in read_items(folder / "items.jsonl") if one["item_idx"] == 1)
    assert run(["show", str(folder), "e1", "--json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert shown["record"] == record
    assert run(["show", str(folder), "e1", "--brief", "--criterion", "Short"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"e1 (number 1 of {folder})"
    assert "UNMET  Short (weight 10)" in lines
    assert "    vllm/lenient: MET: vllm/lenient#1: Read as number 66. | vllm/lenient#2: Read as number 62." in lines
    assert "      vllm/strict#2: UNMET: Read as number 57." in lines
    assert not any("Cause" in line or line.startswith("---") for line in lines)
    in_python = show(folder, item="e1", brief=True, criterion="Short")
    assert repr(in_python).splitlines() == str(in_python).splitlines() == lines


def test_quotes_are_shown_with_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data: dict[str, Any] = {"prompt": "Why?", "rubric": [{"name": "Moon", "requirement": "Mentions the moon."}]}
    data["items"] = [{"submission": "It is the moon.", "description": "", "id": "m"}]
    path = tmp_path / "one.json"
    path.write_text(json.dumps(data), "utf-8")
    command = ["grade", str(path), "--judge", "builtin/offline", "--evidence", "-o", str(tmp_path / "run")]
    assert run(command) == 0
    capsys.readouterr()
    assert run(["show", str(tmp_path / "run"), "m"]) == 0
    out = capsys.readouterr().out
    # "moon" or a longer passage around it, at its place in the submission.
    [quote] = [line for line in out.splitlines() if line.startswith("    quote (characters ")]
    start, end = (int(word) for word in quote.split("characters ")[1].split(")")[0].split(" to "))
    assert "It is the moon."[start:end] == quote.split("): ")[1]


def test_the_lineage_of_criteria_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STORED / "synthesize_full", tmp_path / "full")
    assert run(["show", str(tmp_path / "full" / "run"), "q0", "--brief"]) == 0
    out = capsys.readouterr().out
    assert (
        "kept  m1    9  mentions  F2.\n    merged, by vllm/m-rubric-b, vllm/m-rubric-a, from b1 (kept), a1 (merged)"
        in out
    )
    assert "rejected  e1.2    5  Carries the heading Overview of F6\n    evolved, by vllm/m-augment\n" in out
    assert re.search(r"\n    gate licensed: rejected \(need none; .*\): Nothing asks for it\.\n", out)
    assert "gate agreement: kept (split 0.23, passes < 0.5; " in out
    final = tmp_path / "full" / "run" / "final_full.jsonl"
    dropped = '"evolved_dropped": [{"id": "e1.9", "description": "Is long.", "reason": "No room is left."}]'
    final.write_text(final.read_text("utf-8").replace('"evolved_dropped": []', dropped), "utf-8")
    assert run(["show", str(tmp_path / "full" / "run"), "q0", "--brief"]) == 0
    assert "\ndropped  e1.9  Is long.: No room is left.\n" in capsys.readouterr().out
    assert run(["show", str(tmp_path / "full" / "run"), "q0", "--brief", "--criterion", "m1"]) == 0
    assert "dropped" not in capsys.readouterr().out


def test_what_cannot_be_shown_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STORED / "grade", tmp_path / "grade")
    folder = tmp_path / "grade" / "run"
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["grader_config"]["templates"]["binary"] = "0123456789ab"
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    assert show(folder, item="e0").notes == (
        "the templates have changed since the run, so its prompts cannot be rebuilt",
    )
    shutil.rmtree(folder / "ledger")
    ledger = folder / "ledger" / "ledger.sqlite"
    assert show(folder, item="e0").notes == (f"raw replies cannot be shown: Ledger not found: {ledger}",)
    for arguments, told in (
        ([str(folder), "e9"], "the run has no item 'e9'; it has 7 items, such as e0, e1"),
        (
            [str(folder), "e0", "--criterion", "Tone"],
            "--criterion 'Tone': the item has no such criterion; it has Cause",
        ),
        ([str(tmp_path / "none"), "e0"], "does not exist"),
    ):
        assert run(["show", *arguments]) == 2
        assert told in capsys.readouterr().err
    with pytest.raises(InputError, match="no item"):
        show(folder, item="e9")
