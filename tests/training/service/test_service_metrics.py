"""The Prometheus text, as a reader of the format takes it, and who is let in."""

from __future__ import annotations

import re

import pytest

from autorubric.llm.billing import Activity
from autorubric.training.service.metrics import ServiceMetrics
from autorubric.training.service.reward_app import Admission, Refused

_SAMPLE = re.compile(r'^([a-z_]+)(?:\{([a-z]+)="((?:[^"\\\n]|\\.)*)"\})? (\S+)$')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Every sample by name and label value; each line must be one, or a HELP or TYPE line ahead of its samples."""
    assert text.endswith("\n")
    found: dict[tuple[str, str], float] = {}
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("# HELP "):
            match = _SAMPLE.match(line)
            assert match is not None, line
            name, _, label, value = match.groups()
            assert name in typed or re.sub(r"_(bucket|sum|count)$", "", name) in typed
            assert (name, label or "") not in found, "a sample stands twice"
            found[name, label or ""] = float(value)
    return found


def test_the_histogram_counts_up_to_all_submissions() -> None:
    metrics = ServiceMetrics()
    for seconds, failure in ((0.04, None), (0.05, None), (0.3, "timeout"), (400.0, "timeout")):
        metrics.count_reward(seconds, failure)
    found = samples(metrics.render({}, 3, 8))
    buckets = {label: value for (name, label), value in found.items() if name == "autorubric_reward_seconds_bucket"}
    # A bound belongs to its own bucket: 0.04 and 0.05 are at most 0.05; 0.3 is at most 0.5; 400 is above all bounds.
    assert (buckets["0.05"], buckets["0.25"], buckets["0.5"], buckets["300.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    assert found["autorubric_reward_seconds_count", ""] == 4
    assert found["autorubric_reward_seconds_sum", ""] == pytest.approx(400.39)
    assert found["autorubric_rewards_total", "timeout"] == 2
    assert (found["autorubric_open_submissions", ""], found["autorubric_room", ""]) == (3, 8)


def test_judge_calls_tokens_and_dollars_are_summed_over_roles() -> None:
    one = Activity(1, 5, 2, 1, 0, 100, 10, 0.5, 0)
    other = Activity(2, 7, 0, 0, 3, 50, 5, 0.25, 1)
    found = samples(ServiceMetrics().render({"judge": one, "second": other}, 0, 8))
    calls = {label: value for (name, label), value in found.items() if name == "autorubric_judge_calls_total"}
    assert calls == {"paid": 12, "recorded": 2, "failed": 1, "refused": 3}
    assert found["autorubric_judge_calls_in_flight", ""] == 3
    assert found["autorubric_tokens_total", "prompt"] == 150
    assert found["autorubric_cost_dollars_total", ""] == 0.75


def test_a_kind_of_failure_cannot_break_out_of_its_label() -> None:
    metrics = ServiceMetrics()
    metrics.count_reward(0.1, 'od"d\\ kind\nautorubric_room 99')
    assert samples(metrics.render({}, 0, 8))["autorubric_room", ""] == 8


def test_room_is_given_back_however_the_block_ends() -> None:
    admission = Admission(3)
    with pytest.raises(ZeroDivisionError), admission.entered(3):
        raise ZeroDivisionError
    assert admission.open == 0
    with admission.entered(2), pytest.raises(Refused, match="retry in 1 s"), admission.entered(2):
        pass
    assert admission.open == 0
