"""Rubrics in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autorubric.core.rubric import Rubric
from autorubric.errors import InputError
from autorubric.linting.finding import Finding
from autorubric.linting.records import drafts, entries_of, refusals
from autorubric.linting.rules import RULES, Rule
from autorubric.linting.sheet import Sheet
from autorubric.linting.sources import iter_sheets


def lint_rubric(
    rubric: Any, query: str = "", *, reference: bool = False, rules: Sequence[Rule] = RULES
) -> list[Finding]:
    """What is wrong with a rubric, in the order of its criteria.

    Args:
        rubric: a `Rubric`, or criteria in any shape that rubric files have.
        query: what is asked of the submissions; empty where it is not known.
        reference: whether the judge is shown a reference submission.
        rules: the rules to run.

    Raises:
        InputError: with one problem for each criterion that cannot be read.

    Example:
        >>> found = lint_rubric([{"requirement": "Is written in an appropriate tone.", "weight": 3}])
        >>> [(finding.rule, finding.criterion) for finding in found]
        [('criteria-count', None), ('vague-words', 1)]
    """
    held = rubric.rubric if isinstance(rubric, Rubric) else rubric
    entries = entries_of(held)
    return lint_sheet(Sheet(drafts(entries), query, reference, refusals=refusals(entries)), rules)


def lint_file(path: str | Path, rules: Sequence[Rule] = RULES) -> Iterator[Finding]:
    """What is wrong with the rubrics of a file, one rubric after the other.

    Raises:
        MissingFileError: there is no such file.
        InputError: something in the file could not be read; raised behind the findings on all the rest.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "final.jsonl"
        >>> _ = path.write_text('{"question": "Why?", "id": "q1", "rubrics": []}')
        >>> [finding.message for finding in lint_file(path)]
        ['0 criteria; expected 3 to 25', 'there are no criteria']
    """
    problems: list[str] = []
    for sheet in iter_sheets(path, problems):
        yield from lint_sheet(sheet, rules)
    if problems:
        raise InputError(problems)


def lint_sheet(sheet: Sheet, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """What is wrong with a sheet: the rubric as a whole first, then its criteria in order.

    Example:
        >>> lint_sheet(Sheet([]))[0].rule
        'criteria-count'
    """
    found = [
        Finding(
            sheet.place,
            hit.criterion,
            "" if hit.criterion is None else sheet.criteria[hit.criterion - 1].label,
            rule.id,
            rule.severity,
            hit.message,
            hit.suggestion,
        )
        for rule in rules
        for hit in rule.find(sheet)
    ]
    return sorted(found, key=lambda finding: finding.criterion or 0)
