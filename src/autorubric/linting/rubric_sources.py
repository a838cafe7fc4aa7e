"""Lints rubrics in memory and in files of any kind, one rubric at a time.

JSON Lines and tables (CSV, Parquet, Arrow) hold rows, and only one row (one batch) is in memory; a table may also
hold a rubric, one criterion per row. A JSON, YAML or TOML document contains a rubric, a dataset, or a list of rows.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autorubric.core.entries import is_criterion, read_table_criterion
from autorubric.core.entry_kinds import has_criteria
from autorubric.core.rubric import Rubric
from autorubric.dataset.dataset_reading import REF
from autorubric.errors import InputError, collected
from autorubric.linting.finding import Finding, Location, RawRubric, Rule
from autorubric.linting.records import build_row_reader, is_row, list_entries, read_raw_rubric, read_row
from autorubric.linting.rule_table import RULES
from autorubric.rows import Record, inspect_file, list_document_rows
from autorubric.rows.columns import ROLES, fold_name, resolve_roles
from autorubric.rows.record import HOLDERS, TEXT_KEYS


def iter_rubrics(
    path: str | Path, problems: list[str], columns: Mapping[str, str] | None = None
) -> Iterator[RawRubric]:
    """Yield the rubrics of a file, in order.

    Args:
        path: the file.
        problems: receives what could not be read, with file and row; reading continues after it.
        columns: columns of rows by what they hold: `query`, `rubric`, `id`, `reference`.

    Raises:
        MissingFileError: the file does not exist.
        InputError: the file cannot be read at all, or is of another kind.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rubric.yaml"
        >>> _ = path.write_text("- {requirement: Names two causes, weight: 3}")
        >>> [rubric.criteria[0].text for rubric in iter_rubrics(path, [])]
        ['Names two causes']
    """
    known = len(problems)
    rubrics = _iter_file(path, problems, resolve_roles(columns or {}))
    first = next(rubrics, None)
    if first is not None:
        yield first
        yield from rubrics
    elif len(problems) == known:
        problems.append(f"{path}: no rubric found")


def iter_rubrics_in_memory(
    document: Any, problems: list[str], columns: Mapping[str, str] | None = None
) -> Iterator[RawRubric]:
    """Return the rubrics of a dataset or of rows in memory, in order; messages and findings call them `data`.

    Args:
        document: the value that a JSON file of them would have.
        problems: receives what could not be read, with its row; reading continues after it.
        columns: as in `iter_rubrics`.

    Example:
        >>> [found.query for found in iter_rubrics_in_memory([{"question": "Why?", "rubrics": ["Says why."]}], [])]
        ['Why?']
    """
    return _iter_document(document, "data", problems, resolve_roles(columns or {}))


def _iter_file(path: str | Path, problems: list[str], columns: Mapping[str, str]) -> Iterator[RawRubric]:
    found = inspect_file(path)
    if found.is_document:
        yield from _iter_document(found.read_document(), found.name, problems, columns)
        return
    rest = ((record.number, record.fields) for record in found.iter_rows(problems))
    first = next(rest, None)
    if first is None:
        return
    head = first[1].get("dataset")
    rows = itertools.chain([first], rest)
    if first[1].keys() == {"dataset"} and isinstance(head, Mapping):
        next(rows)
        yield from _iter_dataset(head, rows, found.name, problems)
    elif not columns and not is_row(first[1]) and _is_criterion(first[1], is_table=found.is_table):
        criteria = [read_table_criterion(fields) if found.is_table else fields for _, fields in rows]
        yield from _iter_document(criteria, found.name, problems)
    else:
        yield from _iter_rows(rows, found.name, problems, columns)


def _is_criterion(row: Mapping[str, Any], *, is_table: bool) -> bool:
    """Return whether a row is a criterion; without a weight, only the first keys for the text count in JSON."""
    if is_criterion(row):
        return True
    return any(fold_name(key) in TEXT_KEYS for key in row) if is_table else any(row.get(key) for key in TEXT_KEYS[:2])


def _is_query(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a query and no text of a criterion."""
    keys = set(map(fold_name, row))
    return not keys.isdisjoint(ROLES["query"].names) and keys.isdisjoint(TEXT_KEYS)


def _iter_rows(
    rows: Iterable[tuple[int, Any]], file: str, problems: list[str], columns: Mapping[str, str]
) -> Iterator[RawRubric]:
    records = (Record(f"{file}:{number}", number, fields) for number, fields in rows)
    for record in build_row_reader(file, columns).read_all(records):
        row = record.number
        with collected(problems, f"{file}:{row}: "):
            yield from read_row(record, Location(file, row))


def _iter_document(
    document: Any, file: str, problems: list[str], columns: Mapping[str, str] | None = None
) -> Iterator[RawRubric]:
    if isinstance(document, Mapping) and isinstance(document.get("items"), list) and not has_criteria(document):
        yield from _iter_dataset(document, enumerate(document["items"]), file, problems)
        return
    keys = (*HOLDERS, "sections", *TEXT_KEYS[:2])
    if isinstance(document, dict) and (is_row(document) or document.keys().isdisjoint(keys)):
        rows = list_document_rows(document, file)
        document = rows if is_row(document) else document
    rows = [row for row in document if isinstance(row, Mapping)] if isinstance(document, list) else []
    if rows and (columns or any(map(is_row, rows)) or all(map(_is_query, rows))):
        problems += (
            f"{file}:{number}: expected a JSON object, got {type(row).__name__}"
            for number, row in enumerate(document, 1)
            if not isinstance(row, Mapping)
        )
        numbered = ((number, row) for number, row in enumerate(document, 1) if isinstance(row, Mapping))
        yield from _iter_rows(numbered, file, problems, columns or {})
        return
    yield from _iter_rubric(document, "", False, Location(file), problems)


def _iter_dataset(
    head: Mapping[str, Any], items: Iterator[tuple[int, Any]], file: str, problems: list[str]
) -> Iterator[RawRubric]:
    """Yield the dataset's own rubric, then those of items; a shared one appears once, at its first item."""
    given = head.get("prompt")
    prompt = given if isinstance(given, str) else ""
    reference = bool(head.get("reference_submission"))
    shared = dict(head["rubrics"]) if isinstance(head.get("rubrics"), Mapping) else {}
    if head.get("rubric") is not None and _find_name(head["rubric"]) is None:
        yield from _iter_rubric(head["rubric"], prompt, reference, Location(file), problems)
    for row, item in items:
        rubric = item.get("rubric") if isinstance(item, Mapping) else None
        name = _find_name(rubric)
        rubric, part = (rubric, "") if name is None else (shared.pop(name, None), f"rubrics.{name}")
        if rubric is not None:
            seen = reference or bool(item.get("reference_submission"))
            place = Location(file, row, str(item.get("id") or ""), part)
            yield from _iter_rubric(rubric, str(item.get("prompt") or prompt), seen, place, problems)
    for name, rubric in shared.items():
        yield from _iter_rubric(rubric, prompt, reference, Location(file, part=f"rubrics.{name}"), problems)


def _find_name(rubric: Any) -> str | None:
    """Return the name of the shared rubric that a reference points at; None for a rubric that is written out."""
    ref = rubric.get("$ref") if isinstance(rubric, Mapping) else None
    return None if ref is None else str(ref).removeprefix(REF)


def _iter_rubric(
    rubric: Any, query: str, reference: bool, place: Location, problems: list[str]
) -> Iterator[RawRubric]:
    where = ":".join(filter(None, (place.file, "" if place.row is None else str(place.row), place.part)))
    with collected(problems, f"{where}: "):
        yield read_raw_rubric(list_entries(rubric), query, reference, place)


def lint_rubric(
    rubric: Any, query: str = "", *, reference: bool = False, rules: Sequence[Rule] = RULES
) -> list[Finding]:
    """Return the findings on a rubric, in the order of its criteria.

    Args:
        rubric: a `Rubric`, or criteria in any shape that rubric files have.
        query: what is asked of the submissions; empty if it is not known.
        reference: whether the judge sees a reference submission.
        rules: the rules to run.

    Raises:
        InputError: with one problem for each criterion that cannot be read.

    Example:
        >>> found = lint_rubric([{"requirement": "Is written in an appropriate tone.", "weight": 3}])
        >>> [(finding.rule, finding.criterion) for finding in found]
        [('criteria-count', None), ('vague-words', 1)]
    """
    criteria = rubric.rubric if isinstance(rubric, Rubric) else rubric
    return lint_raw_rubric(read_raw_rubric(list_entries(criteria), query, reference), rules)


def lint_file(path: str | Path, rules: Sequence[Rule] = RULES) -> Iterator[Finding]:
    """Yield the findings on the rubrics of a file, one rubric after the other.

    Raises:
        MissingFileError: the file does not exist.
        InputError: something in the file could not be read; raised after all findings.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "final.jsonl"
        >>> _ = path.write_text('{"question": "Why?", "id": "q1", "rubrics": []}')
        >>> [finding.message for finding in lint_file(path)]
        ['0 criteria; expected 3 to 25', 'no criteria']
    """
    problems: list[str] = []
    for rubric in iter_rubrics(path, problems):
        yield from lint_raw_rubric(rubric, rules)
    if problems:
        raise InputError(problems)


def lint_raw_rubric(rubric: RawRubric, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """Return the findings on a rubric: the rubric as a whole first, then its criteria in order.

    Example:
        >>> lint_raw_rubric(RawRubric([]))[0].rule
        'criteria-count'
    """
    found = [
        Finding(
            rubric.place,
            hit.criterion,
            "" if hit.criterion is None else rubric.criteria[hit.criterion - 1].label,
            rule.id,
            rule.severity,
            hit.message,
            hit.suggestion,
        )
        for rule in rules
        for hit in rule.find(rubric)
    ]
    return sorted(found, key=lambda finding: finding.criterion or 0)
