"""Runs on a real local Ray: the files of one process, kills of workers, one budget, and what is refused."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from autorubric import status
from autorubric.cli.app import run
from benchmarks.local_ray import ledgers
from benchmarks.soak.cluster import calls_in, killing, many_essays, soaked
from tests.cli.in_process import NearEndpoint
from tests.jobs.test_processes import graded
from tests.jobs.test_shards import OFFLINE, QUERIES, calls, checked, different, essays, rubrics
from tests.processes import start, wait_until

ON_RAY = ["--engine", "ray", "--processes", "2"]


def many_queries(folder: Path) -> Path:
    """129 queries in three blocks, the last one equal to the first."""
    rows = [{"question": f"Why is number {n} odd?", "domain": "maths"} for n in range(128)]
    rows.append(rows[0])
    path = folder / "queries.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def jobs(folder: Path, url: str) -> dict[str, list[str]]:
    return {
        "grade": ["grade", str(many_essays(folder, 200)), "-f", "csv", "--judge", f"a@{url}"],
        "panel": ["grade", str(essays(folder)), "--judge", f"a@{url}", "--judge", OFFLINE, "--share-equal"],
        "checks": ["grade", str(checked(folder))],
        "select": ["select", *candidates(folder), "--judge", OFFLINE, "--threshold", "0.1", "--keep", "all"],
        "synthesize": ["synthesize", str(many_queries(folder)), "--models", OFFLINE, "--domain-column", "domain"],
        "full": ["synthesize", str(QUERIES), "--limit", "4", "--models", OFFLINE, "--profile", "full"],
    }


def candidates(folder: Path) -> list[str]:
    rows = [json.loads(line) for line in rubrics(folder).read_text().splitlines()]
    answers = ["It is so.", "Because of light, which air scatters."]
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps({"id": row["id"], "answers": answers}) + "\n" for row in rows))
    return [str(folder / "rubrics.jsonl"), "--candidates", str(path)]


@pytest.mark.parametrize("name", ["grade", "panel", "checks", "select", "synthesize", "full"])
def test_workers_write_the_files_of_one_process(tmp_path: Path, name: str) -> None:
    with NearEndpoint() as endpoint:
        command = jobs(tmp_path, endpoint.base_url)[name]
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        asked = endpoint.stats()["requests"]
        assert run([*command, "-o", str(several), *ON_RAY]) == 0
        assert different(one, several) == []
        assert keys(several) == keys(one)
        if name == "grade":  # others go on where one process ended, and one where several ended, without a request
            assert run([*command, "-o", str(several)]) == 0
            assert run([*command, "-o", str(one), *ON_RAY]) == 0
            assert keys(several) == keys(one)
            assert different(one, several) == []
        assert endpoint.stats()["requests"] == 2 * asked
    assert list((several / "ledger" / "shards").iterdir()) == []
    assert left_behind() == []


def keys(directory: Path) -> list[bytes]:
    """What was asked; of equal queries any one may have asked first."""
    return sorted(key for _, _, key, _ in calls(directory))


def left_behind() -> list[Path]:
    """Ledgers of workers on this machine."""
    return ledgers(Path(tempfile.gettempdir()))


def test_killed_workers_lose_no_row_and_read_their_ledger_again(tmp_path: Path) -> None:
    """`python -m benchmarks.soak.cluster` kills 100 times."""
    found = soaked(3, tmp_path, Path(tempfile.gettempdir()))
    # Each worker has four calls in flight; what it has recorded is not sent again.
    assert (found.kills, found.lost, found.doubled, found.different) == (3, 0, 0, [])
    assert 0 <= found.repeated <= 4 * 3
    assert left_behind() == []


def test_the_blocks_of_a_lost_machine_are_done_again_and_what_that_may_cost_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NearEndpoint("--latency", "fixed:0.05") as endpoint:
        command = ["grade", str(many_essays(tmp_path, 300)), "--judge", f"a@{endpoint.base_url}", "-j", "8"]
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        asked = endpoint.stats()["requests"]
        capsys.readouterr()
        with killing(1, Path(tempfile.gettempdir()), lost=True) as killed:
            assert run([*command, "-o", str(several), *ON_RAY]) == 0
        assert len(killed) == 1
        assert different(one, several) == []
        repeated = endpoint.stats()["requests"] - 2 * asked
        # That a worker ended is told before its restart, which may take minutes.
        ended = r"worker \d ended; it is restarted: (?s:.*)"
        said = re.search(
            ended + r"was lost: up to (\d+) calls? and (\d) blocks? of records will be sent again",
            capsys.readouterr().err,
        )
        assert said is not None
        # The loss is told from the last report of progress; since then each second brought up to 80 calls.
        assert 4 <= repeated <= int(said[1]) + 80
        assert int(said[2]) <= 2
    assert left_behind() == []


def test_a_node_that_is_lost_loses_no_row_and_the_other_node_does_its_blocks(tmp_path: Path) -> None:
    machines = [tmp_path / "first", tmp_path / "second"]  # each node has a disk of its own
    for machine in machines:
        machine.mkdir()
    with NearEndpoint("--latency", "fixed:0.05") as endpoint, closing(Nodes(*machines)) as nodes:
        command = ["grade", str(many_essays(tmp_path, 300)), "--judge", f"a@{endpoint.base_url}", "-j", "8"]
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        with start([*command, "-o", str(several), *ON_RAY, "--ray-address", nodes.address]) as driver:
            wait_until(lambda: sum(map(calls_in, ledgers(machines[1]))) >= 20, "no calls on the second node")
            nodes.lose_second()
            _, said = driver.communicate()
        assert driver.returncode == 0, said
        assert different(one, several) == []
        assert re.search(r"was lost: up to \d+ calls? and [12] blocks? of records will be sent again", said)
    assert ledgers(machines[0]) == []


class Nodes:
    """A Ray cluster of two nodes on this machine, each with one CPU and its own folder for temporary files."""

    def __init__(self, first: Path, second: Path) -> None:
        head = {"num_cpus": 1, "env_vars": {"TMPDIR": str(first)}, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._second = self._cluster.add_node(num_cpus=1, env_vars={"TMPDIR": str(second)})
        self.address = self._cluster.address

    def lose_second(self) -> None:
        """Kill all processes of the second node."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def close(self) -> None:
        self._cluster.shutdown()


def test_a_killed_driver_leaves_no_worker_and_the_next_one_takes_in_what_was_recorded(tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    with NearEndpoint("--latency", "fixed:0.05") as endpoint:
        words = ["grade", str(many_essays(tmp_path, 300)), "--judge", f"a@{endpoint.base_url}", "-j", "8"]
        words += ["-o", str(tmp_path / "run"), *ON_RAY, "--ray-address", address]
        with start(words) as driver:
            wait_until(lambda: sum(map(calls_in, left_behind())) >= 20, "no calls were recorded")
            wait_until(lambda: bool(status(tmp_path / "run").row_counts.done), "no block was finished")
            assert "run: evaluation, running" in repr(status(tmp_path / "run"))
            driver.kill()
        found = status(tmp_path / "run")
        assert (found.kind, found.state, found.row_counts.rows) == ("evaluation", "died", 300)
        assert 64 <= found.row_counts.done < 300  # blocks of 64
        assert "--engine ray" in found.again
        assert run(words) == 0
        assert graded(tmp_path / "run") == list(range(300))
        assert endpoint.stats()["requests"] <= 600 + 8  # four calls in flight at each worker
    assert left_behind() == []


def test_a_budget_holds_for_all_workers_together(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"a": {"input": 1.0, "output": 100.0}}))
    with NearEndpoint("--latency", "fixed:0.02") as endpoint:
        words = ["grade", str(many_essays(tmp_path, 200)), "--judge", f"a@{endpoint.base_url}", "-j", "8"]
        words += ["-o", str(tmp_path / "run"), "--prices", str(prices), "--max-tokens", "100", *ON_RAY]
        assert run([*words, "--budget-usd", "0.3"]) == 1
        with closing(sqlite3.connect(tmp_path / "run" / "ledger" / "ledger.sqlite")) as connection:
            count, cost = connection.execute("SELECT count(*), total(cost) FROM calls").fetchone()
        assert 0 < cost <= 0.3
        assert count == endpoint.stats()["requests"]
        assert 0 < len(graded(tmp_path / "run")) < 200
        assert run([*words, "--budget-usd", "50"]) == 0
        assert graded(tmp_path / "run") == list(range(200))
        assert endpoint.stats()["requests"] == 400


def test_what_is_wrong_is_said_once_before_anything_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setenv("KEY_OF_THE_ENDPOINT", "let-me-in-0123456789")  # the workers started without it
    with NearEndpoint("--key-env", "KEY_OF_THE_ENDPOINT") as endpoint:
        words = ["grade", str(many_essays(tmp_path, 70)), "--judge", f"a@{endpoint.base_url}", "-o", str(out)]
        cases = [
            ([*ON_RAY, "--api-key-env", "KEY_OF_THE_ENDPOINT"], "has no key: set KEY_OF_THE_ENDPOINT"),
            (ON_RAY, "401"),
            (["--engine", "ray", "--processes", "200"], "200 workers (--processes; in Python: processes) need a CPU"),
        ]
        for more, said in cases:
            assert run([*words, *more]) == 2
            assert said in capsys.readouterr().err
            assert not out.exists()
        assert endpoint.stats()["by_status"].get("200", 0) == 0
