"""What must not change a number: the unit of weights, the order of items and criteria, and names."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, Rubric
from autorubric.metrics import compute_metrics
from autorubric.metrics.agreement_sums import SUMMED, compute_majority_baseline, sum_items
from autorubric.metrics.arrays import Floats
from autorubric.metrics.compare import compare_judges, compute_differences
from autorubric.metrics.confusion import accuracy, balanced_accuracy, kappas, mcc, precision_recall
from autorubric.metrics.intervals import Interval, wilson_interval
from autorubric.metrics.jackknife import (
    Draws,
    count_effective_items,
    jackknife_intervals,
    kappa_interval,
    mean_kappa_interval,
    share_interval,
)
from autorubric.metrics.table import Column, Points
from tests.offenders import offenders

Make = Callable[..., Any]
DRAWS = Draws(400, seed=3)
OPTIONS = [{"label": label, "value": value} for label, value in (("Low", 0.0), ("Mid", 0.4), ("High", 1.0))]
CRITERIA = [
    Criterion(name="Brief", weight=10, requirement="Is brief"),
    Criterion(name="Lies", weight=-4, requirement="Invents a source"),
    Criterion(name="Tone", weight=3, requirement="Is kind", options=OPTIONS, scale_type="ordinal"),
    Criterion(name="Kind", weight=2, requirement="Which kind?", options=OPTIONS, scale_type="nominal"),
]
COLUMNS = [Column.from_criterion(criterion, place) for place, criterion in enumerate(CRITERIA)]
UNITS = (1 / 3, 0.5, 7.0, 1e-6, 1e6)


def weighted_points(items: int = 40) -> Points:
    """A pair of every item and criterion, of which about 70 % agree, with weights that differ."""
    rng = np.random.default_rng(5)
    row, column = (one.ravel() for one in np.meshgrid(np.arange(items), np.arange(len(COLUMNS)), indexing="ij"))
    sizes = np.array([len(one.categories) for one in COLUMNS])[column]
    truth, other = rng.integers(0, sizes), rng.integers(0, sizes)
    judged = np.where(rng.random(len(row)) < 0.7, truth, other)
    return Points(row, column, truth, judged, judged[None], rng.uniform(0.5, 4.0, len(row)))


def whole(points: Points) -> list[float]:
    """Every statistic and interval of weighted pairs, and those of the difference to a judge that is always right."""
    layout, sums = sum_items(COLUMNS, 40, points)
    _, right = sum_items(COLUMNS, 40, replace(points, judged=points.truth))
    found = layout.summarize(sums.sum(axis=0))[[0, 1, 2, *range(len(SUMMED), len(SUMMED) + len(COLUMNS))]].tolist()
    found.append(compute_majority_baseline(COLUMNS, points))
    for one in layout.compute_intervals(sums, DRAWS):
        found += [] if one.interval is None else one.interval[:2]
    sizes = np.bincount(points.column)
    for gap in compute_differences(layout, (sums, right), ([column.name for column in COLUMNS], sizes, 0), DRAWS):
        found += [] if gap.ci is None else [gap.difference, gap.ci.lower, gap.ci.upper, gap.p_value]
    return [float(number) for number in found]


def test_weights_have_no_unit_in_any_statistic_of_weighted_pairs() -> None:
    points = weighted_points()
    assert points.weights is not None
    bare, weights = whole(replace(points, weights=None)), points.weights
    expected = whole(points)
    assert len(expected) >= 40 and expected != pytest.approx(bare, abs=1e-3)
    with offenders() as case:
        for unit in UNITS:
            with case(f"equal weights of {unit}"):
                assert whole(replace(points, weights=np.full(len(points), unit))) == pytest.approx(bare, abs=1e-12)
            with case(f"times {unit}"):
                assert whole(replace(points, weights=unit * weights)) == pytest.approx(expected, abs=1e-9)


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


def test_weights_have_no_unit_in_any_kernel() -> None:
    rng = np.random.default_rng(1)
    one_pair = np.repeat(np.eye(4).reshape(4, 2, 2), (14, 2, 1, 13), axis=0) * rng.uniform(0.5, 3, (30, 1, 1))
    three = np.repeat(np.eye(9).reshape(9, 3, 3), (9, 1, 2, 1, 8, 0, 2, 1, 6), axis=0) * rng.uniform(1, 2, (30, 1, 1))
    table, weights, both = three.sum(axis=0), [np.eye(2)] * 2, np.eye(3)
    hits, sizes = one_pair[:, 0, 0] + one_pair[:, 1, 1], one_pair.sum(axis=(1, 2))
    other = one_pair[::-1]

    def share(sums: Floats) -> Floats:
        return np.asarray(sums[..., :1] / sums[..., 1:])

    kernels: dict[str, Callable[[float], Any]] = {
        "kappa": lambda c: float(kappas(c * table)),
        "accuracy": lambda c: accuracy(c * table),
        "balanced accuracy": lambda c: balanced_accuracy(c * table),
        "precision and recall": lambda c: tuple(precision_recall(c * table, 1)),
        "MCC": lambda c: mcc(c * table),
        "posterior of kappa": lambda c: ends(kappa_interval(c * one_pair, np.eye(2), DRAWS).interval),
        "jackknife of kappa": lambda c: ends(kappa_interval(c * three, both, DRAWS).interval),
        "mean kappa": lambda c: ends(mean_kappa_interval([c * one_pair, c * other], weights, DRAWS)),
        "share": lambda c: ends(share_interval(c * hits, c * sizes)),
        "effective items": lambda c: count_effective_items(c * sizes),
        "jackknife": lambda c: ends(
            jackknife_intervals(c * np.column_stack([hits, sizes]), share, ["plain"], 0.95)[0]
        ),
    }  # fmt: skip
    with offenders() as case:
        for name, kernel in kernels.items():
            for unit in UNITS:
                with case(f"{name}, times {unit}"):
                    assert kernel(unit) == pytest.approx(kernel(1.0), abs=1e-9)


def test_items_of_one_pair_and_one_weight_have_the_plain_intervals() -> None:
    tables = np.repeat(np.eye(4).reshape(4, 2, 2), (14, 2, 1, 13), axis=0)
    plain, hits = kappa_interval(tables, np.eye(2), DRAWS).interval, np.array([1.0] * 27 + [0.0] * 3)
    for unit in UNITS:
        assert kappa_interval(unit * tables, np.eye(2), DRAWS).interval == pytest.approx(plain, abs=1e-9)
        assert share_interval(unit * hits, np.full(30, unit)) == pytest.approx(wilson_interval(27, 30), abs=1e-12)


def test_an_agreement_without_an_error_is_worth_the_effective_number_of_items() -> None:
    # Kish (1965): weights 1, 1, 2 and 4 are worth 8²/22 = 2.909 items, each of which has one label of 2 in 8.
    weights = np.array([1.0, 1.0, 2.0, 4.0])
    tables = weights[:, None, None] * np.eye(4).reshape(4, 2, 2)[[0, 0, 3, 3]]
    worth = 64 / 22
    assert share_interval(weights, weights) == wilson_interval(worth, worth)
    shapes = np.array([2.0, 0.0, 0.0, 6.0]) * worth / 8 + 0.5
    cells = np.random.default_rng(DRAWS.seed).standard_gamma(shapes, (DRAWS.count_kappa_draws(4), 4))
    low = np.quantile(kappas(cells.reshape(-1, 2, 2)), 0.025)
    assert ends(kappa_interval(tables, np.eye(2), DRAWS).interval) == pytest.approx((low, 1.0))


Row = tuple[list[str] | None, dict[str, list[str]]]


def random_rows(seed: int, items: int = 25) -> list[Row]:
    """Labels and the verdicts of three judges, of which about two thirds agree."""
    draw = random.Random(seed)

    def words() -> list[str]:
        binary = ["MET", "UNMET", "CANNOT_ASSESS"]
        labels = [one["label"] for one in OPTIONS]
        return [str(draw.choice(labels) if c.options else draw.choices(binary, (9, 9, 2))[0]) for c in CRITERIA]

    rows: list[Row] = []
    for _ in range(items):
        truth = words()
        said = {
            judge: [one if draw.random() < 0.6 else other for one, other in zip(truth, words(), strict=True)]
            for judge in ("a", "b", "c")
        }
        rows.append((truth, said))
    return rows


def numbers(found: Any, name: str = "") -> dict[str, Any]:
    """All values of a result by their path; criteria by name, judges by place."""
    if isinstance(found, Mapping):
        pairs = [(str(key), value) for key, value in found.items() if key not in ("index", "judge_id", "warnings")]
    elif isinstance(found, list | tuple):
        pairs = [(str(one.get("name", n)) if isinstance(one, dict) else str(n), one) for n, one in enumerate(found)]
    else:
        return {name: found}
    return {path: value for key, one in pairs for path, value in numbers(one, f"{name}/{key}").items()}


def measured(graded: Make, rows: Sequence[Row], criteria: Sequence[Criterion] = CRITERIA) -> dict[str, Any]:
    made = graded(criteria)
    for truth, said in rows:
        made.add(truth, said)
    found = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=50, per_judge=True, seed=0)
    whole = found.model_dump()
    return numbers({**whole, "per_judge": list(whole["per_judge"].values())})


def differing(one: dict[str, Any], other: dict[str, Any], without: str = "") -> dict[str, Any]:
    """The values that differ, other than those whose path contains a word."""
    assert one.keys() == other.keys()
    return {
        path: (value, other[path])
        for path, value in one.items()
        if not (without and without in path)
        and (other[path] != pytest.approx(value, abs=1e-9) if isinstance(value, float) else other[path] != value)
    }


def test_order_and_names_change_no_number(graded: Make) -> None:
    with offenders() as case:
        for seed in range(3):
            rows = random_rows(seed)
            expected = measured(graded, rows)
            mixed = random.Random(seed).sample(rows, len(rows))
            with case(f"{seed}: items in another order"):
                assert differing(expected, measured(graded, mixed)) == {}
            others: list[Row] = [(truth, dict(zip("zyx", said.values(), strict=True))) for truth, said in rows]
            with case(f"{seed}: judges with other names"):
                assert differing(expected, measured(graded, others)) == {}
            with case(f"{seed}: items without labels"):
                bare: list[Row] = [(None, said) for _, said in random_rows(9, 4)]
                assert differing(expected, measured(graded, [*rows, *bare])) == {}
            renamed = [one.model_copy(update={"name": f"x{n}"}) for n, one in enumerate(CRITERIA)]
            with case(f"{seed}: criteria with other names"):
                found = measured(graded, rows, renamed)
                assert list(map(str, found.values())) == [
                    f"x{[one.name for one in CRITERIA].index(value)}" if path.endswith("/name") else str(value)
                    for path, value in expected.items()
                ]
            order = [2, 0, 3, 1]
            moved: list[Row] = [
                (truth and [truth[n] for n in order], {j: [w[n] for n in order] for j, w in said.items()})
                for truth, said in rows
            ]
            with case(f"{seed}: criteria in another order"):
                # The interval of the mean κ is drawn criterion by criterion.
                found = measured(graded, moved, [CRITERIA[n] for n in order])
                assert differing(expected, found, "kappa_ci") == {}


def test_labels_and_verdicts_that_change_places_have_the_same_agreement(graded: Make) -> None:
    symmetric = (
        "criterion_accuracy", "macro_accuracy", "mean_kappa", "micro_kappa", "criterion_gwet", "criterion_phi",
        "score_rmse", "score_mae", "accuracy_ci/lower", "accuracy_ci/upper",
    )  # fmt: skip
    each = ("gwet", "mcc", "accuracy_ci/lower", "accuracy_ci/upper")
    names = [f"/{name}" for name in symmetric]
    names += [f"/per_criterion/{one.name}/{name}" for one in CRITERIA for name in each]
    with offenders() as case:
        for seed in range(3):
            rows: list[Row] = [(truth, {"a": said["a"]}) for truth, said in random_rows(seed)]
            swapped: list[Row] = [(said["a"], {"a": truth or []}) for truth, said in rows]
            one, other = measured(graded, rows), measured(graded, swapped)
            with case(f"{seed}"):
                assert [one[name] for name in names] == pytest.approx([other[name] for name in names])
                assert one["/criterion_precision"] == pytest.approx(other["/criterion_recall"])
                assert one["/bias/mean_bias"] == pytest.approx(-other["/bias/mean_bias"])


def test_every_item_twice_has_the_same_values_and_narrower_intervals(graded: Make) -> None:
    rows = random_rows(4)
    one, two = measured(graded, rows), measured(graded, [*rows, *rows])
    for name in ("criterion_accuracy", "mean_kappa", "micro_kappa", "criterion_gwet", "score_rmse", "score_mae"):
        assert one[f"/{name}"] == pytest.approx(two[f"/{name}"])
    for name in ("accuracy_ci", "kappa_ci", "micro_kappa_ci", "rmse_ci"):
        first, second = ([found[f"/bootstrap/{name}/{end}"] for end in "01"] for found in (one, two))
        # A square root of 2, but for the half pairs at the ends.
        assert (first[1] - first[0]) / (second[1] - second[0]) == pytest.approx(2**0.5, rel=0.2)


def test_two_judges_that_change_places_differ_by_the_same_amount(graded: Make) -> None:
    rows = random_rows(5)
    runs = []
    for judge in "ab":
        made = graded(CRITERIA)
        for truth, said in rows:
            made.add(truth, {judge: said[judge]})
        runs.append(made)
    there, back = (
        compare_judges(one.run, other.run, one.dataset, n_replicates=300, seed=0) for one, other in (runs, runs[::-1])
    )
    for one, other in zip([there.accuracy, *there.per_criterion], [back.accuracy, *back.per_criterion], strict=True):
        assert one.ci is not None and other.ci is not None
        assert (one.difference, one.p_value) == pytest.approx((-(other.difference or 0.0), other.p_value))
        assert (one.ci.lower, one.ci.upper) == pytest.approx((-other.ci.upper, -other.ci.lower))


def test_rubrics_of_their_own_that_are_alike_have_the_numbers_of_one_rubric(graded: Make) -> None:
    rows = random_rows(6)
    made, own = graded(CRITERIA), graded(CRITERIA, shared=False)
    for truth, said in rows:
        made.add(truth, said)
        own.add(truth, said, Rubric(list(CRITERIA)))
    first, second = (numbers(compute_metrics(one.run, one.dataset).model_dump()) for one in (made, own))
    assert differing(first, second) == {}
