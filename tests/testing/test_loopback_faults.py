from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from autorubric.errors import ConfigError
from autorubric.testing import FAULTS, Completion, Fault, FaultPlan
from autorubric.testing.faults import build_fault_plan
from tests.offenders import each


def names(plan: FaultPlan, count: int, seed: int = 0) -> list[str | None]:
    random = Random(seed)
    fates = [plan.choose_fault({}, index, random) for index in range(count)]
    return [fate.name if fate else None for fate in fates]


def test_a_schedule_decides_the_first_calls_and_lets_the_rest_pass() -> None:
    assert names(build_fault_plan(["500", None, "reset"]), 5) == ["500", None, "reset", None, None]


def test_rates_are_kept_over_many_calls() -> None:
    # 10,000 calls: 1,000 expected of each at 10 %, standard deviation 30; five of them are 150.
    counts = Counter(names(build_fault_plan({"429": 0.1, "hang": 0.1}), 10_000))
    assert abs(counts["429"] - 1000) < 150
    assert abs(counts["hang"] - 1000) < 150
    assert counts[None] == 10_000 - counts["429"] - counts["hang"]


def test_a_chosen_request_meets_its_fault_whatever_the_schedule_says() -> None:
    plan = FaultPlan(schedule=["500"], choose=lambda body: "401" if body.get("bad") else None)
    chosen, scheduled = plan.choose_fault({"bad": True}, 0, Random(0)), plan.choose_fault({}, 0, Random(0))
    assert (chosen, scheduled) == (FAULTS["401"], FAULTS["500"])


def test_a_fault_of_ones_own_needs_no_name_in_the_table() -> None:
    own = Fault("teapot", 418, body=b"{}")
    assert names(build_fault_plan([own]), 1) == ["teapot"]


def test_an_unknown_fault_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="unknown fault '418'; expected one of 429, "):
        build_fault_plan({"418": 0.1})


@each("rates", [{"500": 1.5}, {"500": -0.1}, {"500": 0.6, "429": 0.6}, {"500": float("nan")}])
def test_rates_that_are_no_shares_of_one_are_refused(rates: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="are not shares of one"):
        build_fault_plan(rates)


def test_every_error_status_but_a_gateway_page_carries_an_openai_error_object() -> None:
    for fault in FAULTS.values():
        if fault.status >= 400 and fault.name != "502":
            assert json.loads(fault.body or b"")["error"]["message"]


# The completion each content fault starts from, and what is left of it, worked out by hand.
WHOLE = Completion('[{"title": "A"}]')
CHANGED = {
    "fenced": Completion('```json\n[{"title": "A"}]\n```'),
    "prose-around": Completion('Sure [as asked]:\n\n```json\n[{"title": "A"}]\n```\n\nDone [1].'),
    "broken-json": Completion('[{"title": "A",,'),
    "length": Completion('[{"title', "length"),
    "content-filter": Completion("", "content_filter"),
    "empty": Completion(""),
    "null": Completion(None),
    "refusal": Completion(None, refusal="I'm sorry, but I can't help with that."),
}


@each("name", CHANGED)
def test_a_content_fault_changes_what_was_said_as_its_name_says(name: str) -> None:
    change = FAULTS[name].change
    assert change is not None
    assert change(WHOLE) == CHANGED[name]
