"""Runs by several processes: the files of one, one budget, kills, and wrong keys."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import autorubric
from autorubric.cli.app import run
from autorubric.errors import AutorubricError
from autorubric.jobs.label_source import LabelChoice
from autorubric.jobs.service_processes import ServiceProcesses
from autorubric.jobs.workers import ShardChild, WorkerProcesses
from autorubric.labels import Ask, label_queue
from autorubric.runs.progress import RunState
from autorubric.runs.shard import Shard
from autorubric.runs.stopping import Stop
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.faults import Body
from autorubric.view.label_figures import measure_labels
from tests.cli.in_process import NearEndpoint
from tests.jobs.test_shards import OFFLINE, QUERIES, calls, different, essays, rubrics
from tests.processes import start, wait_until

ITEMS = 24


def many_essays(folder: Path) -> Path:
    rubric = [{"name": "Kind", "weight": 1, "requirement": "Is kind."}]
    items = [{"submission": f"Essay {n}.", "description": "", "id": f"e{n}"} for n in range(ITEMS)]
    path = folder / "many.json"
    path.write_text(json.dumps({"prompt": "Write.", "rubric": rubric, "items": items}))
    return path


def jobs(folder: Path, url: str) -> dict[str, list[str]]:
    selected = ["select", str(rubrics(folder)), "--judge", OFFLINE, "--threshold", "0.1", "--keep", "all"]
    return {
        "grade": ["grade", str(essays(folder)), "-f", "csv", "--judge", f"a@{url}", "--judge", OFFLINE],
        "select": [*selected, "--sample", OFFLINE, "-k", "2"],
        "synthesize": ["synthesize", str(QUERIES), "--limit", "4", "--models", OFFLINE],
    }


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", ["grade", "select", "synthesize"])
def test_processes_write_the_files_of_one_process(tmp_path: Path, name: str) -> None:
    with NearEndpoint() as endpoint:
        command = jobs(tmp_path, endpoint.base_url)[name]
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        asked = endpoint.stats()["requests"]
        assert run([*command, "-o", str(several), "--processes", "2"]) == 0
        assert different(one, several) == []
        assert calls(several) == calls(one)
        if name == "grade":
            manifest = json.loads((several / "manifest.json").read_bytes())
            first, last = times(several)
            assert datetime.fromisoformat(manifest["started_at"]).timestamp() <= first
            assert manifest["total_duration_seconds"] >= last - first
            # Others go on where one process ended, and one where several ended, without a request
            assert run([*command, "-o", str(several)]) == 0
            assert run([*command, "-o", str(one), "--processes", "2"]) == 0
            assert calls(several) == calls(one)
            assert different(one, several) == []
        assert endpoint.stats()["requests"] == 2 * asked
    assert list((several / "ledger" / "shards").iterdir()) == []


def test_no_process_runs_files_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text("raise SystemExit('this file of the user was run')")
    out = tmp_path / "run"
    assert run(["grade", str(many_essays(tmp_path)), "--judge", OFFLINE, "-o", str(out), "--processes", "2"]) == 0
    with label_queue(out, Ask(size=2)) as queue:
        for _ in range(2):
            task = queue.next("ana")
            assert task is not None
            queue.label("ana", task.pair.index, task.pair.place, "MET")
    found = measure_labels(out, LabelChoice())
    assert found is not None and found["judge"]["n"] == 2


def test_processes_find_the_packages_that_the_first_one_finds(tmp_path: Path) -> None:
    # `python -m` finds packages of the current folder, such as one in development.
    (tmp_path / "own_units.py").write_text(
        "from autorubric.checks import CheckOutcome, check\n"
        "own_unit = check('own_unit')(lambda text: CheckOutcome('km' in text, 'found'))\n"
    )
    about = tmp_path / "own_units.egg-info"
    about.mkdir()
    (about / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: own-units\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[autorubric.checks]\nown_unit = own_units:own_unit\n")
    (tmp_path / "rows.csv").write_text("id,submission\n1,5 km\n2,5\n3,6 km\n4,6\n")
    (tmp_path / "rubric.json").write_text('[{"requirement": "Has a unit.", "check": {"name": "own_unit"}}]')
    words = ["grade", "rows.csv", "--rubric", "rubric.json", "-o", "run", "--processes", "2"]
    command = [sys.executable, "-m", "autorubric", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0 and b"mean score 0.500 over 4 items" in done.stdout, done.stderr


@pytest.mark.usefixtures("forked")
def test_a_run_that_is_stopped_again_keeps_the_results_of_items_that_have_moved(tmp_path: Path) -> None:
    answers: list[str | None] = [None]
    with LoopbackEndpoint(faults=lambda body: answers[-1]).in_thread() as endpoint:
        out = tmp_path / "run"
        words = ["grade", str(many_essays(tmp_path)), "--judge", f"a@{endpoint.base_url}", "-o", str(out)]
        assert run([*words, "--processes", "2"]) == 0
        data = json.loads((tmp_path / "many.json").read_bytes())
        new = [{"submission": f"New essay {n}.", "description": "", "id": f"n{n}"} for n in range(ITEMS)]
        (tmp_path / "many.json").write_text(json.dumps({**data, "items": [*new, *data["items"]]}))
        answers.append("402")
        assert run([*words, "--processes", "2", "-j", "2"]) == 1
        assert graded(out) == list(range(ITEMS, 2 * ITEMS))


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_summary_of_a_resumed_run_says_what_this_session_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], processes: str
) -> None:
    with NearEndpoint() as endpoint:
        words = ["grade", str(many_essays(tmp_path)), "--judge", f"a@{endpoint.base_url}", "--processes", processes]
        words += ["-o", str(tmp_path / "run"), "--limit"]
        assert run([*words, "18"]) == 0
        told = capsys.readouterr().out
        assert "judge a: 18 calls, " in told
        assert "in this session" not in told
        for more, count in (("24", "6 calls, "), ("24", "0 calls, 0 in, 0 out, $0.00")):
            assert run([*words, more]) == 0
            told = capsys.readouterr().out
            assert "judge a: 24 calls, " in told
            assert f"of these, in this session: {count}" in told


def fault_of(body: Body) -> str | None:
    """The same fault in every run: an error for one text, and a reply that cannot be used for another."""
    asked = json.dumps(body["messages"])
    return "500" if "a noun" in asked else "empty" if "does ice" in asked else None


def failing_jobs(folder: Path, url: str) -> dict[str, list[str]]:
    """The models at `url` write everything but the judgments of `select`."""
    made, source = ["-o", "RUN", "--retry", "0"], str(rubrics(folder))
    essays = many_essays(folder)
    essays.write_text(
        essays.read_text().replace("Essay 3.", "What is a noun?").replace("Essay 7.", "Why does ice float?")
    )
    return {
        "grade": ["grade", str(essays), "--judge", f"a@{url}", *made],
        "select": ["select", source, "--sample", f"a@{url}", "-k", "2", "--judge", OFFLINE, *made],
        "synthesize": ["synthesize", source, "--models", f"a@{url}", *made],
    }


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", ["grade", "select", "synthesize"])
def test_what_failed_is_told_and_written_as_by_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    told = {}
    with LoopbackEndpoint(faults=fault_of).in_thread() as endpoint:
        for folder, more in (("one", []), ("several", ["--processes", "2"])):
            out = str(tmp_path / folder / "run")
            command = [out if word == "RUN" else word for word in failing_jobs(tmp_path, endpoint.base_url)[name]]
            assert run([*command, *more]) == 1
            said = capsys.readouterr().out.replace(out, "RUN").replace(" --processes 2", "")
            told[folder] = re.sub(r"finished in \d+s", "finished", said)
    assert told["several"] == told["one"]
    assert "HTTP 500 from a" in told["one"]
    assert "empty: the reply is empty" in told["one"]
    assert different(tmp_path / "one" / "run", tmp_path / "several" / "run") == []


def times(directory: Path) -> tuple[float, float]:
    """When the first and the last call of a run ended."""
    with closing(sqlite3.connect(directory / "ledger" / "ledger.sqlite")) as connection:
        found: tuple[float, float] = connection.execute("SELECT min(at), max(at) FROM calls").fetchone()
    return found


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(number) for path in found for number in path.read_text().split()]


def replies(directory: Path) -> int:
    """Calls in the ledgers of the shards of a run."""
    count = 0
    for path in directory.glob("ledger/shards/*/ledger/ledger.sqlite"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            try:
                count += connection.execute("SELECT count(*) FROM calls").fetchone()[0]
            except sqlite3.OperationalError:  # not made yet
                continue
    return count


@contextmanager
def running(folder: Path) -> Iterator[tuple[list[str], NearEndpoint]]:
    with NearEndpoint("--latency", "fixed:0.4") as endpoint:
        words = ["grade", str(many_essays(folder)), "--judge", f"a@{endpoint.base_url}", "-j", "4"]
        yield [*words, "-o", str(folder / "run"), "--processes", "2"], endpoint


def graded(directory: Path) -> list[int]:
    """The items of a run that were graded without an error, and whose one call is recorded once."""
    lines = [json.loads(line) for line in (directory / "items.jsonl").read_bytes().splitlines()]
    with closing(sqlite3.connect(directory / "ledger" / "ledger.sqlite")) as connection:
        answered = connection.execute("SELECT key FROM calls WHERE status = 'ok'").fetchall()
    assert len(set(answered)) == len(answered)
    return [line["item_idx"] for line in lines if line["error"] is None]


@pytest.mark.usefixtures("forked")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")
def test_a_killed_process_is_started_again_and_a_killed_parent_leaves_none_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path) as (words, endpoint):
        with start(words) as parent:
            wait_until(lambda: replies(tmp_path / "run") >= 4, "no calls were recorded")
            # A call is recorded before its row is written.
            finished = partial(autorubric.status, tmp_path / "run")
            wait_until(lambda: finished().row_counts[1] >= 4, "no rows were finished")
            during = finished()
            rows, done, failed, *_ = during.row_counts
            assert (during.kind, during.state, rows, failed) == ("evaluation", "running", ITEMS, 0)
            assert 4 <= done <= during.spent.calls == sum(total.calls for total in during.totals) <= ITEMS
            before = children(parent.pid)
            os.kill(before[0], signal.SIGKILL)
            wait_until(lambda: len(set(children(parent.pid)) | set(before)) == 3, "it was not started again")
            left = children(parent.pid)
            parent.kill()
        held = replies(tmp_path / "run")
        assert autorubric.status(tmp_path / "run").spent.calls >= 4  # though the run has not taken them in
        wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in left), "a process was left behind")
        shutil.copytree(tmp_path / "run", tmp_path / "one")  # of which the process of one shard only has begun
        shutil.rmtree(max((tmp_path / "one" / "ledger" / "shards").iterdir()))
        assert autorubric.status(tmp_path / "one").row_counts.rows == ITEMS
        assert run(words) == 0
        assert f"{ITEMS} of {ITEMS} items graded" in capsys.readouterr().out
        assert graded(tmp_path / "run") == list(range(ITEMS))
        # Four calls were in flight at each kill; nothing that was recorded is sent again.
        assert held >= 4
        assert endpoint.stats()["requests"] <= ITEMS + 2 + 4


@pytest.mark.usefixtures("forked")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")
def test_a_process_that_would_read_a_changed_input_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as (words, endpoint):
        data = tmp_path / "many.json"
        content = data.read_text()
        with start(words) as parent:
            wait_until(lambda: replies(tmp_path / "run") >= 4, "no calls were recorded")
            data.write_text(content.replace("Essay", "Article"))
            os.kill(children(parent.pid)[0], signal.SIGKILL)
            out, err = parent.communicate()
        assert parent.returncode == 1, err
        assert "than the run started with" in out
        assert '"submission":"Article' not in (tmp_path / "run" / "dataset.json").read_text().replace(": ", ":")
        data.write_text(content)
        assert run(words) == 0
        assert graded(tmp_path / "run") == list(range(ITEMS))
        assert endpoint.stats()["requests"] <= ITEMS + 2  # two were in flight at the kill


def test_ctrl_c_stops_all_processes_and_the_same_command_resumes(tmp_path: Path) -> None:
    with running(tmp_path) as (words, endpoint):
        with start(words) as parent:
            wait_until(lambda: replies(tmp_path / "run") >= 4, "no calls were recorded")
            parent.send_signal(signal.SIGINT)
            out, err = parent.communicate()
        assert parent.returncode == 130, err
        assert "interrupted" in out
        done = graded(tmp_path / "run")
        assert 4 <= len(done) < ITEMS
        assert len(done) == endpoint.stats()["requests"]  # calls in flight were completed
        assert run(words[:-2]) == 0  # one process resumes what two began
        assert graded(tmp_path / "run") == list(range(ITEMS))
        assert endpoint.stats()["requests"] == ITEMS


@pytest.mark.usefixtures("forked")
def test_processes_never_spend_more_than_the_budget_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each reply costs what the endpoint counts; the ledger's sum must stay below the limit, which ends the run."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"a": {"input": 1.0, "output": 100.0}}))
    with NearEndpoint("--latency", "fixed:0.01") as endpoint:
        words = ["grade", str(many_essays(tmp_path)), "--judge", f"a@{endpoint.base_url}", "--prices", str(prices)]
        words += ["-o", str(tmp_path / "run"), "--max-tokens", "100"]
        assert run([*words, "--budget-usd", "0.05", "--processes", "2"]) == 1
        with closing(sqlite3.connect(tmp_path / "run" / "ledger" / "ledger.sqlite")) as connection:
            count, cost = connection.execute("SELECT count(*), total(cost) FROM calls").fetchone()
        assert 0 < cost <= 0.05
        assert count == endpoint.stats()["requests"]
        assert 0 < len(graded(tmp_path / "run")) < ITEMS
        capsys.readouterr()
        assert run([*words, "--budget-usd", "0.05", "--processes", "2"]) == 1
        told = re.search(r"reached after (\d+) calls: \$([\d.]+) spent", capsys.readouterr().out)
        assert told and (int(told[1]), float(told[2])) >= (count, cost - 1e-5)  # the first session counts too
        assert run([*words, "--budget-usd", "50"]) == 0
        assert graded(tmp_path / "run") == list(range(ITEMS))
        assert endpoint.stats()["requests"] == ITEMS


@pytest.mark.usefixtures("forked")
def test_a_run_that_replaces_another_one_and_ends_early_has_no_results_of_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NearEndpoint() as endpoint:
        words = ["grade", str(many_essays(tmp_path)), "-o", str(tmp_path / "run"), "--judge"]
        assert run([*words, f"a@{endpoint.base_url}"]) == 0
        more = ["--replace", "--processes", "2", "-j", "2", "--budget-tokens", "30000"]
        assert run([*words, f"b@{endpoint.base_url}", *more]) == 1
        assert ", cost unknown\n" in capsys.readouterr().out.partition("of these, in this session: ")[2]
        asked = endpoint.stats()["requests"] - ITEMS
    assert 0 < asked < ITEMS
    assert len(graded(tmp_path / "run")) == asked


@pytest.mark.usefixtures("forked")
def test_the_last_progress_counts_the_calls_of_the_processes(tmp_path: Path) -> None:
    states: list[RunState] = []
    given: dict[str, Any] = {"processes": 2, "progress": states.append}
    autorubric.synthesize(QUERIES, limit=4, models=OFFLINE, out=tmp_path / "s", **given)
    assert (states[-1].calls, states[-1].reused) == (28, 0)
    own = {"judge": OFFLINE, "sample": [OFFLINE], "k": 2, "threshold": 0.1}
    autorubric.select(rubrics(tmp_path), out=tmp_path / "t", **own, **given)
    assert (states[-1].calls, states[-1].reused) == (20, 0)  # the grading of ten candidates by two criteria


@pytest.mark.usefixtures("forked")
def test_a_note_that_every_process_has_is_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rubric.json").write_text('[{"name": "Bees", "requirement": "Names bees."}]')
    (tmp_path / "a.csv").write_text("id,answer,Bees\n1,Bees do.,0.5\n2,Wasps.,0.1\n3,Bees.,0.7\n")
    with NearEndpoint() as endpoint:
        words = ["grade", str(tmp_path / "a.csv"), "--rubric", str(tmp_path / "rubric.json"), "--processes", "2"]
        assert run([*words, "--judge", f"a@{endpoint.base_url}", "-o", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err.count("kept as metadata: 'Bees'") == 1


@pytest.mark.usefixtures("forked")
def test_wrong_input_is_refused_before_anything_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setenv("KEY_OF_THE_ENDPOINT", "let-me-in-0123456789")
    with NearEndpoint("--key-env", "KEY_OF_THE_ENDPOINT") as endpoint:
        words = ["grade", str(many_essays(tmp_path)), "--judge", f"a@{endpoint.base_url}", "-o", str(out)]
        assert run([*words, "--processes", "2"]) == 2
        assert not out.exists()
    for more, said in (
        (["--processes", "2", "--shard", "1/2"], "--shard and --processes are mutually exclusive"),
        (["--processes", "2", "--start-over"], "--start-over cannot be combined with --processes"),
        (["--processes", "2", "--batch"], "--batch cannot be combined with --processes"),
        (["--processes", "0"], "--processes"),
        (["--engine", "ray", "--shard", "1/2"], "--shard and --engine ray are mutually exclusive"),
        (["--engine", "ray", "--log-json", "log"], "--log-json cannot be combined with --engine ray"),
        (["--ray-address", "10.0.0.1:6379"], "--ray-address has no effect without --engine=ray"),
        (["--engine", "spark"], "--engine"),
    ):
        capsys.readouterr()
        assert run([*words, *more]) == 2
        assert said in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed; tests_ray tests it")
def test_ray_is_asked_for_where_it_is_missing_and_not_for_a_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["grade", str(many_essays(tmp_path)), "--judge", OFFLINE, "-o", str(tmp_path / "run"), "--engine", "ray"]
    assert run(words) == 2
    assert "needs ray; run: pip install 'autorubric-hub[ray]'" in capsys.readouterr().err
    assert run([*words, "--dry-run"]) == 0
    assert "one process sends 24 calls in about 1s" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


class _FailingStart(WorkerProcesses):
    """The second process cannot be started while the first one works."""

    async def _supervise(self, worker: ShardChild) -> None:
        if worker.number == 2:
            raise OSError("cannot allocate memory")
        try:
            await asyncio.sleep(60)
        finally:
            worker.end = {"stopped": "the other process failed"}


def test_an_error_in_one_process_awaits_the_others_in_a_running_loop(tmp_path: Path) -> None:
    shards = [ShardChild(Shard(n, 2), tmp_path / str(n), n) for n in (1, 2)]
    processes = _FailingStart(settings=None, passed={}, processes=2, _shards=shards)

    async def work() -> None:
        with pytest.raises(OSError, match="cannot allocate memory"):
            await processes.run_to_end(None, None, lambda: RunState(0, 0, [], 0, 0, 0, 0.0))
        assert shards[0].end == {"stopped": "the other process failed"}

    asyncio.run(work())


async def test_a_process_of_a_service_that_cannot_start_lets_the_others_end(tmp_path: Path) -> None:
    ended: list[int] = []

    class Service(ServiceProcesses):
        async def _run_once(self, worker: Any) -> int | None:
            if worker.place == 0:
                await asyncio.sleep(0.01)
                raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
            while not self._ending:
                await asyncio.sleep(0.01)
            ended.append(worker.place)
            return 0

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        with pytest.raises(AutorubricError, match="process 1 of the service did not start"):
            await Service({}, 3, 4).run(listening, lambda: None, Stop())
    assert ended == [1, 2]
