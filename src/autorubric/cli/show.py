"""`autorubric show`: one item of a run in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from autorubric.cli.command import command, run
from autorubric.errors import InputError
from autorubric.files import dump_json
from autorubric.jobs.status import ShowSettings, show_async
from autorubric.llm.recorded_exchanges import Exchange
from autorubric.runs.cells import Cell, list_votes, read_cells, read_verdict
from autorubric.runs.shown_item import ShownItem

_EXAMPLES = """
autorubric show graded e7
autorubric show graded e7 --criterion Accuracy --brief
autorubric show rubrics q3 --json
"""
_SHORT = 200
_LISTS = {"criteria": "kept", "rewritten": "rewritten", "rejected": "rejected", "pitfalls_left_out": "left out"}


@command(ShowSettings, _EXAMPLES)
def show(settings: ShowSettings) -> int:
    """Show one item of a run: verdicts, votes, quotes, prompts and raw replies.

    For a synthesis run, shows one query: its rubric, and the history of each criterion.
    """
    found = run(show_async(settings))
    if settings.brief:
        found = replace(found, exchanges=(), others=())
    if settings.criterion is not None:
        found = _filter_criterion(found, settings.criterion)
    if settings.as_json:
        print(dump_json({**asdict(found), "directory": str(found.directory)}, 2))
    else:
        print("\n".join(_format_item(found)))
    return 0


def _filter_criterion(found: ShownItem, name: str) -> ShownItem:
    """The item with only one of its criteria."""
    record: dict[str, Any] = dict(found.record or {})
    report = dict(record.get("report") or {})
    entries = report.get("criterion_reports") or []
    names = [cell.name for cell in read_cells(report)]
    kept = [entry for place, entry in enumerate(entries) if name in (names[place], f"C{place + 1}")]
    lists = {key: [one for one in record.get(key) or () if _has_name(one, name)] for key in _LISTS if key in record}
    if not kept and not any(lists.values()):
        known = names + [one["id"] for key in lists for one in record[key]]
        raise InputError(f"--criterion {name!r}: the item has no such criterion; it has {', '.join(known) or 'none'}")
    if kept:
        record["report"] = {**report, "criterion_reports": kept}
    exchanges = tuple(one for one in found.exchanges if name in one.about.split(", "))
    return replace(found, record={**record, **lists}, exchanges=exchanges, others=())


def _has_name(one: Mapping[str, Any], name: str) -> bool:
    return name in (one.get("id"), one.get("title"), one.get("description"))


def _format_item(found: ShownItem) -> Iterator[str]:
    yield f"{found.id or f'item {found.index}'} (number {found.index} of {found.directory})"
    for title, text in found.texts.items():
        yield f"{title}:"
        yield from _indent(text)
    record = found.record or {}
    if not record:
        yield "it has not been graded yet"
    elif found.kind == "evaluation":
        yield from _format_report(record)
    else:
        yield from _format_rubric(record)
    shown: set[str] = set()
    for title, exchanges in (("", found.exchanges), ("not used by this run: ", found.others)):
        for exchange in exchanges:
            yield from _format_exchange(exchange, title, shown)
    yield from (f"note: {note}" for note in found.notes)


def _format_report(record: Mapping[str, Any]) -> Iterator[str]:
    report = record["report"]
    score = report.get("score")
    yield f"score: {'none' if score is None else f'{score:.3f}'}"
    if record.get("error"):
        yield f"error: {record['error']}"
    for flag in report.get("flags") or ():
        yield f"flag of the submission: {flag}"
    for cell, entry in zip(read_cells(report), report.get("criterion_reports") or (), strict=True):
        yield from _format_criterion(cell, entry)


def _format_criterion(cell: Cell, entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"{cell.word}  {cell.name} (weight {cell.weight:g})"
    if entry.get("error"):
        yield f"    error: {entry['error']}"
    votes = list_votes(entry)
    if not votes and entry.get("reason"):
        yield f"    {entry['reason']}"
    for vote in votes:
        yield from _format_vote(vote)
    for quote in entry.get("quotes") or ():
        place = "not found" if quote.get("start") is None else f"characters {quote['start']} to {quote['end']}"
        yield f"    quote ({place}): {quote['text']}"
    if entry.get("flags"):
        yield f"    flags: {', '.join(entry['flags'])}"


def _format_vote(vote: Mapping[str, Any]) -> Iterator[str]:
    weight = vote.get("weight", 1.0)
    about = [*([f"weight {weight:g}"] if weight != 1.0 else []), *(["superseded"] if vote.get("superseded") else [])]
    more = f" ({', '.join(about)})" if about else ""
    said = read_verdict(vote) or "failed"
    yield f"    {vote['judge_id']}{more}: {said}: {vote.get('reason') or vote.get('error') or ''}"
    for repeat in vote.get("repeats") or ():
        word = read_verdict(repeat) or "failed"
        yield f"      {repeat['judge_id']}: {word}: {repeat.get('reason') or repeat.get('error') or ''}"


def _format_rubric(record: Mapping[str, Any]) -> Iterator[str]:
    """The criteria with their lineage, or the criteria of the basic steps."""
    if "criteria" not in record:
        for title in ("merged_rubrics", "augmented_rubrics"):
            for item in record.get(title) or ():
                yield f"{title.removesuffix('_rubrics')}  {item['weight']:>3}  {item['description']}"
    fates = {fate["id"]: fate for fate in record.get("merge_fates") or ()}
    for key, outcome in _LISTS.items():
        for one in record.get(key) or ():
            yield f"{outcome}  {one['id']}  {one['weight']:>3}  {one['description']}"
            yield f"    {one['origin']}, by {', '.join(one['models'])}{_format_parents(one['parents'], fates)}"
            for gate in one.get("gates") or ():
                reason = f": {gate['reason']}" if gate.get("reason") else ""
                yield f"    gate {gate['gate']}: {gate['outcome']}{reason} {gate.get('figures') or ''}".rstrip()
    for stage, reason in (record.get("failures") or {}).items():
        yield f"failed  {stage}: {reason}"


def _format_parents(parents: Sequence[str], fates: Mapping[str, Mapping[str, Any]]) -> str:
    if not parents:
        return ""
    told = [f"{one} ({fates[one]['outcome']})" if one in fates else one for one in parents]
    return f", from {', '.join(told)}"


def _format_exchange(one: Exchange, title: str, shown: set[str]) -> Iterator[str]:
    """A prompt and its reply; long messages shown before are not repeated."""
    name = one.judge if one.judge not in ("", one.model) else ""
    about = [
        one.about,
        name,
        *([f"draw {one.draw}"] if one.draw else []),
        *([f"re-ask {one.reask}"] * bool(one.reask)),
    ]
    tokens = None if one.tokens is None else f"{one.tokens[0]} + {one.tokens[1]} tokens"
    seconds = None if one.seconds is None else f"{one.seconds:.1f} s"
    yield f"--- {title}{one.role} {one.model}: {', '.join(filter(None, [*about, tokens, seconds, one.ended]))}"
    for message in one.messages or ():
        yield f"{message.role}:"
        known = message.content in shown and len(message.content) > _SHORT
        yield from ("  (as above)",) if known else _indent(message.content)
        shown.add(message.content)
    if one.reasoning:
        yield "reasoning:"
        yield from _indent(one.reasoning)
    if one.reply is not None:
        yield "reply:"
        yield from _indent(one.reply)
    if one.problem:
        yield f"problem: {one.problem}"


def _indent(text: str) -> Iterable[str]:
    return (f"  {line}" for line in text.splitlines() or [""])
