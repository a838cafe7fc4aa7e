"""`autorubric serve --processes`: one port, ledger, budget and queue; kills, drains, resumes, and what is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import autorubric
from autorubric.cli.app import run
from tests.cli.in_process import NearEndpoint
from tests.cli.test_serve import asked, posted, serving
from tests.jobs.test_processes import children
from tests.processes import wait_until
from tests.warm_commands import FRESH

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")


def persistent(url: str, submission: str) -> Any:
    """The reward of a caller who asks again when a connection breaks."""
    while True:
        try:
            status, found = asked(url, submission)
        except (OSError, HTTPException):
            continue
        assert status == 200, found
        return found


def at_once(count: int, ask: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(ask, range(count)))


def rollout(number: int) -> bytes:
    """One of the submissions of a group, each with a rubric of five criteria."""
    rubric = [{"name": f"c{n}", "requirement": f"Is kind in way {n}."} for n in range(5)]
    return json.dumps({"query": "How?", "submission": f"So {number}.", "rubric": rubric, "step": 1}).encode()


def metrics(url: str) -> dict[str, float]:
    with urlopen(url.replace("/v1/reward", "/metrics"), timeout=600) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def rows(directory: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(directory / "ledger" / "ledger.sqlite")) as connection:
        return connection.execute(query).fetchall()


OBSERVED = "SELECT count(*) FROM observations WHERE kind = 'reward'"


def test_processes_pay_once_for_equal_requests_and_lose_nothing_to_a_kill(tmp_path: Path) -> None:
    """Twelve connections in turn: six at each process, and each of the six questions at both."""
    out = tmp_path / "run"
    with NearEndpoint("--latency", "fixed:0.4") as judge:
        flags = ["--judge", f"j@{judge.base_url}", "-o", str(out), "--dropout", "0.4"]
        with serving(*flags, "--processes", "2") as (first, url):
            assert at_once(12, lambda n: asked(url, f"text {n // 2}")[1]["reward"]) == [1.0] * 12
            assert judge.stats()["requests"] == 6
            counts = metrics(url)
            assert counts['autorubric_rewards_total{outcome="reward"}'] == 12
            assert counts['autorubric_judge_calls_total{outcome="paid"}'] == 6
            assert counts['autorubric_judge_calls_total{outcome="recorded"}'] == 6
            assert Counter(judge.calls_by_body().values()) == {1: 6}

            rollouts = at_once(4, lambda n: posted(url, rollout(n))[1]["dropped"])
            assert [len(one) for one in rollouts] == [2] * 4  # of five criteria
            assert rollouts == [rollouts[0]] * 4  # a group loses the same ones at each process
            asked_before = judge.stats()["requests"]

            wait_until(lambda: rows(out, OBSERVED) == [(12 + 4,)], "rewards were not recorded")
            killed = children(first.pid)[0]
            calling = [threading.Thread(target=persistent, args=(url, f"more {n}")) for n in range(8)]
            for one in calling:
                one.start()
            wait_until(lambda: judge.stats()["requests"] >= asked_before + 8, "the judge was not asked")
            os.kill(killed, signal.SIGKILL)
            for one in calling:
                one.join()
            wait_until(lambda: len(set(children(first.pid)) - {killed}) == 2, "it was not started again")
            assert judge.stats()["requests"] <= asked_before + 8 + 4  # four were in flight there
            # What the killed process had told of its counts still counts.
            assert metrics(url)['autorubric_rewards_total{outcome="reward"}'] >= 12

            late: list[Any] = []
            last = threading.Thread(target=lambda: late.append(asked(url, "last")))
            before = judge.stats()["requests"]
            last.start()
            wait_until(lambda: judge.stats()["requests"] > before, "the judge was not asked")
            first.send_signal(signal.SIGTERM)
            last.join()
            told, _ = first.communicate(timeout=600)
            assert first.returncode == 0
            assert late[0][0] == 200
        assert "stopped; " in told
        assert sorted(path.name for path in (out / "ledger").iterdir() if path.is_dir()) == []
        answered = [key for (key,) in rows(out, "SELECT key FROM calls WHERE status = 'ok'")]
        assert len(answered) == len(set(answered)) == 15 + 4 * 3
        assert json.loads((out / "spent.json").read_text())["calls"] == rows(out, "SELECT count(*) FROM calls")[0][0]

        requests = judge.stats()["requests"]
        for processes in ("3", "1"):
            with serving(*flags, "--processes", processes) as (first, url):
                texts = [*(f"text {n}" for n in range(6)), *(f"more {n}" for n in range(8)), "last"]
                assert at_once(15, lambda n: asked(url, texts[n])[1]["reward"]) == [1.0] * 15  # noqa: B023
                first.send_signal(signal.SIGTERM)
                first.communicate(timeout=600)
        assert judge.stats()["requests"] == requests
    assert run(["status", str(out)]) == 0
    # Each answer is recorded once: to twelve callers, four rollouts, eight callers and the last. The fifteen that are
    # asked for again after a restart are known.
    assert sum(window.rewards for window in autorubric.drift(out).windows) == 12 + 4 + 8 + 1


def test_a_budget_holds_over_all_processes_and_kills(tmp_path: Path) -> None:
    """Each reply has the 100 tokens that it may have; what a killed process had in flight counts as spent."""
    prices, out = tmp_path / "prices.json", tmp_path / "run"
    prices.write_text(json.dumps({"j": {"input": 1.0, "output": 100.0}}))
    with NearEndpoint("--latency", "fixed:0.2") as judge:
        flags = ["--judge", f"j@{judge.base_url}", "-o", str(out), "--prices", str(prices), "--max-tokens", "100"]
        flags += ["--processes", "2", "--budget-usd", "0.3"]
        with serving(*flags) as (first, url):
            calling = [threading.Thread(target=persistent, args=(url, f"text {n}")) for n in range(12)]
            for one in calling:
                one.start()
            wait_until(lambda: judge.stats()["requests"] >= 4, "the judge was not asked")
            os.kill(children(first.pid)[0], signal.SIGKILL)
            for one in calling:
                one.join()
            found = at_once(12, lambda n: [persistent(url, f"text {n}-{more}") for more in range(20)])
            first.send_signal(signal.SIGTERM)
            first.communicate(timeout=600)
        failures = {str(one["failure"]) for many in found for one in many if one["reward"] is None}
        assert failures and all("budget of $0.30 reached" in one for one in failures)
        [(cost, bound)] = rows(out, "SELECT total(cost), total(cost_bound) FROM calls")
        assert 0.2 < cost + bound <= 0.3
        # Each request is on record, those that a kill cut off too, and at most what was about to leave at the kill.
        sent = judge.stats()["requests"]
        assert sent <= rows(out, "SELECT count(*) FROM calls")[0][0] <= sent + 12


def test_what_one_process_has_to_see_whole_is_refused_with_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["serve", "--judge", "builtin/offline", "-o", str(tmp_path / "run"), "--processes"]
    for more, said in (
        (["2", "--audit", "vllm/m"], "--audit cannot be combined with --processes"),
        (["2", "--evolve", "vllm/m"], "--evolve cannot be combined with --processes"),
        (["2", "--repeat-share", "0.5"], "--repeat-share cannot be combined with --processes"),
        (["2", "--log-json", "calls.jsonl"], "--log-json cannot be combined with --processes"),
        (["3", "--concurrency", "2"], "raise --concurrency, or lower --processes"),
        (["0"], "--processes"),
    ):
        assert run([*command, *more]) == 2
        assert re.search(re.escape(said), capsys.readouterr().err), more
    assert not (tmp_path / "run").exists()


def test_a_directory_is_taken_as_long_as_a_process_of_a_killed_service_works_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with NearEndpoint("--latency", "fixed:3") as judge:
        flags: Sequence[str] = ["--judge", f"j@{judge.base_url}", "-o", str(out)]
        with serving(*flags, "--processes", "2", **FRESH) as (first, url):
            calling = threading.Thread(target=asked, args=(url, "open"))
            calling.start()
            wait_until(lambda: judge.stats()["requests"] == 1, "the judge was not asked")
            left = children(first.pid)
            first.kill()
            first.wait()
        assert run(["serve", *flags, "--port", "0"]) == 1
        assert "is in use by process" in capsys.readouterr().err
        calling.join()  # it is answered although the first process has gone
        wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in left), "a process was left behind")
        with serving(*flags) as (_, url):
            assert asked(url, "open")[1]["reward"] == 1.0
        assert judge.stats()["requests"] == 1


def test_a_process_whose_first_one_was_killed_refuses_what_needs_more_budget(tmp_path: Path) -> None:
    """The second criterion follows the first and has to borrow; nobody lends any more, so it must not wait."""
    flags = ["--max-tokens", "100", "--budget-tokens", "20000", "--processes", "2", "-o", str(tmp_path / "run")]
    with NearEndpoint("--latency", "fixed:2") as judge:
        with serving("--judge", f"j@{judge.base_url}", *flags) as (first, url):
            answers: list[Any] = []
            calling = threading.Thread(target=lambda: answers.append(posted(url, rollout(0))))
            calling.start()
            wait_until(lambda: judge.stats()["requests"] == 1, "the judge was not asked")
            left = children(first.pid)
            first.kill()
            first.wait()
            calling.join()
        wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in left), "a process was left behind")
    [(_, answer)] = answers  # without one, the connection was closed at the end of the grace period
    assert answer["reward"] is None
    assert "budget of 20,000 tokens" in answer["failure"]
