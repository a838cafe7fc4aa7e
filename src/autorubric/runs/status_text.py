"""The state of a run as text, and notes on its cost."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from autorubric.errors import pluralize
from autorubric.llm.failure_groups import format_failures
from autorubric.llm.http.providers import is_self_hosted
from autorubric.runs.progress import format_cost, format_count, format_duration
from autorubric.runs.stopping import strip_advice

if TYPE_CHECKING:
    from autorubric.llm.records.accounts import UsageTotals
    from autorubric.runs.run_status import RunStatus


def format_status(found: RunStatus) -> Iterator[str]:
    """Yield a status, as lines of text."""
    holder = f" ({found.holder})" if found.holder else ""
    yield f"{found.directory}: {', '.join(dict.fromkeys((found.kind, found.state)))}{holder}"
    counts = found.row_counts
    rows, done, failed = counts[:3]
    if rows is not None:
        share = f" ({100 * done // rows}%)" if rows else ""
        yield f"  done       {done:,} of {rows:,} rows{share}, {failed:,} failed, {rows - done - failed:,} left"
    noun = "judgment" if found.kind == "evaluation" else "row"
    for noun_of, groups in ((noun, counts.groups), ("vote", counts.lost_votes), ("request", found.unanswered)):
        shown = (group for group in groups if not group.is_left_out(found.stopped or None))
        yield from (f"  failures   {line}" for line in format_failures(shown, noun_of, found.stopped or None))
    spent = found.spent
    cost = format_cost(None if spent.unpriced else spent.cost)
    bounds = ", worst cases included" if any(total.bound_tokens for total in found.totals) else ""
    yield f"  spent      {pluralize(spent.calls, 'call')}, {format_count(spent.tokens)} tokens, {cost}{bounds}"
    for total in found.totals:
        lost = f", {total.failed:,} failed" if total.failed else ""
        price = format_cost(None if total.unpriced else total.cost)
        yield f"    {total.role:<10} {total.model}: {pluralize(total.calls, 'call')}{lost}, {price}"
    changed = ["items.jsonl has changed since the run wrote it, so its verdicts may be wrong"] * counts.is_changed
    for note in (*changed, *list_bounds(found.totals), *found.negotiated):
        yield f"  note       {note}"
    yield from _format_batches(found)
    if found.calls_per_second is not None:
        ago = "" if found.idle is None else f"; the last one {format_duration(found.idle)} ago"
        yield f"  pace       {found.calls_per_second:.1f} calls per second{ago}"
    if found.eta is not None:
        yield f"  time left  about {format_duration(found.eta)}"
    if found.stopped:
        yield f"  stopped    {strip_advice(found.stopped)}"
    yield f"  next       {found.advice}"


def _format_batches(found: RunStatus) -> Iterator[str]:
    for record in found.open_batches:
        ago = format_duration(max(0.0, time.time() - (record.sent_at or record.planned_at)))
        where = f"{record.remote}, {record.word}" if record.remote else "being created"
        yield f"  batch      {pluralize(record.count, 'request')} to {record.model} ({where}), {ago} ago"
        if record.trouble:
            yield f"             {record.trouble}"
    ended = [record for record in found.batches if record.state == "collected"]
    if ended:
        replies, asked = sum(r.replies for r in ended), sum(r.count for r in ended)
        batches = pluralize(len(ended), "batch")
        yield f"  batches    {batches} collected: {pluralize(replies, 'reply')} to {pluralize(asked, 'request')}"


def list_cost_notes(totals: Iterable[UsageTotals]) -> Iterator[str]:
    """Yield notes on worst cases that a budget counts, and on models without a known price.

    Example:
        >>> from autorubric.llm.records.accounts import UsageTotals
        >>> from autorubric.llm.request import Usage
        >>> print(*list_cost_notes([UsageTotals("judge", "groq/tiny", 6, 0, Usage(60, 6), 0.0, 6)]))
        no price is known for groq/tiny; give it in dollars per million tokens with --prices FILE
        (groq/tiny: {input: ..., output: ...}) or LLMConfig.prices
    """
    by_model = _sum_by_model(totals)
    yield from list_bounds(by_model.values())
    unpriced = [m for m, total in by_model.items() if total.unpriced > total.unmetered and not is_self_hosted(m)]
    if unpriced:
        yield (
            f"no price is known for {', '.join(unpriced)}; give it in dollars per million tokens with "
            f"--prices FILE ({unpriced[0]}: {{input: ..., output: ...}}) or LLMConfig.prices"
        )


def _sum_by_model(totals: Iterable[UsageTotals]) -> dict[str, UsageTotals]:
    by_model: dict[str, UsageTotals] = {}
    for total in totals:
        known = by_model.get(total.model)
        by_model[total.model] = total if known is None else known.plus(total)
    return by_model


def list_bounds(totals: Iterable[UsageTotals]) -> Iterator[str]:
    """Sentences about replies without token counts, and about worst cases that a budget counts."""
    for model, total in _sum_by_model(totals).items():
        told = [f"{pluralize(total.unmetered, 'reply')} had no usable token counts"] if total.unmetered else []
        if total.bound_tokens:
            cost = f" ({format_cost(total.bound_cost)})" if total.bound_cost else ""
            most = f"{format_count(total.bound_tokens)} tokens{cost}"
            told.append(f"a budget also counts {most}, the worst case of what may have been billed")
        if told:
            yield f"{model}: {'; '.join(told)}"


_NEGOTIATED = re.compile(r"(\S+) does not accept (.+) for (.+); (?!sent as max_|requested a stream)(.+)")


def merge_negotiated(notes: object) -> list[str]:
    """Return one sentence for each model whose endpoint did not accept a parameter that may affect replies.

    Args:
        notes: the list in a manifest; other values count as empty.

    Example:
        >>> notes = ["seed for m; left out", "max_tokens for m; sent as max_x", "top_p for m; left out"]
        >>> merge_negotiated([f"http://host/v1 does not accept {note}" for note in notes])
        ['m at http://host/v1 does not accept seed (left out), top_p (left out)']
    """
    found: dict[str, list[str]] = {}
    for text in notes if isinstance(notes, list) else ():
        if note := _NEGOTIATED.fullmatch(str(text)):
            found.setdefault(f"{note[3]} at {note[1]}", []).append(f"{note[2]} ({note[4]})")
    return [f"{model} does not accept {', '.join(parts)}" for model, parts in found.items()]
