"""`autorubric synthesize`: turn queries into rubrics."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from autorubric.cli import EXIT_DETACHED, EXIT_INTERRUPTED, EXIT_UNFINISHED
from autorubric.cli.command import command, run_with_display
from autorubric.cli.spending import (
    format_division,
    list_budget_cover,
    print_early_end,
    print_failures,
    print_spending,
)
from autorubric.errors import pluralize
from autorubric.files.printable import align_columns, escape_controls
from autorubric.jobs.synthesize import SynthesizeSettings, synthesize_async
from autorubric.runs.progress import format_cost, format_count, format_duration
from autorubric.synthesis.run_summary import UNFINISHED_FILE, Summary, SynthesisResult

if TYPE_CHECKING:
    from autorubric.llm.limits import ModelEstimate
    from autorubric.synthesis.plan_estimate import NeededCalls, PlanEstimate

_EXAMPLES = """
autorubric synthesize queries.jsonl --models openai/gpt-5.1 -o rubrics
autorubric synthesize queries.csv --question-column prompt --models qwen@http://localhost:8000/v1 --dry-run
autorubric synthesize queries.jsonl --profile full --models openai/gpt-5.1 --budget-usd 20 -o rubrics
"""


@command(SynthesizeSettings, _EXAMPLES)
def synthesize(settings: SynthesizeSettings) -> int:
    """Turn queries into rubrics: answers, candidate rubrics, a merge, harder criteria.

    To resume a run, run the same command again: only missing and failed requests are sent.
    """
    result = run_with_display(synthesize_async, settings, notice=partial(print, file=sys.stderr))
    if result.estimate is not None:
        print_estimate(result.estimate)
        for line in list_budget_cover(result.estimate.slots.values(), settings, settings.out):
            print(line)
        if settings.is_divided:
            print(format_division(result.estimate.slots.values()))
        return 0
    return print_result(result, settings)


def print_result(result: SynthesisResult, settings: SynthesizeSettings) -> int:
    """Print how a run ended; return its exit status."""
    summary = result.summary
    assert summary is not None
    print_summary(summary, result.out)
    for note in result.negotiated:
        print(f"  note: {note}")
    if settings.show:
        print_rubrics(result.out, settings.show)
    stopped = None if settings.export_only else summary.stopped
    ended = None
    if stopped or result.interrupted:
        advice = "" if summary.failed else result.advice  # the failures above include it
        ended = print_early_end(stopped, settings.again, interrupted=result.interrupted, advice=advice)
    if ended in (EXIT_INTERRUPTED, EXIT_DETACHED):
        return ended
    if ended is None and not summary.complete:
        rest = "retry what failed" if summary.failed or not summary.skipped else "correct and add the rows left out"
        what = "request what is missing" if settings.export_only else rest
        print(f"{what} with:\n  {settings.again}")
    return 0 if summary.complete else EXIT_UNFINISHED


def print_summary(summary: Summary, out: Path) -> None:
    """Print what was done, what it cost, and what is not finished."""
    print(
        f"\n{summary.finished} of {pluralize(summary.rows, 'query')} finished in {format_duration(summary.seconds)}"
    )
    if summary.exported:
        files = f"{out / 'final.parquet'} and {out / 'final.jsonl'}"
        criteria = pluralize(summary.exported.criteria, "criterion")
        print(f"  {pluralize(summary.exported.rows, 'rubric')} with {criteria} in {files}")
        for remark in summary.exported.remarks:
            print(f"  {remark}")
        if summary.exported.remarks:
            print(f"  `autorubric lint {out / 'final.jsonl'}` reports more")
    for line in (line for tally in summary.tallies.values() for line in tally.format_lines()):
        print(f"  {line}")
    print_spending(summary.totals)
    _print_counts(summary)
    _print_rest(summary, out)


def _print_rest(summary: Summary, out: Path) -> None:
    """Print what is not finished or was left out."""
    if summary.failed:
        rows = "1 row is" if summary.failed == 1 else f"{summary.failed} rows are"
        print(f"  {rows} not finished; {out / UNFINISHED_FILE} lists what failed, with reasons:")
        print_failures(summary.failures, "row", "    ", summary.stopped)
    if left := summary.rows - summary.finished - summary.failed:
        print(f"  {pluralize(left, 'query')} {'was' if left == 1 else 'were'} not finished in this session")
    for problem in summary.skipped[:5]:
        print(f"  left out: {problem}")
    if len(summary.skipped) > 5:
        print(f"  and {len(summary.skipped) - 5} more input rows were skipped")


def _print_counts(summary: Summary) -> None:
    replaced = {
        "another question has their id or line:": summary.replaced["changed"],
        "moved to another id or line:": summary.replaced["moved"],
    }
    for what, counts in (
        ("reused from earlier files", summary.reused),
        ("sent again because their inputs had changed", summary.stale),
        ("input columns replaced by generated ones", summary.overwritten),
        ("rows that were replaced", {why: rows for why, rows in replaced.items() if rows}),
    ):
        if counts:
            print(f"  {what}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    for example, count in summary.count_notes().items():
        print(f"  note: {example}" if count == 1 else f"  note, {count:,} times, such as: {example}")


def print_rubrics(out: Path, count: int) -> None:
    """Print the first finished rubrics for human readers."""
    path = out / "final.jsonl"
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in islice(lines, count):
            row = json.loads(line)
            print(f"\n{row['question']}")
            for criterion in row["rubrics"]:
                print(f"  {criterion['points']:>3}  {criterion['criterion']}")


def print_estimate(estimate: PlanEstimate) -> None:
    """Print calls, tokens and cost of a run that was not started."""
    from autorubric.synthesis import evolution, rubric_merge

    names = ("role", "model", "calls", "tokens in", "tokens out", "cost", "tokens at most", "cost at most")
    slots = [
        (slot, escape_controls(row.model.name), *_format_estimate([row])) for slot, row in estimate.slots.items()
    ]
    total = ("total", "", *_format_estimate(list(estimate.slots.values())))
    print(f"{pluralize(estimate.queries, 'query')}; no request was sent")
    print(*align_columns([names, *slots, total], right=range(2, len(names))), sep="\n")
    merged, evolved = rubric_merge.EXAMPLE_CRITERIA, evolution.EXAMPLE_CRITERIA
    assumed = f"{merged} merged criteria per query and {evolved} evolved ones per round"
    exact = f" for {assumed}," if next(iter(estimate.judges), "") == "criterion" else ""
    print(
        f"Calls are exact{exact} if no request has to be repeated. Tokens are estimated from the first rows, at 4 "
        "bytes a token and usual reply lengths; the maximum assumes one token per byte and replies at their first "
        "limit."
    )
    _print_calls(estimate.per_query, estimate.needed)
    if estimate.judges:
        print(f"Judges, for {assumed}, and one rewrite:")
    for place, (judging, price) in enumerate(estimate.judges.items()):
        chosen = " (this run)" if place == 0 else ""
        print(f"  --judging {judging}: {pluralize(price.calls, 'call')}, {format_cost(price.cost)}{chosen}")


def _print_calls(each: NeededCalls, needed: NeededCalls) -> None:
    """Print the calls of one query, and what conditions can add to the run."""
    more, calls = Counter[str](), each.fixed.total()
    for (condition, *_), added in each.conditional.items():
        more[condition] += added
    print(f"{pluralize(calls, 'call')} per query" + ("" if not more else ", and"))
    for condition, added in more.items():
        print(f"  {added} more if {condition}")
    if more:
        print(f"at most {needed.conditional.total():,} more calls in this run; the maximum above includes them")


def _format_estimate(rows: Sequence[ModelEstimate]) -> list[str]:
    """Calls, tokens and cost of slots together; a sum with an unknown part is unknown."""
    most = [row.most for row in rows if row.most is not None]
    bounded = len(most) == len(rows)
    return [
        f"{sum(row.calls for row in rows):,}",
        format_count(sum(row.usage.prompt_tokens for row in rows)),
        format_count(sum(row.usage.completion_tokens for row in rows)),
        _format_total_cost([row.cost for row in rows]),
        format_count(sum(usage.total_tokens for usage in most)) if bounded else "unbounded",
        _format_total_cost([None if row.most is None else row.model.cost(row.most) for row in rows]),
    ]


def _format_total_cost(costs: Sequence[float | None]) -> str:
    known = [cost for cost in costs if cost is not None]
    return format_cost(sum(known) if len(known) == len(costs) else None)
