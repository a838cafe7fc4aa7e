"""What a later session of an improvement may change, and which criteria a session works on."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.faults import Fault
from tests.improvement.essays import BETTER, answers, endpoint, files, models, record, section, wordings

Capture = pytest.CaptureFixture[str]
BRINGS = wordings(BETTER, "Explains the tides in depth.")
MADE = ("rubric.json", "original.json", "report.html")


def judgments(near: LoopbackEndpoint) -> list[str]:
    return [json.dumps(one.body) for one in near.received if one.body["model"] == "judge"]


def proposing(folder: Path, near: LoopbackEndpoint) -> list[str]:
    """A command that tests one proposal, on one criterion, without a writer."""
    path = folder / "p.json"
    path.write_text(json.dumps([{"criterion": "Kind", "requirement": "Calls the reader dear."}]))
    judge = ["--judge", f"judge@{near.base_url}"]
    return [*files(folder, answers(60)), *judge, "--proposals", str(path), "--most-criteria", "1"]


@pytest.mark.parametrize("fails", [True, False])
def test_a_writer_that_brought_nothing_may_be_exchanged(tmp_path: Path, capsys: Capture, fails: bool) -> None:
    def dead(body: dict[str, Any]) -> Fault | None:
        return Fault("broken", status=500) if fails and body["model"] == "writer" else None

    replies = iter(["{}"] * 9 if not fails else [BRINGS])
    with endpoint(written=lambda _: next(replies, BRINGS), faults=dead).in_thread() as near:
        words = [*files(tmp_path, answers(60)), "--judge", f"judge@{near.base_url}", "--retry", "0"]
        assert run([*words, "--writer", f"writer@{near.base_url}"]) == 1
        first = judgments(near)
        replies = iter(())
        assert run([*words, "--writer", f"writer2@{near.base_url}"]) == 0
        later = judgments(near)[len(first) :]
        assert later and not set(first) & set(later)
        capsys.readouterr()
        asked = near.counts.requests
        assert run([*words, "--writer", f"writer3@{near.base_url}"]) == 2
        assert near.counts.requests == asked
    assert "writer: writer2@" in capsys.readouterr().err
    assert record(tmp_path)["writer"] == "writer2"


def test_without_a_writer_the_criteria_with_proposals_are_worked_on_and_the_others_cost_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    with endpoint().in_thread() as near:
        words = proposing(tmp_path, near)
        assert run([*words, "--criterion", "Tides"]) == 2
        assert "no proposal is for Tides" in capsys.readouterr().err
        assert run(words) == 0
        asked = {section(one.body["messages"][-1]["content"], "criterion") for one in near.received}
    assert asked == {"Is kind.", "Calls the reader dear."}
    assert [one["name"] for one in record(tmp_path)["tried"]] == ["Kind/0.1"]


def test_a_damaged_record_of_a_finished_run_is_named_and_nothing_is_requested(
    tmp_path: Path, capsys: Capture
) -> None:
    with endpoint().in_thread() as near:
        words = proposing(tmp_path, near)
        assert run(words) == 0
        asked, whole = near.counts.requests, record(tmp_path)
        [path] = tmp_path.rglob("improvement.json")
        for damaged in (
            {},
            {**whole, "tests": 5},
            {**whole, "weights": {"accepted": True}},
            {**whole, "tests": [{}]},
        ):
            path.write_text(json.dumps(damaged))
            assert run(words) == 2, damaged
            assert f"{path}: damaged (" in capsys.readouterr().err
        assert near.counts.requests == asked


def test_damaged_files_of_a_finished_run_are_written_again_without_a_request(tmp_path: Path) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        writer = ["--judge", f"judge@{near.base_url}", "--writer", f"writer@{near.base_url}"]
        words = [*files(tmp_path, answers(60), only="Tides"), *writer]
        assert run(words) == 0
        asked, paths = near.counts.requests, [tmp_path / "out" / name for name in MADE]
        whole = [path.read_bytes() for path in paths]
        assert run(words) == 0
        assert [path.read_bytes() for path in paths] == whole
        for path in paths:
            path.write_bytes(path.read_bytes().replace(b"moon", b"noon")[:-40])
        assert run(words) == 0
        assert [path.read_bytes() for path in paths] == whole
        assert near.counts.requests == asked


def test_a_damaged_log_is_named_and_does_not_bring_back_what_was_undone(tmp_path: Path, capsys: Capture) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        writer = ["--judge", f"judge@{near.base_url}", "--writer", f"writer@{near.base_url}"]
        words = [*files(tmp_path, answers(60), only="Tides"), *writer]
        assert run(words) == 0
    out = tmp_path / "out"
    assert run(["improve", str(out / "rubric.json"), "--undo", "Tides", "-o", str(out)]) == 0
    undone = (out / "rubric.json").read_bytes()
    log = (out / "log.jsonl").read_text()
    (out / "log.jsonl").write_text(log.replace('"criteria"', '"criteri'))
    assert run(words) == 2
    assert f"{out / 'log.jsonl'}: damaged (" in capsys.readouterr().err
    (out / "log.jsonl").unlink()
    assert run(words) == 0
    assert (out / "rubric.json").read_bytes() == undone


def test_the_error_of_the_score_is_shown_as_an_error(tmp_path: Path, capsys: Capture) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        words = [*files(tmp_path, answers(240)), "--judge", f"judge@{near.base_url}", "--measure", "score_error"]
        assert run([*words, "--writer", f"writer@{near.base_url}"]) == 0
    [test] = record(tmp_path)["tests"]
    # Tides is 4 of 14 points, and wrong on two items in five under the original.
    assert test["before"] == pytest.approx(0.4 * 4 / 14, abs=0.02)
    assert test["after"] == 0
    assert test["difference"] == pytest.approx(test["before"])
    assert "score_error 0.1" in capsys.readouterr().out


def test_a_wording_on_which_the_judge_gives_no_verdict_loses_and_the_others_are_tested(
    tmp_path: Path, capsys: Capture
) -> None:
    mute = "Says in one word who pulls."

    def prose(body: dict[str, Any]) -> str | None:
        shown = section("\n".join(one["content"] for one in body["messages"]), "criterion")
        few = BETTER in shown and "Answer 8," in str(body)
        return "prose" if body["model"] == "judge" and (mute in shown or few) else None

    with endpoint(written=wordings(mute, BETTER), faults=prose).in_thread() as near:
        words = [*files(tmp_path, answers(60)), "--judge", f"judge@{near.base_url}"]
        assert run([*words, "--writer", f"writer@{near.base_url}", "--criterion", "Tides"]) == 0
    told = capsys.readouterr().out
    [test] = record(tmp_path)["tests"]
    assert (test["requirements"], test["accepted"], test["failed"]) == ([BETTER], True, 1)
    assert "1 judgment of the new wording failed and counted as wrong" in told


@pytest.mark.parametrize("stored", [False, True])
def test_labels_may_be_those_of_a_run_directory(tmp_path: Path, stored: bool) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        judge = ["--judge", f"judge@{near.base_url}"]
        words = [*files(tmp_path, answers(60)), *judge, "--writer", f"writer@{near.base_url}"]
        place = words.index("--labels") + 1
        dataset, graded = Path(words[place]), tmp_path / "graded"
        held = json.loads(dataset.read_text("utf-8"))
        rows = ["id,criterion,label"]
        for item in held["items"] if stored else ():  # the labels are in the label store alone
            names = [one["name"] for one in held["rubric"]]
            rows += (
                f"{item['id']},{name},{label}" for name, label in zip(names, item.pop("ground_truth"), strict=True)
            )
        dataset.write_text(json.dumps(held), "utf-8")
        assert run(["grade", str(dataset), *judge, "-o", str(graded)]) == 0
        if stored:
            (tmp_path / "labels.csv").write_text("\n".join(rows), "utf-8")
            assert run(["labels", str(graded), "--import", str(tmp_path / "labels.csv"), "--annotator", "ana"]) == 0
        words[place] = str(graded)
        assert run(words) == 0
        assert "Tides" in json.dumps(record(tmp_path)["tried"])
        # The record is next to the run: items that decided do not decide again in another directory.
        assert (tmp_path / "graded.used.jsonl").stat().st_size > 0
        asked = near.counts.requests
        words[words.index(str(tmp_path / "out"))] = str(tmp_path / "other")
        assert run(words) == 2
        assert near.counts.requests == asked


def test_the_items_of_a_folder_decide_once_and_a_note_says_where_a_pipe_is_recorded(
    tmp_path: Path, capsys: Capture
) -> None:
    rows = [
        {"submission": one.submission, "prompt": "How do tides arise?", "ground_truth": one.ground_truth}
        for one in answers(60)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with endpoint(written=BRINGS).in_thread() as near:
        words = [*files(tmp_path, answers(60), only="Tides"), *models(near.base_url)]
        place, out = words.index(str(tmp_path / "labels.json")), words.index(str(tmp_path / "out"))
        (tmp_path / "labels").mkdir()
        (tmp_path / "labels" / "train.jsonl").write_text(text)
        words[place] = str(tmp_path / "labels")
        assert run(words) == 0
        words[out] = str(tmp_path / "other")
        assert run(words) == 2
        assert "cannot decide" in capsys.readouterr().err
        os.mkfifo(pipe := tmp_path / "pipe")
        words[place] = str(pipe)
        with ThreadPoolExecutor() as pool:
            pool.submit(pipe.write_text, text)
            assert run([*words, "--dry-run"]) == 0
    assert "other/used.jsonl; pass the same --used FILE" in capsys.readouterr().err
