"""`autorubric grade`: score submissions."""

import math
import sys
from collections.abc import Iterable

from autorubric.cli import EXIT_SCORE, EXIT_UNFINISHED
from autorubric.cli.command import command, run_with_display
from autorubric.cli.spending import print_early_end, print_estimate, print_failures, print_spending
from autorubric.errors import pluralize
from autorubric.jobs.grade import GradeSettings, grade_async
from autorubric.llm.records.accounts import UsageTotals
from autorubric.runs.result import EvalResult
from autorubric.runs.summary import EvaluationSummary

_EXAMPLES = """
autorubric grade essays.json --judge openai/gpt-5.1 -o graded
autorubric grade answers.csv --rubric rubric.yaml --judge qwen@http://localhost:8000/v1 --dry-run
"""


@command(GradeSettings, _EXAMPLES)
def grade(settings: GradeSettings) -> int:
    """Grade submissions criterion by criterion, with LLM judges, checks or both.

    To resume a run, run the same command again: only missing and failed requests are sent.
    """
    result = run_with_display(grade_async, settings, keep=False)
    if result.estimate is not None:
        head = f"{pluralize(result.total_items, 'item')}; no request was sent"
        return print_estimate(head, result.estimate, settings, settings.out, divided=settings.is_divided)
    return print_result(result, settings)


def print_result(result: EvalResult, settings: GradeSettings) -> int:
    """Print how a run ended; return its exit status."""
    summary = result.summary
    assert summary is not None
    print_grades(summary, summary.totals, summary.negotiated, result.stopped)
    print(f"  results are in {settings.out}")
    ended = print_early_end(result.stopped, settings.again, interrupted=summary.interrupted)
    if ended is not None:
        return ended
    if len(summary.failures) or summary.ended < summary.total:
        shards = "finish or add the missing shards, then merge again with"
        print(f"{'retry what failed with' if settings.parts is None else shards}:\n  {settings.again}")
        return EXIT_UNFINISHED
    if settings.quorum is not None and len(summary.lost_votes):
        print("  --replace with a higher --quorum requests the missing votes again")
    mean = summary.scores.mean if summary.scores.count else -math.inf
    least = settings.fail_under
    # The mean of 1, 0.7 and 0.7 is just below 0.8 in binary.
    if least is not None and round(mean, 12) < least:
        shown = "no item has a score" if mean == -math.inf else f"the mean score is {mean:.12g}, below {least:.12g}"
        print(f"--fail-under: {shown}", file=sys.stderr)
        return EXIT_SCORE
    return 0


_MOST_SHOWN = 5
_DOUBTS = {
    "unsupported": "the submission does not contain the quote, or nothing is quoted",
    "judged_whole": "the list of demands does not fit the criterion, which was judged as a whole",
    "contradictory": "the explanation concludes the opposite of the verdict",
}


def print_grades(
    summary: EvaluationSummary,
    totals: Iterable[UsageTotals],
    negotiated: Iterable[str] = (),
    stopped: str | None = None,
) -> None:
    """Print scores, coverage, influential criteria, failures, cost, and parameters that endpoints did not accept."""
    print(f"\n{summary.graded} of {pluralize(summary.total, 'item')} graded")
    for line in _format_scores(summary):
        print(f"  {line}")
    ranked = summary.rank_by_influence(_MOST_SHOWN)
    if ranked:
        print("  most influential criteria (weight, mean verdict, share of weight x variance):")
        whole = math.fsum(criterion.influence for criterion in summary.criteria.values())
        for criterion in ranked:
            share = 100 * criterion.influence / whole
            print(f"    {criterion.name}: {criterion.weight:g}, {criterion.values.mean:.2f}, {share:.0f}%")
    for line in (*_format_panel(summary), *_format_consistency(summary), *_format_doubts(summary)):
        print(f"  {line}")
    print_spending(list(totals))
    for note in negotiated:
        print(f"  note: {note}")
    print_failures(summary.failures, "judgment", told=stopped)
    print_failures(summary.lost_votes, "vote", told=stopped)


def _format_panel(summary: EvaluationSummary) -> Iterable[str]:
    panel = summary.panel
    if panel.agreement is None:
        return
    ends, worst = panel.compute_interval(), panel.worst
    interval = "" if ends is None else f" (95% confidence interval {ends[0]:.3f} to {ends[1]:.3f})"
    least = "" if worst is None else f", lowest on {worst[0]!r} ({worst[1]:.3f})"
    yield f"two judges agree on {panel.agreement:.3f} of {panel.pairs:,} pairs of verdicts{interval}{least}"


def _format_consistency(summary: EvaluationSummary) -> Iterable[str]:
    for judge in summary.consistency.values():
        if judge.agreement is None or judge.unanimous_share is None:
            continue
        ends = judge.compute_interval()
        interval = "" if ends is None else f", 95% interval {ends[0]:.3f} to {ends[1]:.3f}"
        spread = "" if judge.variance is None else f"; variance within the judge {judge.variance:.3f}"
        yield (
            f"self-consistency of {judge.judge_id}: two repeats agree in {judge.agreement:.3f}{interval}, all "
            f"repeats in {judge.unanimous_share:.3f} of {judge.judgments:,} judgments{spread}"
        )


def _format_doubts(summary: EvaluationSummary) -> Iterable[str]:
    if summary.flagged:
        yield f"{pluralize(summary.flagged, 'submission')} may contain a prompt injection; see 'flags' in items.jsonl"
    for flag, meaning in _DOUBTS.items():
        if summary.flags[flag]:
            count = pluralize(summary.flags[flag], "judgment")
            yield f"{count} flagged {flag}: {meaning}; see 'flags' in items.jsonl"


def _format_scores(summary: EvaluationSummary) -> Iterable[str]:
    scores = summary.scores
    if not scores.count:
        yield "no item has a score"
    else:
        ends, why = scores.compute_interval(), "one item" if scores.count == 1 else "all scores are equal"
        shown = f", 95% confidence interval {ends[0]:.3f} to {ends[1]:.3f}" if ends else f" ({why}; no interval)"
        if ends and scores.clusters and scores.is_clustered:
            shown += f" clustered by query ({len(scores.clusters):,} queries)"
        yield f"mean score {scores.mean:.3f} over {pluralize(scores.count, 'item')}{shown}"
    unscored = summary.graded - scores.count
    if unscored:
        yield (
            f"{pluralize(unscored, 'graded item')} without a score: no criterion could be assessed, or none with a "
            "positive weight"
        )
    if summary.coverage is not None:
        yield f"coverage: {summary.judged:,} of {summary.all_judgments:,} judgments ({summary.coverage:.1%})"
