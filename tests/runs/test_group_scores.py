"""Groups of the items of a run, against scipy and statsmodels, and what is said of items that do not count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autorubric
from autorubric import Criterion, InputError, Rubric
from autorubric.metrics.intervals import mean_interval
from autorubric.runs.group_scores import GroupedItem, compare_groups
from tests.offenders import each
from tests.oracles import multipletests, stats


def test_the_differences_are_the_paired_tests_of_scipy_on_shared_queries() -> None:
    rng = np.random.default_rng(1)
    query, shifts = rng.normal(size=30), {"a": 1.0, "b": 0.0, "c": 0.2}
    scores = {name: 1 / (1 + np.exp(-query - shift - rng.normal(size=30))) for name, shift in shifts.items()}
    scores["b"][20:] = np.nan
    rows = [
        GroupedItem(f"{name}{n}", {"model": name}, n, None if np.isnan(score) else float(score), abstained=False)
        for name, found in scores.items()
        for n, score in enumerate(found)
    ]
    # A second answer to the first query: the mean of the two counts in differences, and both in the mean score.
    rows.append(GroupedItem("again", {"model": "a"}, 0, 0.5, abstained=True))
    found = compare_groups(rows, "model")
    assert [(group.name, group.items, group.scored, group.abstained, group.queries) for group in found.groups] == [
        ("a", 31, 31, 1, 30), ("c", 30, 30, 0, 30), ("b", 30, 20, 0, 20),
    ]  # fmt: skip
    b = scores["b"][:20]
    assert found.groups[2].ci is not None
    plain = mean_interval(20, float(b.sum()), float((b**2).sum()), (0.0, 1.0))
    assert (found.groups[2].ci.lower, found.groups[2].ci.upper) == pytest.approx(plain[:2] if plain else None)
    assert found.groups[0].mean == pytest.approx((scores["a"].sum() + 0.5) / 31)
    scores["a"][0] = (scores["a"][0] + 0.5) / 2
    pairs = [("a", "c", 30), ("a", "b", 20), ("c", "b", 20)]
    assert [(pair.first, pair.second, pair.queries) for pair in found.differences] == pairs
    tests = [stats.ttest_rel(scores[first][:n], scores[second][:n]) for first, second, n in pairs]
    assert [pair.p_value for pair in found.differences] == pytest.approx([test.pvalue for test in tests])
    adjusted = multipletests([test.pvalue for test in tests], method="holm")[1]
    assert [pair.p_holm for pair in found.differences] == pytest.approx(list(adjusted))
    for pair, test in zip(found.differences, tests, strict=True):
        assert pair.ci is not None
        assert (pair.ci.lower, pair.ci.upper) == pytest.approx(tuple(test.confidence_interval()))
    [warning] = found.warnings
    assert warning.startswith("10 items without a score: failed, not requested, or")


def rows(*given: tuple[Any, Any, float | None]) -> list[GroupedItem]:
    """Items of a group, a query and a score."""
    return [GroupedItem(str(n), {"by": group}, query, score, False) for n, (group, query, score) in enumerate(given)]


@each(
    ("items", "counts", "pairs", "warning"),
    [
        (rows(("a", 1, 0.5), (None, 1, 0.5), ("", 2, 0.5)), [("a", 1)], 0, "2 items without 'by' are in no group"),
        (rows(("a", 1, None), ("b", 1, 0.5)), [("b", 1), ("a", 0)], 0, "1 item without a score"),
        (rows(("a", 1, 0.5), ("b", 2, 0.4)), [("a", 1), ("b", 1)], 0, "1 pair of groups with no query in common"),
        (rows(("a", 1, 0.5), ("b", 1, 0.4)), [("a", 1), ("b", 1)], 1, "no interval for 1 difference"),
        (rows(("a", 1, 0.5), ("a", 1, 0.4)), [("a", 2)], 0, "all answers are to one query"),
        (rows((1, 1, 0.5), ("1", 2, 0.4), (1.0, 3, 0.4)), [("1", 3)], 0, "fewer than 10 queries, so the interval"),
        (rows((False, 1, 0.5), (0.5, 2, 0.0)), [("False", 1), ("0.5", 1)], 0, "no query in common"),
    ],
)  # fmt: skip
def test_what_does_not_count_is_told(
    items: list[GroupedItem], counts: list[tuple[str, int]], pairs: int, warning: str
) -> None:
    found = compare_groups(items, "by")
    assert [(group.name, group.scored) for group in found.groups] == counts
    assert len(found.differences) == pairs
    assert any(warning in one for one in found.warnings), found.warnings
    assert all(group.mean is None for group in found.groups if not group.scored)


@each(
    ("items", "by", "words"),
    [
        (rows(("a", 1, 0.5)), "model", "no item has a value for 'model'; the metadata of the items has by"),
        ([GroupedItem("0", {}, 1, 0.5, False)], "model", "the items have no metadata"),
        (rows((["a"], 1, 0.5)), "by", "item 0: 'by' is of type list; expected a string, number or boolean"),
        (rows(*((n, 1, 0.5) for n in range(101))), "by", "'by' has 101 different values; at most 100 groups"),
    ],
)
def test_other_columns_are_refused(items: list[GroupedItem], by: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        compare_groups(items, by)


def test_a_result_and_a_report_of_its_run_have_the_same_groups(tmp_path: Path) -> None:
    rubric = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
    answers = ["So.", "It is because of that, and of this too.", "No.", "Yes, of course, because I say so."]
    given = [
        {"id": f"{model}{n}", "prompt": f"Why\n{n}?", "submission": answers[(n + shift) % 4], "model": model}
        for model, shift in (("x", 0), ("y", 1), (None, 2))
        for n in range(6)
    ]
    for row in given[6:12]:
        row["prompt"] = str(row["prompt"]).replace("\n", "\r\n") + " \n"
    run = autorubric.grade(given, rubric=rubric, judge="builtin/offline", out=tmp_path / "run")
    found = run.compare_groups("model")
    assert "6 items without 'model' are in no group" in found.warnings
    assert [pair.queries for pair in found.differences] == [6]
    assert autorubric.report(run).numbers["summary"]["scores"]["clusters"] == 6
    assert [(row["name"], row["scored"]) for row in found._build_rows()] == [("x", 6), ("y", 6)]
    stopped = replace(run, total_items=20).compare_groups("model")
    assert stopped.warnings == [*found.warnings, "2 items not started before the run was stopped"]
    shown = autorubric.report(run, by="model").numbers["groups"]
    assert shown["notes"] == found.warnings
    for row, group in zip(shown["groups"], found.groups, strict=True):
        assert group.ci is not None
        assert row["interval"] == pytest.approx([group.ci.lower, group.ci.upper])
        assert {name: row[name] for name in ("name", "items", "scored", "queries", "mean")} == group.model_dump(
            include={"name", "items", "scored", "queries", "mean"}
        )
    [pair], [other] = shown["differences"], found.differences
    assert (pair["difference"], pair["p_holm"]) == pytest.approx((other.difference, other.p_holm))
    for suffix in ("md", "html", "json"):
        made = autorubric.report(run, by="model", out=tmp_path / f"report.{suffix}")
        assert autorubric.verify(made.path, run=run).is_verified
        changed = made.text.replace("6 items without 'model'", "5 items without 'model'").replace(
            "6 items without &#39;model&#39;", "5 items without &#39;model&#39;"
        )
        assert changed != made.text
        (tmp_path / "changed").write_text(changed, encoding="utf-8")
        assert not autorubric.verify(tmp_path / "changed", run=run).is_verified
