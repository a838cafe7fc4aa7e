"""`autorubric drift`: how rewards and verdicts changed during training."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from autorubric.charts.html import format_float
from autorubric.cli.agreement_report import MetricCell, TableReport
from autorubric.cli.command import command
from autorubric.errors import clip, pluralize
from autorubric.jobs.status import DriftSettings
from autorubric.jobs.status import drift as drift_in_run
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.training.audit_log import DROPPED, AuditSummary
from autorubric.training.compound_share import CompoundShare
from autorubric.training.group_signals import GroupSignals
from autorubric.training.reward_drift import CriterionDrift, Drift, Window, find_recommendations, find_warnings

_MOST_WORDS = 70
_EXAMPLES = """
autorubric drift rewards
autorubric drift rewards --windows 20 --csv > drift.csv
"""


@command(DriftSettings, _EXAMPLES)
def drift(settings: DriftSettings) -> int:
    """Report how rewards and verdicts changed during training.

    The table shows reward, length, judge failures, group variance and the gap to the audit judge. The command only
    reads the run, so it can be used while the service is running.
    """
    found = drift_in_run(settings)
    form = (settings.list_forms() or ["text"])[0]
    left = f"left out: {pluralize(found.evaluations, 'reward')} of evaluations (their split is not train)"
    below = ["", *([left, ""] if found.evaluations else []), *_describe_drift(found, settings.criteria)]
    rows = [_build_row(number, window) for number, window in enumerate(found.windows, 1)]
    shown = TableReport(rows, _build_json(found), below=below)
    print(shown.render(form), end="" if form == "csv" else "\n")
    return 0


def _build_row(number: int, window: Window) -> dict[str, Any]:
    gap, (first, last) = window.gap, window.steps or ("", "")
    ends = None
    if gap is not None and gap.half is not None:
        ends = ConfidenceInterval(lower=gap.mean - gap.half, upper=gap.mean + gap.half)
    return {
        "window": number,
        "from": f"{datetime.fromtimestamp(window.start, UTC):%Y-%m-%d %H:%M:%S}",
        "first step": first,
        "last step": last,
        "rewards": window.rewards,
        "failed": window.failed,
        "mean": window.reward,
        "characters": round(window.characters),
        "length effect": window.length_effect,
        "group variance": window.variance,
        "silent groups": window.silent,
        "over audit judge": MetricCell(None if gap is None else gap.mean, ends),
        "pairs": 0 if gap is None else gap.pairs,
    }


def _describe_drift(found: Drift, most: int) -> Iterator[str]:
    saturated = [criterion for criterion in found.criteria if criterion.saturated]
    if saturated and most:
        yield "saturated criteria, largest weight first:"
        yield from (f"  {_format_criterion(criterion)}" for criterion in saturated[:most])
        if len(saturated) > most:
            yield f"  and {len(saturated) - most} more (--criteria, --json)"
        yield ""
    if found.signals is not None and found.signals.groups:
        yield from format_signal(found.signals)
        yield ""
    if found.compound is not None:
        yield format_compound(found.compound)
        yield ""
    if found.audit is not None:
        yield from format_audit(found.audit)
        yield ""
    if advice := list(find_recommendations(found)):
        yield from (f"recommended: {sentence}" for sentence in advice)
        yield ""
    warnings = list(find_warnings(found))
    yield from (f"warning: {sentence}" for sentence in warnings)
    if not warnings:
        yield "no warnings"


def _format_criterion(criterion: CriterionDrift) -> str:
    words = clip(criterion.requirement, _MOST_WORDS)
    return (
        f"{criterion.saturated}: {criterion.name} (weight {criterion.weight:g}): mean {criterion.before:.2f} before, "
        f"{criterion.recent:.2f} recently, {pluralize(criterion.count, 'verdict')}: {words}"
    )


def _build_json(found: Drift) -> Mapping[str, Any]:
    windows = [
        {**asdict(window), "failed": window.failed, "gap": window.gap._asdict() if window.gap else None}
        for window in found.windows
    ]
    return {
        "windows": windows,
        "criteria": [asdict(criterion) for criterion in found.criteria],
        "saturated_weight": found.saturated_weight,
        "evaluations": found.evaluations,
        "audit": None if found.audit is None else _list_plain(found.audit),
        "signals": None if found.signals is None else asdict(found.signals),
        "compound": None if found.compound is None else asdict(found.compound),
        "recommendations": list(find_recommendations(found)),
        "warnings": list(find_warnings(found)),
    }


def _list_plain(audit: AuditSummary) -> dict[str, Any]:
    plain = asdict(audit)
    for row in (plain, *plain["criteria"]):
        for name in ("growth", "alarm"):
            if row[name] is not None:
                row[name]["interval"] = row[name]["interval"]._asdict()
    return {**plain, "interval": audit.interval and audit.interval._asdict()}


def format_signal(signals: GroupSignals) -> Iterator[str]:
    """Yield the signal of groups, as lines of text."""
    yield f"groups of the last window: {signals.groups:,}, variance within groups {format_float(signals.variance, 4)}"
    if signals.effective is not None and signals.criteria is not None:
        yield f"  effective number of independent criteria: {signals.effective:.1f} of {signals.criteria:.1f}"
    noise = signals.noise
    if noise is not None and noise.half is not None:
        share = "" if signals.noise_share is None else f", {signals.noise_share:.0%} of the variance within groups"
        twice = f"{pluralize(noise.pairs, 'submission')} judged twice"
        yield f"  95% interval of one reward: ± {noise.half:.3f} ({twice}{share})"


def format_compound(found: CompoundShare) -> str:
    """Return the share of points from criteria with several demands, as a line of text."""
    graded = "each demand is judged" if found.graded == "all" else "one verdict each"
    first, last = ("–" if share is None else f"{share:.0%}" for share in (found.first, found.last))
    return (
        f"criteria with several demands: {len(found.criteria):,} of {found.of:,} ({graded}), {found.weight:.0%} of "
        f"the weight; {first} of the points in the first window, {last} in the last"
    )


def format_audit(audit: AuditSummary) -> Iterator[str]:
    """Yield the results of the audits, as lines of text."""
    dropped = audit.failures.get(DROPPED, 0)
    failed = sum(audit.failures.values()) - dropped
    yield f"audit: {pluralize(audit.audits, 'audit')}, {failed:,} failed" + "".join(
        f", {count:,} {kind}"
        for kind, count in (("dropped", dropped), ("without a result", audit.unfinished))
        if count
    )
    if audit.gap is not None and audit.interval is not None:
        low, high, confidence = audit.interval
        yield f"  gap     {audit.gap:+.3f} ({confidence:.1%} interval for the whole run {low:+.3f} to {high:+.3f})"
    if audit.growth is not None:
        low, high, confidence = audit.growth.interval
        yield (
            f"  growth  {audit.growth.mean:+.3f} since audit {audit.growth.since:,} ({confidence:.0%} interval "
            f"{low:+.3f} to {high:+.3f}); {'ALARM' if audit.alarm else 'no alarm'}"
        )
    for gap in audit.criteria:
        alarm = "ALARM, " if gap.alarm else ""
        words = clip(gap.requirement, _MOST_WORDS)
        yield f"  {gap.name}: {alarm}training judge gives {gap.mean:+.2f} more, {gap.count:,} audits: {words}"
        for example in gap.examples[-1:]:
            yield f"    e.g. {_shorten(example.submission)}"
            yield from (f"    audit judge: {_shorten(reason)}" for reason in [example.reason] if reason)


def _shorten(text: str) -> str:
    return clip(" ".join(text.split()), 2 * _MOST_WORDS)
