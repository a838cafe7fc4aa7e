"""`autorubric status`, `drift` and `doctor`: the state of a run, of a training, and of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from autorubric.charts.html import figure
from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.agreement_report import Shown
from autorubric.cli.command import command, run
from autorubric.cli.spending import cost_notes
from autorubric.core.display import clipped, counted
from autorubric.files import dump_json
from autorubric.jobs.status import DoctorSettings, DriftSettings, StatusSettings, doctor_async
from autorubric.jobs.status import drift as drift_in_run
from autorubric.jobs.status import status as status_of_run
from autorubric.runs.progress import format_cost, format_count, format_duration
from autorubric.runs.run_status import RunStatus
from autorubric.training.audit_log import DROPPED, AuditSummary
from autorubric.training.compound_share import CompoundShare
from autorubric.training.group_signals import GroupSignals
from autorubric.training.reward_drift import CriterionDrift, Drift, Window, find_recommendations, find_warnings

_STATUS_EXAMPLES = """
autorubric status graded
autorubric status graded --json
"""


@command(StatusSettings, _STATUS_EXAMPLES)
def status(settings: StatusSettings) -> int:
    """Report the state of a run: done, failed, spent, time left.

    It only reads, so it can be used during the run, and after it has died.
    """
    found = status_of_run(settings)
    print(dump_json(found.to_dict(), indent=2) if settings.as_json else "\n".join(status_lines(found)))
    return 0


def status_lines(found: RunStatus) -> Iterator[str]:
    """A status, for people."""
    holder = f" ({found.holder})" if found.holder else ""
    yield f"{found.directory}: {found.kind}, {found.state}{holder}"
    rows, done, failed, *_ = found.row_counts
    if rows is not None:
        share = f" ({done / rows:.0%})" if rows else ""
        yield f"  done       {done:,} of {rows:,} rows{share}, {failed:,} failed, {rows - done - failed:,} left"
    noun = "judgment" if found.kind == "evaluation" else "row"
    for noun_of, groups in ((noun, found.row_counts.groups), ("request", found.unanswered)):
        yield from (f"  failures   {group.line(noun_of)}" for group in groups)
    spent = found.spent
    cost = format_cost(None if spent.unpriced else spent.cost)
    yield f"  spent      {counted(spent.calls, 'call')}, {format_count(spent.tokens)} tokens, {cost}"
    for total in found.totals:
        lost = f", {total.failed:,} failed" if total.failed else ""
        price = format_cost(None if total.unpriced else total.cost)
        yield f"    {total.role:<10} {total.model}: {counted(total.calls, 'call')}{lost}, {price}"
    for note in cost_notes(found.totals):
        yield f"  note       {note}"
    yield from _batch_lines(found)
    if found.calls_per_second is not None:
        ago = "" if found.idle is None else f"; the last one {format_duration(found.idle)} ago"
        yield f"  pace       {found.calls_per_second:.1f} calls per second{ago}"
    if found.eta is not None:
        yield f"  time left  about {format_duration(found.eta)}"
    if found.stopped:
        yield f"  stopped    {found.stopped}"
    yield f"  next       {found.advice}"


def _batch_lines(found: RunStatus) -> Iterator[str]:
    for record in found.open_batches:
        ago = format_duration(max(0.0, time.time() - (record.sent_at or record.planned_at)))
        where = f"{record.remote}, {record.word}" if record.remote else "being created"
        yield f"  batch      {counted(record.count, 'request')} to {record.model} ({where}), {ago} ago"
        if record.trouble:
            yield f"             {record.trouble}"
    ended = [record for record in found.batches if record.state == "collected"]
    if ended:
        replies, asked = sum(r.replies for r in ended), sum(r.count for r in ended)
        batches = counted(len(ended), "batch", "batches")
        yield f"  batches    {batches} collected: {replies:,} replies to {asked:,} requests"


_MARKS = {"ok": "   ", "note": " ! ", "problem": "!! "}
_DOCTOR_EXAMPLES = """
autorubric doctor
autorubric doctor --model qwen@http://localhost:8000/v1
"""


@command(DoctorSettings, _DOCTOR_EXAMPLES)
def doctor(settings: DoctorSettings) -> int:
    """Check the installation, API keys and endpoints.

    API keys are listed by the names of their environment variables. The exit status is 1 if there is a problem.
    """
    found = run(doctor_async(settings))
    if settings.as_json:
        print(dump_json([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            advice = f"\n{'':22}{finding.advice}" if finding.advice else ""
            print(f"{_MARKS[finding.verdict]}{finding.subject:<19}{finding.value}{advice}")
    return EXIT_UNFINISHED if any(finding.verdict == "problem" for finding in found) else 0


_MOST_WORDS = 70
_DRIFT_EXAMPLES = """
autorubric drift rewards
autorubric drift rewards --windows 20 --csv > drift.csv
"""


@command(DriftSettings, _DRIFT_EXAMPLES)
def drift(settings: DriftSettings) -> int:
    """Report how rewards and verdicts changed during training.

    The table has length, judge failures, group variance and the gap to the audit's judge. It only reads, so it can be
    run while the service runs.
    """
    found = drift_in_run(settings)
    form = (settings.forms() or ["text"])[0]
    below = ["", *_told(found, settings.criteria)]
    shown = Shown([_row(number, w) for number, w in enumerate(found.windows, 1)], _whole(found), below=below)
    print(shown.text(form), end="" if form == "csv" else "\n")
    return 0


def _row(number: int, window: Window) -> dict[str, Any]:
    gap = window.gap
    over = "–" if gap is None else f"{gap.mean:+.3f}" + ("" if gap.half is None else f" ± {gap.half:.3f}")
    steps = "" if window.steps is None else "–".join(str(step) for step in dict.fromkeys(window.steps))
    return {
        "window": number,
        "from": datetime.fromtimestamp(window.start, UTC).strftime("%m-%d %H:%M:%S"),
        "steps": steps,
        "rewards": window.rewards,
        "failed": f"{window.failed:.1%}",
        "mean": figure(window.reward, 3),
        "characters": f"{window.characters:.0f}",
        "length effect": figure(window.length_effect, 2),
        "group variance": figure(window.variance, 4),
        "silent groups": "–" if window.silent is None else f"{window.silent:.0%}",
        "over audit judge": over,
        "pairs": 0 if gap is None else gap.pairs,
    }


def _told(found: Drift, most: int) -> Iterator[str]:
    saturated = [criterion for criterion in found.criteria if criterion.saturated]
    if saturated and most:
        yield "saturated criteria, the heaviest first:"
        yield from (f"  {_criterion_line(criterion)}" for criterion in saturated[:most])
        if len(saturated) > most:
            yield f"  and {len(saturated) - most} more (--criteria, --json)"
        yield ""
    if found.signals is not None and found.signals.groups:
        yield from signal_lines(found.signals)
        yield ""
    if found.compound is not None:
        yield compound_line(found.compound)
        yield ""
    if found.audit is not None:
        yield from audit_lines(found.audit)
        yield ""
    if advice := list(find_recommendations(found)):
        yield from (f"recommended: {sentence}" for sentence in advice)
        yield ""
    told = list(find_warnings(found))
    yield from (f"warning: {sentence}" for sentence in told)
    if not told:
        yield "no warnings"


def _criterion_line(criterion: CriterionDrift) -> str:
    words = clipped(criterion.requirement, _MOST_WORDS)
    return (
        f"{criterion.saturated}: {criterion.name} (weight {criterion.weight:g}): mean {criterion.before:.2f} before, "
        f"{criterion.recent:.2f} lately, {criterion.count} verdicts: {words}"
    )


def _whole(found: Drift) -> Mapping[str, Any]:
    windows = [
        {**asdict(window), "failed": window.failed, "gap": window.gap._asdict() if window.gap else None}
        for window in found.windows
    ]
    return {
        "windows": windows,
        "criteria": [asdict(criterion) for criterion in found.criteria],
        "saturated_weight": found.saturated_weight,
        "audit": None if found.audit is None else _plain(found.audit),
        "signals": None if found.signals is None else asdict(found.signals),
        "compound": None if found.compound is None else asdict(found.compound),
        "recommendations": list(find_recommendations(found)),
        "warnings": list(find_warnings(found)),
    }


def _plain(audit: AuditSummary) -> dict[str, Any]:
    plain = asdict(audit)
    for held in (plain, *plain["criteria"]):
        for name in ("growth", "alarm"):
            if held[name] is not None:
                held[name]["interval"] = held[name]["interval"]._asdict()
    return {**plain, "interval": audit.interval and audit.interval._asdict()}


def signal_lines(signals: GroupSignals) -> Iterator[str]:
    """What groups teach, for people."""
    yield f"groups of the last window: {signals.groups:,}, variance within groups {figure(signals.variance, 4)}"
    if signals.effective is not None and signals.criteria is not None:
        yield f"  {signals.criteria:.1f} criteria amount to {signals.effective:.1f} independent ones"
    noise = signals.noise
    if noise is not None and noise.half is not None:
        share = "" if signals.noise_share is None else f", {signals.noise_share:.0%} of the variance within groups"
        yield f"  a reward is certain to ± {noise.half:.3f} ({noise.pairs:,} submissions judged twice{share})"


def compound_line(found: CompoundShare) -> str:
    """What criteria with several demands give, for people."""
    graded = "each demand is judged" if found.graded == "all" else "one verdict each"
    first, last = ("–" if share is None else f"{share:.0%}" for share in (found.first, found.last))
    return (
        f"criteria with several demands: {len(found.criteria):,} of {found.of:,} ({graded}), {found.weight:.0%} of "
        f"the weight; {first} of the points in the first window, {last} in the last"
    )


def audit_lines(audit: AuditSummary) -> Iterator[str]:
    """What audits found, for people."""
    dropped = audit.failures.get(DROPPED, 0)
    failed = sum(audit.failures.values()) - dropped
    yield f"audit: {audit.audits:,} audits, {failed:,} failed" + (f", {dropped:,} dropped" if dropped else "")
    if audit.gap is not None and audit.interval is not None:
        low, high, confidence = audit.interval
        yield f"  gap     {audit.gap:+.3f} ({confidence:.1%} interval for the whole run {low:+.3f} to {high:+.3f})"
    if audit.growth is not None:
        low, high, confidence = audit.growth.interval
        yield (
            f"  growth  {audit.growth.mean:+.3f} since audit {audit.growth.since:,} ({confidence:.0%} interval "
            f"{low:+.3f} to {high:+.3f}); {'ALARM' if audit.alarm else 'no alarm'}"
        )
    for one in audit.criteria:
        alarm = "ALARM, " if one.alarm else ""
        yield f"  {one.name}: {alarm}training judge gives {one.mean:+.2f} more, {one.count:,} audits"
        for example in one.examples[-1:]:
            yield f"    e.g. {_short(example.submission)}"
            yield from (f"    audit judge: {_short(reason)}" for reason in [example.reason] if reason)


def _short(text: str) -> str:
    return clipped(" ".join(text.split()), 2 * _MOST_WORDS)
