"""Runs on a real local Ray: the files of one process, kills of workers, one budget, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from autorubric.cli.app import run
from tests.cli.in_process import NearEndpoint
from tests.jobs.test_processes import graded
from tests.jobs.test_shards import OFFLINE, QUERIES, calls, checked, different, essays, rubrics

ON_RAY = ["--engine", "ray", "--processes", "2"]


def many_essays(folder: Path, count: int) -> Path:
    rubric = [{"name": name, "weight": 1, "requirement": f"Is {name.lower()}."} for name in ("Kind", "Long")]
    items = [{"submission": f"Essay {n}.", "description": "", "id": f"e{n}"} for n in range(count)]
    path = folder / "many.json"
    path.write_text(json.dumps({"prompt": "Write.", "rubric": rubric, "items": items}))
    return path


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
    return [path for path in Path(tempfile.gettempdir()).glob("autorubric-*/*/*") if path.is_dir()]


@contextmanager
def killing(directory: Path, count: int) -> Iterator[list[int]]:
    """Kill a worker at random moments of a run, until it ends or `count` are killed; their process ids."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while len(killed) < count and not over.wait(0.3):
            folders = [path for path in directory.glob("autorubric-*/*/*/ledger/run.holder") if path.stat().st_size]
            for path in folders:
                number = int(path.read_text().split()[1].rstrip(","))
                if number not in killed and calls_in(path.parent) > 4:
                    os.kill(number, signal.SIGKILL)
                    killed.append(number)
                    break

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def calls_in(ledger: Path) -> int:
    with closing(sqlite3.connect(f"file:{ledger / 'ledger.sqlite'}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM calls").fetchone()[0])
        except sqlite3.OperationalError:  # not made yet
            return 0


def test_killed_workers_lose_no_row_and_read_their_ledger_again(tmp_path: Path) -> None:
    kills = int(os.environ.get("AUTORUBRIC_KILLS", "3"))
    with NearEndpoint("--latency", "fixed:0.05") as endpoint:
        command = ["grade", str(many_essays(tmp_path, 300 * kills)), "--judge", f"a@{endpoint.base_url}", "-j", "8"]
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        asked = endpoint.stats()["requests"]
        with killing(Path(tempfile.gettempdir()), kills) as killed:
            assert run([*command, "-o", str(several), *ON_RAY]) == 0
        assert len(killed) == kills
        assert different(one, several) == []
        # Each worker has four calls in flight; what it has recorded is not sent again.
        assert asked <= endpoint.stats()["requests"] - asked <= asked + 4 * kills
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
        assert endpoint.stats()["replies"] == 0 if "replies" in endpoint.stats() else True
