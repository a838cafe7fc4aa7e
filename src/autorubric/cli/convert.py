"""`autorubric convert`: rubric data from one format into another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.formats import Conversion

_In = Annotated[Path | None, typer.Argument(metavar="IN", help="File to read; its ending says which kind.")]
_Out = Annotated[Path | None, typer.Argument(metavar="OUT", help="File to write; its ending says which kind.")]
_From = Annotated[str | None, typer.Option("--from", help="Format of IN; found out from its keys without it.")]
_To = Annotated[str | None, typer.Option("--to", help="Format of OUT; --list shows all.")]
_Polarity = Annotated[
    str,
    typer.Option(
        help="What meeting a criterion of negative weight is in IN: met-is-bad (a fault, as here), met-is-good (it "
        "becomes a demand), as-is (leave it), or audit (only look, write nothing)."
    ),
]
_Against = Annotated[list[Path] | None, typer.Option("--against", help="Another split, to find shared questions.")]
_Extras = Annotated[
    str, typer.Option(help="What OUT has no place for: keep it under the key 'autorubric', or drop it.")
]
_Strict = Annotated[bool, typer.Option("--strict", help="Write nothing where anything would be lost.")]
_Force = Annotated[bool, typer.Option("--force", help="Replace OUT where it is there with other content.")]
_Json = Annotated[bool, typer.Option("--json", help="The report as JSON.")]
_List = Annotated[bool, typer.Option("--list", help="List the formats and leave.")]


def convert(
    source: _In = None,
    target: _Out = None,
    from_: _From = None,
    to: _To = None,
    polarity: _Polarity = "as-is",
    against: _Against = None,
    extras: _Extras = "keep",
    strict: _Strict = False,
    force: _Force = False,
    json: _Json = False,
    list_: _List = False,
) -> int:
    """Convert rubric data between formats and say what is lost, worded against its sign, or asked twice."""
    if list_:
        print("\n".join(_formats()))
        return 0
    if source is None:
        raise InputError("there is no file to read; give IN, or --list to see the formats")
    if target is None and polarity != "audit":
        raise InputError("there is no file to write; give OUT, or --polarity audit to look and write nothing")
    if extras not in ("keep", "drop"):
        raise InputError(f"--extras {extras!r} is not one of keep, drop")
    from autorubric.formats import Options
    from autorubric.formats import convert as converted

    options = Options(from_, polarity, tuple(against or ()), extras == "keep", strict, force)
    done = converted(source, target, to, options)
    if json:
        from autorubric.files import dump_json

        print(dump_json(report_values(done), 2))
    else:
        print("\n".join(report_lines(done, target)))
    return 0


def report_values(done: Conversion) -> dict[str, Any]:
    """The account of a conversion as JSON values.

    Example:
        >>> from autorubric.formats import Conversion
        >>> report_values(Conversion("rar", "verl", 2, 9))["records"]
        2
    """
    return {
        "from": done.source,
        "to": done.target,
        "records": done.records,
        "criteria": done.criteria,
        "lost": dict(done.lost),
        "carried": dict(done.carried),
        "polarity": {
            "wording_by_sign": {
                sign: {said: count for (of, said), count in sorted(done.polarity.counts.items()) if of == sign}
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


def report_lines(done: Conversion, target: Path | None = None) -> Iterator[str]:
    r"""The account of a conversion, for people.

    Example:
        >>> from autorubric.formats import Conversion
        >>> print("\n".join(report_lines(Conversion("rar", None, 2, 9))))
        read 2 records with 9 criteria from rar; nothing was written
        polarity: no criterion is worded against its sign
        questions: none is repeated
    """
    where = f"written to {target} as {done.target}" if done.target else "nothing was written"
    read = f"{_number(done.records, 'record', 'records')} with {_number(done.criteria, 'criterion', 'criteria')}"
    yield f"read {read} from {done.source or 'an empty file'}; {where}"
    if done.lost:
        yield f"lost, by records: {_counts(done.lost)}"
    if done.carried:
        yield f"only under the key 'autorubric', which other tools do not read, by records: {_counts(done.carried)}"
    yield from _polarity_lines(done)
    yield from _question_lines(done)


def _polarity_lines(done: Conversion) -> Iterator[str]:
    audit = done.polarity
    if audit.turned or audit.kept:
        kept = f"; {audit.kept} stand, as they are worded as faults" if audit.kept else ""
        yield f"polarity: {audit.turned} criteria of negative weight became demands{kept}"
    for sign in ("negative", "positive"):
        said = {wording: count for (of, wording), count in audit.counts.items() if of == sign}
        if said:
            yield f"polarity: of {sign} weight, by wording: {_counts(said)}"
    if not audit.contradictions:
        yield "polarity: no criterion is worded against its sign"
        return
    good, fault = audit.counts["negative", "good"], audit.counts["positive", "fault"]
    yield f"polarity: {good} of negative weight are worded as good, {fault} of positive weight as a fault; such as"
    yield from (f"  {place}: {weight:+g} {_short(text)}" for place, weight, text in audit.examples)


def _question_lines(done: Conversion) -> Iterator[str]:
    found = done.questions
    if not found.repeated and not found.leaked:
        yield "questions: none is repeated"
        return
    yield f"questions: {found.repeated} repeat an earlier one, {found.leaked} are in another split too; such as"
    yield from (f"  {place} asks what {first} does" for place, first in found.examples)


def _number(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:97] + "..."


def _formats() -> Iterator[str]:
    from autorubric.formats import FORMATS

    width = max(map(len, FORMATS))
    yield from (f"{one.name:<{width}}  {one.title} ({', '.join(one.containers)})" for one in FORMATS.values())
