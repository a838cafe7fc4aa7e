"""Calls wait in the order in which their records were begun, so that a budget that ends leaves finished records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from autorubric import Criterion, Rubric, RubricDataset, grade, reward, select, synthesize
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.testing import LoopbackEndpoint
from tests.offenders import offenders

EXAMPLES = Path(__file__).parents[2] / "examples" / "queries.jsonl"
RECORDS, CRITERIA = 40, 3
Run: TypeAlias = Callable[..., int]
"""Runs in a directory with further settings; how many records are finished."""


def dataset(records: int = RECORDS) -> RubricDataset:
    rubric = Rubric([Criterion(name=f"c{n}", requirement=f"Names cause {n}.") for n in range(CRITERIA)])
    made = RubricDataset("Explain the tides.", rubric)
    for number in range(records):
        made.add_item(f"The moon pulls, {number:03}.", "", id=f"e{number}")
    return made


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def graded(judge: str, out: Path, **settings: Any) -> int:
    return sum(item.error is None for item in grade(dataset(), judge=judge, out=out, **settings).item_results)


def rewarded(judge: str, out: Path, **settings: Any) -> int:
    return sum(one.value is not None for one in reward(dataset(), judge=judge, out=out, **settings))


def selected(judge: str, out: Path, **settings: Any) -> int:
    rubrics = [{"criterion": f"Names cause {n}.", "points": 1} for n in range(CRITERIA)]
    rows = [{"id": f"q{n}", "question": f"Why {n}?", "rubrics": rubrics} for n in range(RECORDS)]
    queries = written(out.parent / "queries.jsonl", rows)
    answers = [{"id": f"q{n}", "answer": f"The moon, {n}."} for n in range(RECORDS)]
    select(queries, candidates=written(out.parent / "answers.jsonl", answers), judge=judge, out=out, **settings)
    decisions = [json.loads(line) for line in (out / "decisions.jsonl").read_bytes().splitlines()]
    return sum(one["score"] is not None for row in decisions for one in row["candidates"])


def synthesized(model: str, out: Path, **settings: Any) -> int:
    rows = [{"id": f"q{n}", "question": f"Why {n}?"} for n in range(RECORDS)]
    synthesize(written(out.parent / "inputs.jsonl", rows), models=model, out=out, **settings)
    return len((out / "final.jsonl").read_bytes().splitlines())


def spent(out: Path) -> int:
    with ledger_view(out / "ledger") as view:
        return view.sum_spent().tokens


def test_a_budget_for_half_of_the_calls_finishes_about_half_of_the_records(tmp_path: Path) -> None:
    runs: dict[str, Run] = {"grade": graded, "reward": rewarded, "select": selected, "synthesize": synthesized}
    with offenders() as case, LoopbackEndpoint(latency="fixed:0.02").in_thread() as endpoint:
        for name, run in runs.items():
            with case(name):
                model, whole, half = f"m@{endpoint.base_url}", tmp_path / f"{name}-whole", tmp_path / f"{name}-half"
                assert run(model, whole) == RECORDS
                budget = spent(whole) // 2
                # At the default concurrency all records could be begun at once; the last call that the budget
                # does not cover in the worst case leaves a part of it.
                assert 0.35 * RECORDS <= run(model, half, budget_tokens=budget) <= RECORDS / 2
                assert spent(half) <= budget


@pytest.mark.usefixtures("forked")
def test_synthesize_with_any_concurrency_finishes_as_many_queries_as_a_budget_covers(tmp_path: Path) -> None:
    cases: dict[str, dict[str, Any]] = {
        "basic": {"limit": 30},
        "basic, two processes": {"limit": 30, "processes": 2},
        "full": {"limit": 6, "profile": "full"},
    }
    with offenders() as case:
        for name, settings in cases.items():
            with case(name):
                whole, half = tmp_path / f"{name}-whole", tmp_path / f"{name}-half"
                synthesize(EXAMPLES, out=whole, models="builtin/offline", **settings)
                limits = {"budget_tokens": spent(whole) // 2, "concurrency": 30}
                synthesize(EXAMPLES, out=half, models="builtin/offline", **settings, **limits)
                finished = len((half / "final.jsonl").read_bytes().splitlines())
                assert settings["limit"] / 5 <= finished <= settings["limit"] / 2 + 1
                assert spent(half) <= limits["budget_tokens"]


def test_few_records_are_begun_and_not_finished_although_all_wait_at_once(tmp_path: Path) -> None:
    order: list[str] = []

    def note(body: dict[str, Any]) -> None:
        text = str(body["messages"])
        order.append(text[text.index("The moon pulls, ") :][:19])

    with LoopbackEndpoint(latency="fixed:0.05", faults=note).in_thread() as endpoint:
        assert rewarded(f"m@{endpoint.base_url}", tmp_path / "run", concurrency=4) == RECORDS
    assert len(order) == RECORDS * CRITERIA
    asked: Counter[str] = Counter()
    most = 0
    for text in order:
        asked[text] += 1
        most = max(most, sum(count < CRITERIA for count in asked.values()))
    # Four in flight; while a reply is written to the disk, its place goes to the next submission.
    assert 1 < most <= RECORDS / 2
