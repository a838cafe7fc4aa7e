"""A model that never gives a usable reply ends the run after a few requests; the servers count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from autorubric import Rubric, grade, synthesize
from autorubric.testing import LoopbackEndpoint
from tests.offenders import offenders

Say = Callable[[dict[str, Any]], str]
MET = '{"explanation": "So.", "criterion_status": "MET"}'
CONCURRENCY, ITEMS, JUDGMENTS = 4, 16, 32
# A judgment ends after three calls, and the run after eight judgments. Up to two calls were in flight for each place.
LEAST, MOST = 8 * 3, 8 * 3 + 2 * 8


def _is_reask(body: dict[str, Any]) -> bool:
    return any(message["role"] == "assistant" for message in body["messages"])


def _say_last(says: list[Say], body: dict[str, Any]) -> str:
    return says[-1](body)


GRADED: dict[str, tuple[Say, tuple[str, ...], int, int, str]] = {
    "empty": (lambda body: "", ("bad",), LEAST, MOST, "the last: the reply is empty"),
    "prose": (lambda body: "I can't.", ("bad",), LEAST, MOST, "the last: the reply holds no JSON object"),
    "one of a panel": (lambda body: MET if body["model"] == "good" else "", ("bad", "good"), LEAST, MOST, "bad: the"),
    # Where some replies are usable, all is asked.
    "only re-asks are usable": (
        lambda body: MET if _is_reask(body) else "Hm.",
        ("bad",),
        2 * JUDGMENTS,
        2 * JUDGMENTS,
        "",
    ),
    "one item is usable": (
        lambda body: MET if "Text 2." in str(body) else "",
        ("bad",),
        3 * JUDGMENTS - 4,
        3 * JUDGMENTS - 4,
        "",
    ),
}


def test_a_judge_without_a_usable_reply_ends_the_run_and_a_repaired_one_resumes_it(tmp_path: Path) -> None:
    rubric = Rubric.from_dict([{"requirement": f"Names cause {n}.", "weight": 1} for n in range(JUDGMENTS // ITEMS)])
    with offenders() as case:
        for name, (say, models, least, most, told) in GRADED.items():
            says = [say]
            with case(name), LoopbackEndpoint(replier=partial(_say_last, says)).in_thread() as endpoint:
                judges = [f"{model}@{endpoint.base_url}" for model in models]
                settings = {"judge": judges, "out": tmp_path / name, "concurrency": CONCURRENCY}
                texts = [f"Text {n}." for n in range(ITEMS)]
                result = grade(texts, rubric=rubric, **settings)
                calls = Counter(one.body["model"] for one in endpoint.received)
                assert least <= calls["bad"] <= most, calls
                assert told in (result.stopped or ""), result.stopped
                assert bool(result.stopped) == bool(told)
                assert "good" not in (result.stopped or "")
                verdicts = [one.final_verdict for item in result.item_results for one in item.report.report or []]
                assert verdicts.count(None) == len(verdicts) or not told  # no verdict is made of a failure
                says.append(lambda body: MET)
                repaired = grade(texts, rubric=rubric, **settings)
                assert [item.report.score for item in repaired.item_results] == [1.0] * ITEMS
                again = Counter(one.body["model"] for one in endpoint.received)
                assert again["good"] in (0, JUDGMENTS)  # nothing is paid twice


def test_few_requests_are_asked_again_at_once_until_a_reply_is_usable(tmp_path: Path) -> None:
    rubric = Rubric.from_dict([{"requirement": "Names a cause.", "weight": 1}])
    says: list[Say] = [lambda body: ""]
    with LoopbackEndpoint(replier=partial(_say_last, says), latency="fixed:0.1").in_thread() as endpoint:
        settings = {"judge": f"m@{endpoint.base_url}", "rubric": rubric, "out": tmp_path, "concurrency": 32}
        texts = [f"Text {n}." for n in range(64)]
        assert grade(texts, **settings).stopped
        # All 32 in flight would be asked three times. Of eight in turn, each is re-asked twice, and so are at most
        # the eight that get their turns.
        assert len(endpoint.received) <= 32 + 2 * 8 + 2 * 8
        says.append(lambda body: MET)
        assert [item.report.score for item in grade(texts, **settings).item_results] == [1.0] * 64


def test_a_run_whose_first_items_are_odd_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    rubric = Rubric.from_dict([{"requirement": f"Names cause {n}.", "weight": 1} for n in range(2)])
    texts = [*(f"Odd {n}." for n in range(6)), *(f"Text {n}." for n in range(8))]
    with LoopbackEndpoint(replier=lambda body: "" if "Odd " in str(body) else MET).in_thread() as endpoint:
        settings = {"judge": f"m@{endpoint.base_url}", "rubric": rubric, "out": tmp_path, "concurrency": 1}
        first, second, third = (grade(texts, **settings) for _ in range(3))
    assert "m: the first 8 judge requests ended without a usable reply" in str(first.stopped)
    assert not any(item.report.score for item in first.item_results)
    for resumed in (second, third):
        assert resumed.stopped is None
        assert [item.report.score for item in resumed.item_results] == [None] * 6 + [1.0] * 8
    # Each session asks three times for each judgment of an odd item that it reaches.
    assert sum("Odd " not in str(one.body) for one in endpoint.received) == 8 * 2
    assert sum("Odd " in str(one.body) for one in endpoint.received) == (4 + 6 + 6) * 2 * 3


def test_a_stage_without_a_usable_reply_ends_the_run_whatever_other_stages_gave(tmp_path: Path) -> None:
    rows = [{"id": str(n), "query": f"Why are there {n}?"} for n in range(25)]

    def say(body: dict[str, Any]) -> str:
        return "A tone." if "rubric" in str(body).lower() else "Because they are counted."

    with LoopbackEndpoint(replier=say).in_thread() as endpoint:
        made = synthesize(rows, out=tmp_path, models=f"m@{endpoint.base_url}", concurrency=CONCURRENCY)
        rubrics = sum("rubric" in str(one.body).lower() for one in endpoint.received)
    assert made.summary is not None
    assert "m: the first 8 rubric requests ended without a usable reply" in made.summary.stopped
    assert LEAST <= rubrics <= 2 * 25 + 2 * 8  # the first calls may all be in flight
