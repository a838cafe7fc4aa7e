"""The report of an improvement as one HTML file, without script."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from autorubric.charts.html import format_float, format_p_value, load_page_template
from autorubric.charts.svg import Ranged, plot_intervals
from autorubric.errors import pluralize
from autorubric.improvement.improvement_record import diff_words


def render_page(record: Mapping[str, Any]) -> str:
    """Return the report.

    Args:
        record: see `build_record`.
    """
    tests = [_describe_test(test) for test in record["tests"]]
    accepted = sum(test["accepted"] for test in tests)
    return load_page_template("autorubric.improvement").render(
        record=record,
        tests=tests,
        accepted=accepted,
        family=len(tests) + bool(record["weights"]),
        headline=summarize(record),
        warnings=list_warnings(record),
        sets=describe_sets(record),
        chart=_draw_chart(record),
        criteria=_list_criteria(record),
    )


def summarize(record: Mapping[str, Any]) -> str:
    """Return the result in one sentence.

    Example:
        >>> summarize({"tests": [], "weights": None, "criteria": 5, "has_labels": True})
        'no change accepted: no candidate was better than the original; all 5 criteria stay as they are'
    """
    tests = [*record["tests"], *([record["weights"]] if record["weights"] else [])]
    accepted = sum(bool(test["accepted"]) for test in tests)
    basis = "" if record["has_labels"] else ", by panel agreement without labels"
    if not tests:
        stay = f"all {record['criteria']} criteria stay as they are"
        return f"no change accepted{basis}: no candidate was better than the original; {stay}"
    back = ", ".join(record.get("undone", ()))
    since = f"; reverted since: {back}" if back else ""
    tested = pluralize(len(tests), "tested change")
    return f"{accepted} of {tested} accepted{basis}; everything else is unchanged{since}"


def describe_sets(record: Mapping[str, Any]) -> str:
    """Describe the sets: how many items are used to teach, choose and test."""
    items = record["items"]
    total = f"{sum(items.values())} in {record['groups']} groups"
    if without := record.get("unlabelled"):
        total += f" ({without} without labels left out)"
    if record["split"] == "nested":
        return (
            f"{total}: {items['teach']} teach; {items['test']} choose and test in {record['folds']} folds, "
            "each fold tested with what was chosen on the others"
        )
    return f"{total}: {items['teach']} teach, {items['choose']} choose, {items['test']} test"


def list_warnings(record: Mapping[str, Any]) -> list[str]:
    """Return warnings to show before the numbers."""
    found = list(record.get("stand_ins") or [])
    if record["split"] == "nested":
        found.append(
            "The gain is that of choosing and testing in turn (nested cross-validation), and the wording is the one "
            "chosen on all of these items."
        )
    return found


def format_gain(value: float | None) -> str:
    """Return a gain with its sign, or a dash."""
    return "–" if value is None else f"{value:+.3f}"


def advise(test: Mapping[str, Any]) -> str:
    """Return advice on failures and near misses, with the number of items needed; empty if there is none."""
    parts = []
    if test.get("failed"):
        parts.append(f"{pluralize(test['failed'], 'judgment')} of the new wording failed and counted as wrong")
    if test["missed_by"] is not None:
        parts.append(f"missed by {test['missed_by']:.3f}: the interval would have to start above 0")
    if test.get("groups_needed"):
        parts.append(
            f"if the gain of {format_gain(test['difference'])} is real, a test on {test['groups_needed']} "
            "independent items shows it four times in five"
        )
    return "; ".join(parts)


def _describe_test(test: Mapping[str, Any]) -> dict[str, Any]:
    interval = test["interval"]
    shown = "–" if interval is None else f"{format_gain(interval[0])} to {format_gain(interval[1])}"
    cells = [
        *(format_float(test[name], 3) for name in ("before", "after")),
        format_gain(test["difference"]),
        shown,
        format_p_value(test["p_holm"]),
        test["groups"],
        test["changed"],
        format_float(test["noise"], 3),
    ]
    if test["second"] is not None:
        cells.append(format_gain(test["second"]))
    new = " / ".join(test["requirements"])
    if test["check"]:
        new += f" [decided by the check {test['check'].get('name')}]"
    return {**test, "diff": diff_words(test["old"]["requirement"], new), "cells": cells, "advice": advise(test)}


def _draw_chart(record: Mapping[str, Any]) -> Markup:
    rows = [
        Ranged(test["criterion"], test["difference"], *(test["interval"] or (None, None)))
        for test in record["tests"]
        if test["difference"] is not None
    ]
    if not rows:
        return Markup()
    reach = max(abs(end) for row in rows for end in (row.low or 0.0, row.high or 0.0, row.value, 0.1))
    title = "Gain of each tested wording, with its interval"
    return Markup(plot_intervals(title, rows, f"gain in {record['against']}", (-reach, reach)))


def _list_criteria(record: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    names = dict.fromkeys((*record["agreement"], *record["noise"], *record["skipped"]))
    return [
        (
            name,
            format_float(record["agreement"].get(name), 3),
            format_float(record["noise"].get(name), 3),
            record["skipped"].get(name, ""),
        )
        for name in names
    ]
