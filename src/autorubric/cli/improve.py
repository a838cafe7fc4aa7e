"""`autorubric improve`: change a rubric where labels prove a gain."""

from collections.abc import Iterator
from typing import Any

from autorubric.charts.html import format_float
from autorubric.cli.command import command, run_with_display
from autorubric.cli.spending import print_early_end, print_estimate, print_spending
from autorubric.errors import pluralize
from autorubric.improvement.improvement_page import advise, describe_sets, format_gain, list_warnings, summarize
from autorubric.improvement.run_files import LOG_FILE, PAGE_FILE, RECORD_FILE, RUBRIC_FILE
from autorubric.jobs.improve import ImproveResult, ImproveSettings, improve_async

_EXAMPLES = """
autorubric improve rubric.yaml --labels essays.json --judge openai/gpt-5.1-mini --writer openai/gpt-5.1 --dry-run
autorubric improve rubric.yaml --labels essays.json --judge openai/gpt-5.1-mini --proposals findings.json -o improved
autorubric improve improved/rubric.json --undo Cause -o improved
"""


@command(ImproveSettings, _EXAMPLES)
def improve(settings: ImproveSettings) -> int:
    """Improve a rubric; accept a change only on labels not used to find it.

    A writer model sees the judge's errors on one part of the labelled items and proposes other wordings. These are
    compared on a second part, and the best for each criterion is tested once on a third. The original is kept unless
    the confidence interval of the gain is above 0. To resume a run, run the same command again.
    """
    result = run_with_display(improve_async, settings)
    if result.estimate is not None:
        head = f"{pluralize(result.items, 'item')}; no request was sent"
        print_estimate(head, result.estimate, settings, settings.out)
        print("  the number of calls depends on the writer's proposals; losing candidates are dropped early")
        return 0
    if settings.undo:
        print(f"reverted {', '.join(settings.undo)}; the rubric is in {result.out / RUBRIC_FILE}")
        return 0
    return _print_end(result, settings)


def _print_end(result: ImproveResult, settings: ImproveSettings) -> int:
    if result.record:
        _print(result, weights=settings.weights)
        return 0
    print_spending(result.totals)
    return print_early_end(result.stopped, settings.again, interrupted=result.interrupted) or 0


def _print(result: ImproveResult, *, weights: bool) -> None:
    record, out = result.record, result.out
    print(f"\n{summarize(record)}")
    if result.again:
        print("  decided in an earlier session; the test set is used only once")
    print(f"  items: {describe_sets(record)}")
    skipped = (f"{name}: skipped: {reason}" for name, reason in record["skipped"].items())
    for line in (*skipped, *_format_tests(record), *_format_weights(record, asked=weights), *_format_fates(record)):
        print(f"  {line}")
    for note in list_warnings({**record, "stand_ins": []}):  # already printed
        print(f"  note: {note}")
    print_spending(result.totals)
    print(f"  rubric: {out / RUBRIC_FILE}; report: {out / PAGE_FILE}; record: {out / RECORD_FILE}, {out / LOG_FILE}")


def _format_tests(record: dict[str, Any]) -> Iterator[str]:
    for test in record["tests"]:
        low, high = map(format_gain, test["interval"] or (None, None))
        before, after, noise = (format_float(test[name], 3) for name in ("before", "after", "noise"))
        what = "accepted" if test["accepted"] else "the original stays"
        what += ", then reverted (--undo)" if test.get("taken_back") else ""
        yield (
            f"{test['criterion']}: {what}; {record['against']} {before} -> {after}, "
            f"gain {format_gain(test['difference'])} ({low} to {high}), judge's own noise {noise}"
        )
        yield f"  - {test['old']['requirement']}"
        for text in test["requirements"]:
            yield f"  + {text}"
        if reason := "; ".join(filter(None, (test["reason"], advise(test)))):
            yield f"  {reason}"


def _format_weights(record: dict[str, Any], *, asked: bool) -> Iterator[str]:
    weights = record["weights"]
    if weights:
        what = "accepted" if weights["accepted"] else f"the original weights stay: {weights['reason']}"
        changes = ", ".join(
            f"{change['criterion']} {change['old']:g} -> {change['new']:g}" for change in weights["changes"]
        )
        yield f"weights: {what}; gain {format_gain(weights['difference'])}; {changes}"
    elif asked:
        yield "weights: no other weights fit the scores better"


def _format_fates(record: dict[str, Any]) -> Iterator[str]:
    fates = [trial["fate"] for trial in record["tried"]]
    counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in ("refused", "dropped", "tested") if fate in fates)
    if fates:
        yield f"candidates: {len(fates)} ({counts})"
    for trial in record["tried"]:
        if trial["fate"] == "refused":
            yield f"  refused {trial['name']}: {trial['why']}"
