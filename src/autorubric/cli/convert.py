"""`autorubric convert`: convert rubric data between formats."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autorubric.cli.command import command
from autorubric.errors import clip, pluralize
from autorubric.files import dump_json
from autorubric.formats import Conversion, list_formats
from autorubric.jobs.rubric_files import ConvertSettings
from autorubric.jobs.rubric_files import convert as converted

_EXAMPLES = """
autorubric convert final.jsonl rows.parquet --to verl
autorubric convert final.jsonl --polarity audit
"""


@command(ConvertSettings, _EXAMPLES)
def convert(settings: ConvertSettings) -> int:
    """Convert rubric data between formats.

    The report lists what is lost, criteria whose wording contradicts the sign of their weight, and duplicate
    questions.
    """
    if settings.list_formats:
        formats = list_formats()
        width = max(map(len, formats))
        for fmt in formats.values():
            print(f"{fmt.name:<{width}}  {fmt.title} ({', '.join(fmt.containers)})")
        return 0
    done = converted(settings)
    target = None if settings.target is None else Path(settings.target)
    print(dump_json(build_report(done), 2) if settings.as_json else "\n".join(format_report(done, target)))
    return 0


def build_report(done: Conversion) -> dict[str, Any]:
    """Return the report on a conversion as JSON values.

    Example:
        >>> from autorubric.formats import Conversion
        >>> build_report(Conversion("rar", "verl", 2, 9))["records"]
        2
    """
    return {
        "from": done.source,
        "to": done.target,
        "records": done.records,
        "criteria": done.criteria,
        "lost": dict(done.lost),
        "carried": dict(done.carried),
        "blank": done.blank,
        "polarity": {
            "wording_by_sign": {
                sign: {wording: count for (of, wording), count in sorted(done.polarity.counts.items()) if of == sign}
                for sign in sorted({of for of, _ in done.polarity.counts})
            },
            "contradictions": done.polarity.contradictions,
            "turned": done.polarity.turned,
            "kept": done.polarity.kept,
            "examples": [
                {"place": place, "weight": weight, "requirement": text}
                for place, weight, text in done.polarity.examples
            ],
        },
        "questions": {
            "repeated": done.questions.repeated,
            "in_another_split": done.questions.leaked,
            "examples": [{"place": place, "first": first} for place, first in done.questions.examples],
        },
    }


def format_report(done: Conversion, target: Path | None = None) -> Iterator[str]:
    r"""Yield the report on a conversion as lines of text.

    Example:
        >>> from autorubric.formats import Conversion
        >>> print("\n".join(format_report(Conversion("rar", None, 2, 9))))
        read 2 records with 9 criteria from rar; nothing was written
        polarity: no wording contradicts its sign
        questions: no repeats
    """
    where = f"written to {target} as {done.target}" if done.target else "nothing was written"
    read = f"{pluralize(done.records, 'record')} with {pluralize(done.criteria, 'criterion')}"
    yield f"read {read} from {done.source or 'an empty file'}; {where}"
    if done.lost:
        yield f"lost (records): {_format_counts(done.lost)}"
    if done.carried:
        yield f"kept under the key 'autorubric', which other tools ignore (records): {_format_counts(done.carried)}"
    if done.blank:
        yield f"without an answer: {pluralize(done.blank, 'item')}; `grade` decides blank submissions as UNMET"
    yield from _format_polarity(done)
    yield from _format_questions(done)


def _format_polarity(done: Conversion) -> Iterator[str]:
    audit = done.polarity
    if audit.turned or audit.kept:
        kept = f"; {audit.kept} are kept, because they are worded as faults" if audit.kept else ""
        yield f"polarity: {pluralize(audit.turned, 'criterion')} with negative weight became positive{kept}"
    for sign in ("negative", "positive"):
        wordings = {wording: count for (of, wording), count in audit.counts.items() if of == sign}
        if wordings:
            yield f"polarity: criteria with {sign} weight, by wording: {_format_counts(wordings)}"
    if not audit.contradictions:
        yield "polarity: no wording contradicts its sign"
        return
    good, fault = audit.counts["negative", "good"], audit.counts["positive", "fault"]
    yield f"polarity: {good} of negative weight are worded as good, {fault} of positive weight as faults, such as"
    yield from (
        f"  {place}: {weight:+g} {clip(' '.join(text.split()), 100)}" for place, weight, text in audit.examples
    )


def _format_questions(done: Conversion) -> Iterator[str]:
    found = done.questions
    if not found.repeated and not found.leaked:
        yield "questions: no repeats"
        return
    yield f"questions: {found.repeated} repeat an earlier one, {found.leaked} are in another split too; for example"
    yield from (f"  {place} repeats {first}" for place, first in found.examples)


def _format_counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
