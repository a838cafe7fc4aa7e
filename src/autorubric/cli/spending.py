"""What several commands print: how a run ended, what failed, and actual or estimated cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from autorubric.cli import EXIT_DETACHED, EXIT_INTERRUPTED, EXIT_UNFINISHED
from autorubric.errors import InputError, pluralize
from autorubric.llm.batches.setting import DETACHED
from autorubric.llm.failure_groups import format_failures
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.runs.progress import format_cost, format_count, format_duration
from autorubric.runs.run_folder import LEDGER_FOLDER
from autorubric.runs.status_text import list_cost_notes
from autorubric.runs.stopping import build_resume_command, strip_advice

if TYPE_CHECKING:
    from autorubric.llm.endpoint_settings import EndpointSettings
    from autorubric.llm.failure_groups import FailureGroups
    from autorubric.llm.limits import ModelEstimate
    from autorubric.llm.records.accounts import UsageTotals


_MOST_GROUPS = 10
ONE_PROCESS = 1300
"""Minimum calls per second that one process makes if nothing else limits it."""


def print_early_end(stopped: str | None, again: str | None, *, interrupted: bool, advice: str = "") -> int | None:
    """Print why a run ended early and how to resume it; return its exit status, or None if it did not end early."""
    if not interrupted and not stopped:
        return None
    if stopped and stopped.startswith(DETACHED):
        print(stopped)
        print(f"collect them with:\n  {again}")
        return EXIT_DETACHED
    how, again = build_resume_command(stopped or "", again or "")
    why = strip_advice(stopped or "")
    interruption = why if why.startswith("interrupted") else "interrupted"
    print(interruption if interrupted else f"stopped: {why}")
    if advice:
        print(advice)
    print(f"resume with{how}:\n  {again}")
    return EXIT_INTERRUPTED if interrupted else EXIT_UNFINISHED


def print_failures(groups: FailureGroups, noun: str, indent: str = "  ", told: str | None = None) -> None:
    """Print a line for each of the largest groups of failures: how many, why, where, and what to do.

    Args:
        groups: the failures.
        noun: what failed.
        indent: the start of each line.
        told: why the run ended, if already printed.
    """
    for line in format_failures(islice(groups, _MOST_GROUPS), noun, told):
        print(f"{indent}{line}")
    if len(groups) > _MOST_GROUPS:
        print(f"{indent}and {len(groups) - _MOST_GROUPS} more kinds of failure; autorubric status shows them all")


def print_spending(totals: Sequence[UsageTotals], file: TextIO | None = None) -> None:
    """Print calls, tokens and cost by role and model of all sessions, of this session, and what is uncertain."""
    width = max((len(total.role) for total in totals), default=0)
    for total in totals:
        print(f"  {total.role:<{width}} {total.model}: {_format_spending(total)}", file=file)
    if any(total.now is not None for total in totals):
        now = reduce(lambda one, more: one.plus(more), (total.now or total for total in totals))
        print(f"  of these, in this session: {_format_spending(now)}", file=file)
    for note in list_cost_notes(totals):
        print(f"  {note}", file=file)


def _format_spending(total: UsageTotals) -> str:
    failed = f", {total.failed} failed" if total.failed else ""
    usage, cost = total.usage, format_cost(None if total.unpriced else total.cost)
    reasoning = f" ({format_count(usage.reasoning_tokens)} reasoning)" if usage.reasoning_tokens else ""
    cached = f" ({format_count(usage.cached_tokens)} cached)" if usage.cached_tokens else ""
    tokens = f"{format_count(usage.prompt_tokens)} in, {format_count(usage.completion_tokens)} out"
    tokens = "tokens unknown" if total.unmetered and not usage.prompt_tokens else tokens
    return f"{pluralize(total.calls, 'call')}{failed}, {tokens}{reasoning}{cached}, {cost}"


def print_estimate(
    head: str, rows: Collection[ModelEstimate], settings: EndpointSettings, out: Path | str, *, divided: bool = False
) -> int:
    """Print the estimated calls, tokens and cost of each model, and how they were estimated; return 0.

    Args:
        head: the first line.
        rows: the estimates.
        settings: those of the run, with its budget.
        out: the directory of the run, which may have spent some of the budget.
        divided: whether the run has several processes.
    """
    print(head)
    names = [row.model.name for row in rows]
    for row in rows:
        role = f"{row.role} " if names.count(row.model.name) > 1 else ""
        most = "unbounded" if row.most is None else format_count(row.most.total_tokens)
        most_cost = format_cost(None if row.most is None else row.model.cost(row.most))
        print(
            f"  {role}{row.model.name}: {pluralize(row.calls, 'call')} to make, {row.recorded:,} already recorded; "
            f"about {format_count(row.usage.prompt_tokens)} tokens in, "
            f"{format_count(row.usage.completion_tokens)} out, {format_cost(row.cost)}; "
            f"at most {most} tokens, {most_cost}"
        )
    print(
        "  tokens are estimated at 4 bytes each; "
        "the maximum assumes one token per byte and replies at their first limit"
    )
    for line in list_budget_cover(rows, settings, out):
        print(f"  {line}")
    if divided:
        print(f"  {format_division(rows)}")
    return 0


def list_budget_cover(rows: Collection[ModelEstimate], settings: EndpointSettings, out: Path | str) -> Iterator[str]:
    """For each budget of a run, a line that says whether what is left of it covers the estimates."""
    spent = Spending()
    with suppress(InputError), ledger_view(Path(out) / LEDGER_FOLDER) as view:
        spent = view.sum_spent()
    calls = max(1, sum(row.calls for row in rows))
    for budget, used, about, most, show in (
        (
            settings.budget_usd,
            spent.cost,
            sum(row.cost or 0.0 for row in rows),
            [row.model.cost(row.most) if row.most else None for row in rows],
            format_cost,
        ),
        (
            settings.budget_tokens,
            spent.tokens,
            sum(row.usage.total_tokens for row in rows),
            [row.most.total_tokens if row.most else None for row in rows],
            "{:,.0f} tokens".format,
        ),
    ):
        if budget is None:
            continue
        left, bounds = max(0.0, budget - used), [each for each in most if each is not None]
        head = f"the budget of {show(budget)}" + (f", of which {show(used)} is spent," if used else "")
        if len(bounds) == len(most) and sum(bounds) <= left:
            yield f"{head} covers the maximum"
        elif about + sum(bounds) / calls <= left:  # the last call only goes out if its maximum fits
            yield f"{head} covers the estimate, but not the maximum"
        else:
            yield f"{head} covers about {min(0.99, left / about):.0%} of the estimate"


def format_division(rows: Iterable[ModelEstimate]) -> str:
    """Return a line that says when one process is enough."""
    calls = sum(row.calls for row in rows)
    time = format_duration(max(calls / ONE_PROCESS, 1))
    return (
        f"one process sends {calls:,} calls in about {time}; more processes help only if the endpoint accepts over "
        f"{ONE_PROCESS:,} calls a second"
    )
