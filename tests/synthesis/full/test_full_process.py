"""The full method as a process that is killed in the middle."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from typing import Any

from autorubric.synthesis.gate_rules import GateSettings
from tests.warm_commands import WarmProcess

QUERIES = 4
CALLS = 51 + 2 * GateSettings().licence_draws  # a query; see test_full_method


def until_answered(endpoint: Any, count: int) -> None:
    for _ in range(3000):
        if endpoint.counts.calls_by_body.total() >= count:
            return
        time.sleep(0.02)
    raise AssertionError("the endpoint was not asked")


def test_a_killed_run_goes_on_and_pays_again_for_nothing_that_was_recorded(stand: Callable[..., Any]) -> None:
    s = stand(*(f"Why is it so {n}?" for n in range(QUERIES)), latency="lognormal:0.02,0.5")
    words = s.arguments("-j", "8")
    rng = random.Random(11)
    kills = 0
    for _ in range(2):
        running = WarmProcess(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_answered(s.endpoint, s.endpoint.counts.calls_by_body.total() + rng.randrange(40, 90))
        if running.poll() is None:
            running.kill()
            kills += 1
        running.wait(timeout=600)
    assert kills == 2
    assert s.synthesize("-j", "8") == 0
    # Each kill can cost the 8 calls in flight; a reply that had arrived is found though it was not committed.
    assert s.endpoint.counts.requests <= QUERIES * CALLS + kills * 8
    rows = s.rows()
    assert [row["id"] for row in rows] == [f"q{n}" for n in range(QUERIES)]
    assert all(row["criteria"] for row in rows)
    asked = s.endpoint.counts.requests
    assert s.synthesize("-j", "8") == 0
    assert s.endpoint.counts.requests == asked
