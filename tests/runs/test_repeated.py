import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, DataItem, Rubric, RubricDataset, grade, status, synthesize
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.llm.request import Failure, Reply
from autorubric.runs.changes import FinishedRun
from autorubric.testing import LoopbackEndpoint
from tests.offenders import offenders

CAUSE = Criterion(name="cause", weight=1, requirement="Names the cause.")
ANSWERS = ["Ice is less dense.", "It is frozen.", "Ice floats."]


def call(key: bytes, outcome: Reply | Failure) -> CallRow:
    return CallRow(key * 16, "q1", "judge", "local/tiny", 0, 0, outcome)


def record(row: CallRow) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with Ledger.open(folder) as ledger:
            asyncio.run(ledger.record(row))

    return change


def damage(folder: Path) -> None:
    with closing(sqlite3.connect(folder / LEDGER_FILE)) as connection:
        connection.execute("UPDATE payloads SET data = zeroblob(9) WHERE id = 1")
        connection.commit()


def test_a_run_is_finished_only_while_its_settings_files_and_replies_are_what_they_were(tmp_path: Path) -> None:
    def found(name: str, change: Callable[[Path], None], made_of: Any) -> Any:
        folder = tmp_path / name
        folder.mkdir()
        files = (folder / "rows.jsonl", folder / "none.jsonl")
        files[0].write_text("{}\n")
        record(call(b"a", Reply("MET")))(folder)
        with Ledger.open(folder) as ledger:
            assert FinishedRun(ledger, {"seed": 1, "judge": "a"}, files).find() is None
            FinishedRun(ledger, {"seed": 1, "judge": "a"}, files).keep({"rows": 1})
        change(folder)
        with Ledger.open(folder) as ledger:
            return FinishedRun(ledger, made_of, files).find()

    same = {"judge": "a", "seed": 1}
    cases: dict[str, tuple[Callable[[Path], Any], Any, Any]] = {
        "nothing": (lambda folder: None, same, {"rows": 1}),
        "setting": (lambda folder: None, {**same, "seed": 2}, None),
        "file edited": (lambda folder: (folder / "rows.jsonl").write_text("{ }\n"), same, None),
        "file lost": (lambda folder: (folder / "rows.jsonl").unlink(), same, None),
        "empty file made": (lambda folder: (folder / "none.jsonl").touch(), same, None),
        "another reply": (record(call(b"b", Reply("MET"))), same, None),
        "another failure": (record(call(b"b", Failure("timeout", "no answer"))), same, None),
        "reply damaged": (damage, same, None),
        "ledger lost": (lambda folder: (folder / LEDGER_FILE).unlink(), same, None),
    }
    with offenders() as case:
        for name, (change, made_of, expected) in cases.items():
            with case(name):
                assert found(name, change, made_of) == expected


def test_a_graded_run_again_sends_nothing_and_restores_an_edited_line(tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    with LoopbackEndpoint().in_thread() as endpoint:
        settings = {
            "rubric": Rubric([CAUSE]),
            "judge": f"judge@{endpoint.base_url}",
            "out": tmp_path,
            "progress": None,
        }
        first = grade(ANSWERS, **settings)
        lines = items.read_bytes()
        for content in (lines, lines.replace(b'"score":1.0', b'"score":0.5'), b""):
            items.write_bytes(content)
            again = grade(ANSWERS, **settings)
            assert items.read_bytes() == lines or not content  # an empty file has lost the durations
            assert again.get_scores() == first.get_scores()
            assert [one.report for one in again.item_results] == [one.report for one in first.item_results]
            assert (again.successful_items, again.total_token_usage) == (3, first.total_token_usage)
        assert endpoint.counts.requests == len(ANSWERS)
        more = grade([*ANSWERS, "Because it is light."], **settings)
        assert endpoint.counts.requests == len(ANSWERS) + 1
    assert more.successful_items == 4


def test_judgments_that_failed_are_requested_again_although_every_item_has_a_report(tmp_path: Path) -> None:
    def brief(body: Any) -> str | None:
        return "content-filter" if "Is brief" in str(body["messages"]) else None

    rubric = Rubric([CAUSE, Criterion(name="brief", weight=1, requirement="Is brief.")])
    with LoopbackEndpoint(faults=brief).in_thread() as endpoint:
        settings = {"judge": f"judge@{endpoint.base_url}", "on_failure": "skip", "rubric": rubric, "progress": None}
        assert grade(ANSWERS, **settings, out=tmp_path).successful_items == len(ANSWERS)
        sent = endpoint.counts.requests
        assert grade(ANSWERS, **settings, out=tmp_path).successful_items == len(ANSWERS)
        assert endpoint.counts.requests >= sent + len(ANSWERS)
        assert status(tmp_path).state == "unfinished"


@pytest.mark.usefixtures("forked")
@pytest.mark.filterwarnings("ignore:the files of the earlier run")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_finished_run_requests_missing_votes_only_for_a_higher_quorum(tmp_path: Path, processes: int) -> None:
    def mute(body: Any) -> str | None:
        return "content-filter" if body["model"] == "mute" else None

    data, out, sent = tmp_path / "data.json", tmp_path / "run", []
    RubricDataset("Why?", Rubric([CAUSE]), [DataItem(text, text) for text in ANSWERS]).to_file(data)
    with LoopbackEndpoint(faults=mute).in_thread() as endpoint:
        judges = [f"{name}@{endpoint.base_url}" for name in ("a", "b", "mute")]
        for quorum, graded in ((2, 3), (2, 3), (3, 0)):
            more = {"quorum": quorum, "replace": quorum == 3, "processes": processes}
            summary = grade(data, judge=judges, out=out, progress=None, **more).summary
            assert summary is not None and summary.graded == graded
            votes = [(group.where, group.kind, group.count) for group in summary.lost_votes]
            assert votes == ([("mute", "refusal", len(ANSWERS))] if graded else [])
            told = status(out)
            assert told.state == ("completed" if graded else "unfinished")
            assert [(group.where, group.kind, group.count) for group in told.row_counts.lost_votes] == votes
            assert not (graded and told.unanswered)
            sent.append(endpoint.counts.requests)
    assert sent[0] == sent[1] == 3 * len(ANSWERS)
    assert sent[2] == sent[1] + len(ANSWERS)


def test_a_run_that_stopped_early_is_unfinished_although_every_item_has_a_report(tmp_path: Path) -> None:
    """As when a judge of a panel without any usable reply ends the run, and the quorum holds without it."""
    with LoopbackEndpoint().in_thread() as endpoint:
        grade(ANSWERS, rubric=Rubric([CAUSE]), judge=f"a@{endpoint.base_url}", out=tmp_path, progress=None)
    path = tmp_path / "manifest.json"
    assert status(tmp_path).state == "completed"
    stopped = "mute: the first 8 judge requests ended without a usable reply"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"error": stopped}))
    told = status(tmp_path)
    assert (told.state, told.stopped) == ("unfinished", stopped)


@pytest.mark.parametrize("step_files", ["full", "none"])
def test_a_synthesis_again_sends_nothing_counts_the_same_and_restores_its_files(
    tmp_path: Path, step_files: str
) -> None:
    source, out = tmp_path / "queries.jsonl", tmp_path / "out"
    source.write_text('{"question": "Why does ice float?"}\n{"question": "Why is it cold?", "reference": "Ice."}\n')
    with LoopbackEndpoint().in_thread() as endpoint:
        settings = {"models": f"m@{endpoint.base_url}", "out": out, "step_files": step_files, "progress": None}
        first = synthesize(source, **settings)
        files = {
            path.name: path.read_bytes() for path in out.glob("*.*") if "step" in path.name or "final" in path.name
        }
        requests = endpoint.counts.requests
        for edited in (None, *files):
            if edited is not None:
                (out / edited).write_bytes(files[edited][:-9])
            again = synthesize(source, **settings)
            assert {name: (out / name).read_bytes() for name in files} == files
            assert again.summary is not None and first.summary is not None
            counts = [
                {
                    name: value
                    for name, value in one.as_dict().items()
                    if name not in ("seconds", "calls_this_session")
                }
                for one in (again.summary, first.summary)
            ]
            assert counts[0] == counts[1]
            assert again.summary.totals == first.summary.totals
        assert endpoint.counts.requests == requests


def test_a_failure_of_a_request_that_was_answered_under_a_higher_limit_is_not_reported(tmp_path: Path) -> None:
    def fault(body: Any) -> str | None:
        is_first = (body.get("max_tokens") or body.get("max_completion_tokens")) == 2048
        return ("503" if "Ice is less dense." in str(body["messages"]) else "length") if is_first else None

    with LoopbackEndpoint(faults=fault).in_thread() as endpoint:
        settings = {"judge": f"judge@{endpoint.base_url}", "rubric": Rubric([CAUSE]), "retry": 0}
        told = []
        for texts in (ANSWERS[:1], ANSWERS[:2], ANSWERS[:2]):
            grade(texts, **settings, concurrency=1, out=tmp_path, progress=None)
            told.append((status(tmp_path).state, dict(status(tmp_path).failures)))
    assert told == [("unfinished", {"server": 1}), ("unfinished", {"server": 1}), ("completed", {})]
