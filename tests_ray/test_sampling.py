"""`select --sample` on a real local Ray: candidates are sampled by all workers, and then graded by all."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.faults import Body
from benchmarks.soak.cluster import killing
from tests.cli.in_process import NearEndpoint
from tests.jobs.test_shards import calls
from tests.jobs.test_shards import different as differing
from tests_ray.test_ray import ON_RAY, left_behind

QUERIES, K = 60, 4
CANDIDATES = QUERIES * K
CALLS = 2 * CANDIDATES
"""Each candidate is a call that samples it and one that judges it."""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    assert left_behind() == []


def different(one: Path, other: Path) -> list[str]:
    """Files that differ, without the sums of cost: they count calls that a kill broke off, and round in any order."""
    return [name for name in differing(one, other) if name != "spent.json"]


def select(folder: Path, url: str) -> list[str]:
    """Four blocks of candidates. Equal queries with equal rubrics are one, so these two have different ones."""
    names = ["Names a cause.", "Is kind."]
    rows = [
        {"question": f"Why is number {n or 1} odd?", "id": f"q{n}", "rubrics": [{"criterion": names[n > 0]}]}
        for n in range(QUERIES)
    ]
    path = folder / "rubrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["select", str(path), "--sample", f"a@{url}", "-k", str(K), "--judge", f"a@{url}"]
    return [*words, "--threshold", "0.1", "--keep", "all", "-j", "8"]


def test_sampled_answers_are_those_of_one_process_and_no_request_is_sent_twice(tmp_path: Path) -> None:
    with NearEndpoint() as endpoint:
        command = select(tmp_path, endpoint.base_url)
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        asked = endpoint.stats()["requests"]
        assert asked == len(calls(one))
        assert run([*command, "-o", str(several), *ON_RAY]) == 0
        assert different(one, several) == []
        assert calls(several) == calls(one)
        # Each goes on where the other has ended; more answers are sampled, and only these.
        more = [*command[: command.index("-k") + 1], str(K + 1), *command[command.index("-k") + 2 :]]
        assert run([*more, "-o", str(several)]) == 0
        asked = endpoint.stats()["requests"]
        assert run([*more, "-o", str(several), *ON_RAY]) == 0
        assert endpoint.stats()["requests"] == asked
        assert run([*more, "-o", str(one), *ON_RAY]) == 0
        assert different(one, several) == []


def test_answers_that_could_not_be_sampled_are_told_as_by_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fault_of(body: Body) -> str | None:
        asked = body["messages"][-1]["content"]
        return "500" if asked == "Why is number 7 odd?" else "empty" if asked == "Why is number 8 odd?" else None

    told = []
    with LoopbackEndpoint(faults=fault_of).in_thread() as endpoint:
        for folder, more in (("one", []), ("several", ON_RAY)):
            out = str(tmp_path / folder / "run")
            assert run([*select(tmp_path, endpoint.base_url), "--retry", "0", "-o", out, *more]) == 1
            said = capsys.readouterr().out.replace(out, "RUN").replace(f" {' '.join(ON_RAY)}", "")
            told.append(sorted(said.splitlines()))
    assert told[1] == told[0]
    assert any("4 candidates failed: HTTP 500 from a" in line for line in told[0])
    assert different(tmp_path / "one" / "run", tmp_path / "several" / "run") == []


def test_workers_that_are_killed_while_they_sample_or_judge_lose_nothing(tmp_path: Path) -> None:
    with NearEndpoint("--latency", "fixed:0.05") as endpoint:
        command = select(tmp_path, endpoint.base_url)
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        asked = endpoint.stats()["requests"]
        with killing(4, Path(tempfile.gettempdir())) as killed:
            assert run([*command, "-o", str(several), *ON_RAY]) == 0
        assert killed
        assert different(one, several) == []
        # Four calls are in flight at each worker.
        assert asked <= endpoint.stats()["requests"] - asked <= asked + 4 * len(killed)


def test_a_budget_that_ends_while_candidates_are_sampled_or_judged_is_kept_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"a": {"input": 1.0, "output": 100.0}}))
    with NearEndpoint("--latency", "fixed:0.02") as endpoint:
        command = [*select(tmp_path, endpoint.base_url), "--prices", str(prices)]
        command += ["--max-tokens", "100", "--sample-max-tokens", "100"]
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        asked, cost = spent(one)
        for share in (0.2, 0.8):
            assert run([*command, "-o", str(several), *ON_RAY, "--budget-usd", str(share * cost)]) == 1
            assert 0 < spent(several)[1] <= share * cost
        assert run([*command, "-o", str(several), *ON_RAY, "--budget-usd", str(50 * cost)]) == 0
        assert different(one, several) == []
        assert endpoint.stats()["requests"] == 2 * asked


def spent(directory: Path) -> tuple[int, float]:
    """Calls and dollars."""
    with closing(sqlite3.connect(directory / "ledger" / "ledger.sqlite")) as connection:
        count, cost = connection.execute("SELECT count(*), total(cost) FROM calls").fetchone()
    return int(count), float(cost)


def test_an_endpoint_that_refuses_requests_as_too_fast_changes_no_file(tmp_path: Path) -> None:
    with NearEndpoint("--requests-per-second", "100", "--latency", "fixed:0.05") as endpoint:
        command = select(tmp_path, endpoint.base_url)
        one, several = tmp_path / "one" / "run", tmp_path / "several" / "run"
        assert run([*command, "-o", str(one)]) == 0
        before = endpoint.stats()["by_status"].get("429", 0)
        assert run([*command, "-j", "256", "-o", str(several), *ON_RAY]) == 0
        assert endpoint.stats()["by_status"].get("429", 0) > before
        assert different(one, several) == []


def test_a_key_that_is_refused_is_said_once_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setenv("KEY_OF_THE_ENDPOINT", "let-me-in-0123456789")
    with NearEndpoint("--key-env", "KEY_OF_THE_ENDPOINT") as endpoint:
        words = [*select(tmp_path, endpoint.base_url), "-o", str(out), *ON_RAY]
        assert run(words) == 2
        assert capsys.readouterr().err.count("401") == 1
        assert run([*words, "--sample-key-env", "KEY_OF_THE_ENDPOINT"]) == 2
        assert "has no key: set KEY_OF_THE_ENDPOINT" in capsys.readouterr().err
    assert not out.exists()
