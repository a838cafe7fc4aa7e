"""`autorubric status`, of runs that work, ended, failed and died."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset, status
from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint
from autorubric.view.sources import find_runs
from tests.cli.in_process import NearEndpoint
from tests.processes import start, wait_until

ROOT = Path(__file__).parents[2]


def essays(folder: Path, items: int) -> Path:
    made = RubricDataset("Explain.", Rubric([Criterion(requirement="Is kind."), Criterion(requirement="Is right.")]))
    for number in range(items):
        made.add_item(f"Essay {number}.", id=f"e{number}", description="")
    made.to_file(folder / "essays.json")
    return folder / "essays.json"


def told(out: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["status", str(out), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def until_asked(endpoint: NearEndpoint, count: int) -> None:
    wait_until(lambda: endpoint.stats()["completed_calls"] >= count, "the endpoint was not asked")


def test_a_finished_grading_run_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        assert run(["grade", str(essays(tmp_path, 3)), "--judge", f"j@{endpoint.base_url}", "-o", str(tmp_path)]) == 0
    found = told(tmp_path, capsys)
    assert (found["kind"], found["state"], found["failures"]) == ("evaluation", "completed", {})
    assert (found["row_counts"]["rows"], found["row_counts"]["done"], found["row_counts"]["failed"]) == (3, 3, 0)
    assert found["spent"]["calls"] == 6
    assert run(["status", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "done       3 of 3 rows (100%), 0 failed, 0 left" in text
    assert "next       nothing; the run is complete" in text
    lines = [line for line in text.splitlines() if not line.startswith("  pace")]
    assert [line for line in repr(status(tmp_path)).splitlines() if not line.startswith("  pace")] == lines


def test_failures_are_told_by_their_kind_with_the_command_that_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_second(body: dict[str, Any]) -> str | None:
        return "422" if "Essay 1." in json.dumps(body) else None

    data = essays(tmp_path, 3)
    with LoopbackEndpoint(faults=is_second).in_thread() as endpoint:
        assert run(["grade", str(data), "--judge", f"j@{endpoint.base_url}", "-o", str(tmp_path / "run")]) == 1
    found = told(tmp_path / "run", capsys)
    assert found["state"] == "unfinished"
    assert (found["row_counts"]["done"], found["row_counts"]["failed"]) == (2, 1)
    assert "done       2 of 3 rows (66%), 1 failed, 0 left" in repr(status(tmp_path / "run"))
    assert found["failures"] == {"rejected": 2}
    assert found["again"].startswith("autorubric grade ")
    assert found["again"] in found["advice"]


@pytest.mark.parametrize("what", ["grade", "synthesize"])
def test_a_run_is_seen_while_it_works_and_after_it_died(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with NearEndpoint("--latency", "fixed:0.2", "--reply-chars", "600") as endpoint:
        if what == "grade":
            flags = ["grade", str(essays(tmp_path, 400)), "--judge", f"j@{endpoint.base_url}"]
            rows, calls = 400, 800
        else:
            source = tmp_path / "queries.jsonl"
            source.write_text("".join(f'{{"question": "Query {n}?"}}\n' for n in range(100)))
            os.environ["VLLM_BASE_URL"] = endpoint.base_url
            flags, rows, calls = ["synthesize", str(source), "-m", "vllm/m"], 100, 700
        with start([*flags, "-o", str(out), "-j", "4"]) as process:
            until_asked(endpoint, 30)
            found = told(out, capsys)
            assert found["state"] == "running"
            assert f"process {process.pid}," in found["holder"]
            assert found["row_counts"]["rows"] == rows
            assert 0 < found["spent"]["calls"] < calls
            # Four calls in flight of 0.2 s each: at most 20 a second, and what is left takes some seconds.
            assert 0 < found["calls_per_second"] <= 25
            assert found["eta"] > 0
            process.send_signal(signal.SIGKILL)
            process.wait()
    found = told(out, capsys)
    assert (found["state"], found["holder"], found["eta"]) == ("died", None, None)
    assert found["spent"]["calls"] >= 25
    assert "its process has ended" in found["advice"] and f"autorubric {what}" in found["advice"]


def test_a_folder_without_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", str(tmp_path)]) == 2
    assert "is not a run directory: it has neither manifest.json nor a ledger" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_manifest_hides_nothing_that_the_ledger_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        assert run(["grade", str(essays(tmp_path, 2)), "--judge", f"j@{endpoint.base_url}", "-o", str(tmp_path)]) == 0
    (tmp_path / "manifest.json").write_text('{"kind": "evalu')
    found = told(tmp_path, capsys)
    assert (found["kind"], found["state"], found["spent"]["calls"]) == ("unknown", "unknown", 4)


def test_a_run_that_died_before_its_ledger_held_anything_can_be_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "ledger.sqlite").touch()
    (tmp_path / "manifest.json").write_text('{"kind": "evaluation", "status": "running", "total_items": 3}')
    found = told(tmp_path, capsys)
    assert (found["state"], found["spent"]["calls"], found["row_counts"]["rows"]) == ("died", 0, 3)


def test_a_run_whose_results_were_lost_is_not_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["grade", str(essays(tmp_path, 3)), "--judge", "builtin/offline", "-o", str(tmp_path)]
    assert run(command) == 0
    (tmp_path / "items.jsonl").unlink()
    found = told(tmp_path, capsys)
    assert (found["state"], found["row_counts"]["done"]) == ("unfinished", 0)
    assert "run:  autorubric grade" in found["advice"]
    assert run(command) == 0
    found = told(tmp_path, capsys)
    assert (found["state"], found["row_counts"]["done"], found["spent"]["calls"]) == ("completed", 3, 6)


def test_a_damaged_or_changed_result_is_graded_again_and_not_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["grade", str(essays(tmp_path, 3)), "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run(command) == 0
    file = tmp_path / "run" / "items.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for middle, done in ((lines[1].replace(b"null", b"nu#l", 1), 2), (lines[1].replace(b"MET", b"UNMET"), 3)):
        file.write_bytes(lines[0] + middle + lines[2])
        found = told(tmp_path / "run", capsys)
        counts = found["row_counts"]
        assert (found["state"], counts["done"], counts["failed"], counts["is_changed"]) == (
            "unfinished",
            done,
            0,
            True,
        )
        assert found["again"] in found["advice"]
        assert run(["status", str(tmp_path / "run")]) == 0
        assert "note       items.jsonl has changed since the run wrote it" in capsys.readouterr().out
        assert run(command) == 0
        assert told(tmp_path / "run", capsys)["state"] == "completed"


def test_what_a_run_without_its_ledger_spent_is_told_from_its_sums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["grade", str(essays(tmp_path, 3)), "--judge", "builtin/offline", "-o", str(tmp_path)]) == 0
    before = told(tmp_path, capsys)["spent"]
    for file in (tmp_path / "ledger").glob("ledger.sqlite*"):
        file.unlink()
    assert before["calls"] > 0
    found = told(tmp_path, capsys)
    assert found["spent"] == before
    assert "its ledger is missing, so the same command is refused" in found["advice"]


@contextmanager
def another_user() -> Iterator[None]:
    """Run the block without the rights of root, who reads everything."""
    if is_root := os.geteuid() == 0:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if is_root:
            os.setresuid(0, 0, 0)


def test_a_ledger_that_only_another_user_can_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "tests" / "stored_runs" / "grade" / "run", tmp_path / "run")
    tmp_path.chmod(0o755)
    (tmp_path / "run" / "ledger").chmod(0 if os.geteuid() else 0o700)
    (tmp_path / "closed").mkdir(0 if os.geteuid() else 0o700)
    monkeypatch.chdir(tmp_path)
    denied = "run/ledger/ledger.sqlite: cannot be read: Permission denied"
    for words, status_, told_ in (
        (["status", "run"], 2, denied),
        (["drift", "run"], 2, denied),
        (["show", "run", "--brief"], 0, f"note: raw replies cannot be shown: {denied}"),
        (["report", "run", "--format", "md"], 0, "| Score |"),
        (["status", "closed"], 2, "closed is not a run directory: it cannot be read: Permission denied"),
        (["report", "closed"], 2, "closed is not a run directory: it cannot be read: Permission denied"),
    ):
        with another_user():
            found = run(words)
        said = capsys.readouterr()
        assert (found, told_ in said.out + said.err) == (status_, True), said
    with another_user():  # a folder of runs may have other folders in it
        assert [run.name for run in find_runs([Path()])] == ["run"]
    (tmp_path / "run" / "ledger").chmod(0o700)
