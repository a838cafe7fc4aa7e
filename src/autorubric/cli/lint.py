"""`autorubric lint`: what is wrong with rubrics, offline."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.lint import Finding, Rule

_FORMATS = ("text", "json", "sarif")
_FAIL_ON = ("error", "warning", "note", "never")
_Files = Annotated[
    list[Path] | None, typer.Argument(metavar="FILE…", help="Rubrics, datasets or rows: JSON, YAML, JSONL, parquet.")
]
_Format = Annotated[str, typer.Option("--format", help="text, json or sarif.")]
_FailOn = Annotated[
    str, typer.Option("--fail-on", help="Least severity that ends with status 100: error, warning, note or never.")
]
_Select = Annotated[
    list[str] | None, typer.Option("--select", help="Run only these rules (ids, with commas between).")
]
_Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", help="Leave these rules out (ids, with commas between).")
]
_List = Annotated[bool, typer.Option("--list-rules", help="Print the rules and leave.")]


def lint(
    files: _Files = None,
    format: _Format = "text",
    fail_on: _FailOn = "error",
    select: _Select = None,
    ignore: _Ignore = None,
    list_rules: _List = False,
) -> int:
    """Find what is wrong with rubrics, without a model: status 100 where a finding is as grave as --fail-on."""
    _one_of("--format", format, _FORMATS)
    _one_of("--fail-on", fail_on, _FAIL_ON)
    from autorubric.lint import chosen_rules

    rules = chosen_rules(_ids("--select", select), _ids("--ignore", ignore))
    if list_rules:
        for rule in rules:
            print(f"{rule.id:<20} {rule.severity:<8} {rule.summary}")
        return 0
    if not files:
        raise InputError("no file was named; expected autorubric lint FILE…")
    survey = _Survey(files, rules)
    try:
        for piece in _written(survey.findings(), rules, format):
            sys.stdout.write(piece)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough, as `head` does; nothing more can be said on that side.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return survey.status(fail_on)
    if survey.problems:
        raise InputError(survey.problems)  # instead of counts that would be those of a part
    print(survey.summary(), file=sys.stderr)
    return survey.status(fail_on)


class _Survey:
    """The files on their way through the rules, and the counts that stay."""

    def __init__(self, files: Sequence[Path], rules: Sequence[Rule]) -> None:
        self._files, self._rules = files, rules
        self._criteria = self.rubrics = 0
        self._by_severity: Counter[str] = Counter()
        self._by_rule: Counter[str] = Counter()
        self.problems: list[str] = []

    def findings(self) -> Iterator[Finding]:
        from autorubric.lint import lint_sheet
        from autorubric.lint.sources import iter_sheets

        for file in self._files:
            try:
                for sheet in iter_sheets(file, self.problems):
                    self.rubrics += 1
                    self._criteria += len(sheet.criteria)
                    for finding in lint_sheet(sheet, self._rules):
                        self._by_severity[finding.severity] += 1
                        self._by_rule[finding.rule] += 1
                        yield finding
            except InputError as error:
                self.problems += error.problems

    def summary(self) -> str:
        """Sizes and counts, a line for each rule that found something."""
        found = ", ".join(_counted(self._by_severity[name], name) for name in _FAIL_ON[:-1])
        lines = [f"{self._criteria:,} criteria in {_counted(self.rubrics, 'rubric')}: {found}"]
        lines += [f"{count:>7,}  {rule}" for rule, count in self._by_rule.most_common()]
        return "\n".join(lines)

    def status(self, fail_on: str) -> int:
        """100 where something is as grave as `fail_on`, else 0."""
        from autorubric.cli import EXIT_SCORE

        grave = _FAIL_ON[: _FAIL_ON.index(fail_on) + 1] if fail_on != "never" else ()
        return EXIT_SCORE if any(self._by_severity[name] for name in grave) else 0


def _written(findings: Iterable[Finding], rules: Sequence[Rule], form: str) -> Iterator[str]:
    """The pieces of the output, each as soon as it is known."""
    if form == "sarif":
        from autorubric import __version__
        from autorubric.lint.sarif import sarif

        yield from sarif(findings, rules, __version__)
    elif form == "json":
        yield "["
        for number, finding in enumerate(findings):
            yield (",\n " if number else "\n ") + json.dumps(finding.as_dict(), ensure_ascii=False)
        yield "\n]\n"
    else:
        yield from (f"{finding.line()}\n" for finding in findings)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _ids(flag: str, given: list[str] | None) -> list[str]:
    ids = [name.strip() for words in given or () for name in words.split(",") if name.strip()]
    if given and not ids:
        raise InputError(f"{flag} names no rule; --list-rules shows them all")
    return ids


def _one_of(flag: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{flag} {value!r} is not one of {', '.join(known)}")
