"""`autorubric select`: training data from scored answers."""

from collections.abc import Iterable

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.command import command, run_with_display
from autorubric.cli.spending import print_early_end, print_estimate, print_failures, print_spending
from autorubric.errors import pluralize
from autorubric.jobs.select import SelectSettings, select_async
from autorubric.jobs.selection_run import SelectionResult
from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.records.accounts import UsageTotals
from autorubric.training.selection_summary import Selected, SelectionSummary

_EXAMPLES = """
autorubric select graded --threshold 0.8 --keep pairs -o selection
autorubric select final.jsonl --sample openai/gpt-5.1-mini -k 8 --judge openai/gpt-5.1 --dry-run
"""


@command(SelectSettings, _EXAMPLES)
def select(settings: SelectSettings) -> int:
    """Select answers to train on by their rubric scores.

    Scores of a finished run of `autorubric grade` are used as they are; otherwise, the candidates are graded first.
    To resume a run, run the same command again: only missing and failed requests are sent.
    """
    result = run_with_display(select_async, settings)
    if result.estimate is not None:
        head = (
            f"{pluralize(result.queries, 'query')}, {pluralize(result.candidates, 'candidate')}; no request was sent"
        )
        return print_estimate(head, result.estimate, settings, settings.out, divided=settings.is_divided)
    return print_result(result, settings)


def print_result(result: SelectionResult, settings: SelectSettings) -> int:
    """Print how a run ended; return its exit status."""
    for note in result.negotiated:
        print(f"note: {note}")
    if result.written is not None:
        print_selection(result.written, result.totals, result.failures, result.stopped)
        taken = "" if result.graded_run is None else f"; scores are from {result.graded_run}"
        print(f"  results are in {settings.out}{taken}")
    ended = print_early_end(result.stopped, settings.again, interrupted=result.interrupted)
    if ended is not None:
        return ended
    failed = len(result.failures) > 0
    if failed and result.graded_run is None:
        print(f"retry what failed with:\n  {settings.again}")
    elif failed and result.again:
        print(f"retry what failed, then select again:\n  {result.again}")
    kept = result.written is not None and result.written.summary.answers
    return 0 if kept and not failed else EXIT_UNFINISHED


_EVERY_K = 8  # further points of the curve are printed for powers of two and the last one


def print_selection(
    written: Selected, totals: Iterable[UsageTotals], failures: FailureGroups, stopped: str | None = None
) -> None:
    """Print what was kept, the curve of K, shares by domain, lengths, failures and cost."""
    summary = written.summary
    total, keep = summary.total, summary.keep
    found = f"an answer above {keep.threshold:g}"
    if keep.pairs:
        found = f"a pair (best above {keep.threshold:g}, margin {keep.margin:g})"
    verb = "has" if total.selected == 1 else "have"
    print(
        f"\n{total.selected} of {pluralize(total.queries, 'query')} {verb} {found}; "
        f"{total.dropped} dropped, {total.undecided} undecided; {pluralize(summary.answers, 'answer')} kept"
    )
    for line in (*_format_spread(written), *_format_curve(summary), *_format_shares(summary)):
        print(f"  {line}")
    if written.flagged:
        print(f"  {written.flagged} kept answers may contain a prompt injection; see 'flags' in items.jsonl")
    if summary.unjudged:
        print(f"  no score for {pluralize(summary.unjudged, 'candidate')}; see 'failure' in decisions.jsonl")
    print_spending(list(totals))
    print_failures(failures, "candidate", told=stopped)


def _format_spread(written: Selected) -> Iterable[str]:
    """If nothing was kept: the distribution of scores, and what lower thresholds would keep."""
    spread, threshold = written.summary.spread, written.summary.keep.threshold
    if written.summary.answers or spread is None:
        return
    low, lower, median, upper, high = spread.quartiles
    yield (
        f"scores of {spread.count} candidates: min {low:.3f}, quartiles {lower:.3f}, {median:.3f} and {upper:.3f}, "
        f"max {high:.3f}"
    )
    tenths = [f"{n / 10:.1f}-{(n + 1) / 10:.1f}: {count}" for n, count in enumerate(spread.tenths) if count]
    yield f"candidates by score: {', '.join(tenths)}"
    for offer in written.lower_thresholds:
        kept = f"{pluralize(offer.answers, 'answer')} to {pluralize(offer.queries, 'query')}"
        yield f"--threshold {offer.threshold:g} would keep {kept}"
    if not written.lower_thresholds:
        yield f"no threshold below {threshold:g} would keep anything" if threshold else "no score is above 0"


def _format_curve(summary: SelectionSummary) -> Iterable[str]:
    if not summary.curve:
        return
    yield "candidates, expected best score, queries with one above the threshold:"
    for point in summary.curve:
        if point.k > _EVERY_K and point.k & (point.k - 1) and point is not summary.curve[-1]:
            continue  # selection.json has them all
        fewer = "" if point.queries == summary.total.queries else f" (over {pluralize(point.queries, 'query')})"
        yield f"  {point.k}: {point.score:.3f}, {point.kept:.1%}{fewer}"


def _format_shares(summary: SelectionSummary) -> Iterable[str]:
    """Yield what was kept by source and by model, and the lengths of answers."""
    for found in summary.by_source if len(summary.by_source) > 1 else ():
        decided = found.selected + found.dropped
        share = "none decided" if found.share is None else f"{found.share:.1%} of the {decided} decided"
        yield f"{found.source or '(no source)'}: {found.selected} of {found.queries} selected, {share}"
    if len(summary.by_model) > 1:
        yield "kept by model: " + ", ".join(f"{model} {count}" for model, count in summary.by_model.items())
    lengths = summary.lengths
    if lengths.chosen is not None and lengths.others is not None:
        means = f"{lengths.chosen:.0f} words kept, {lengths.others:.0f} words not kept"
        yield f"mean length, over the queries with both: {means}"
