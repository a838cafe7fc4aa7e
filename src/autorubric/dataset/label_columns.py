"""Labels in columns of rows, one column for each criterion."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.rubric import Rubric
from autorubric.dataset.ground_truth import NEAR, GroundTruthReader, find_near_columns, match_label, parse_number
from autorubric.dataset.item import OF_TWO, DataItem
from autorubric.dataset.label_rows import read_label
from autorubric.errors import InputError
from autorubric.rows import join_names
from autorubric.rows.columns import fold_name
from autorubric.rows.record import is_blank

_WAYS = "label all criteria, or import single labels into the run with `autorubric labels RUN --import FILE`"


def read_label_columns(placed: Sequence[tuple[str, DataItem]], rubric: Rubric, notes: list[str]) -> None:
    """Read labels from columns with the names or texts of the criteria, one column for each criterion.

    Columns without any label, such as scores, stay in the metadata. An item with only blank cells has no labels.

    Args:
        placed: the items of a file, each with its place; their metadata has the columns.
        rubric: the rubric of all items.
        notes: collects a sentence that names the columns.

    Raises:
        InputError: some values are labels and others are not; each is named with its place.

    Example:
        >>> item, notes = DataItem("So.", "", metadata={"brief": "met", "model": "m"}), []
        >>> rubric = Rubric.from_dict([{"name": "Brief", "requirement": "Is brief"}])
        >>> read_label_columns([("a.csv:2", item)], rubric, notes)
        >>> item.ground_truth, item.metadata, notes
        ([<CriterionVerdict.MET: 'MET'>], {'model': 'm'}, ["labels are read from 'brief', named like the criteria"])
    """
    columns = _find_label_columns(rubric, (item.metadata for _, item in placed), notes)
    if any(item.ground_truth is not None for _, item in placed):
        kept = f"kept as metadata, since 'ground_truth' has the labels: {join_names(columns.values())}"
        notes += [kept] * bool(columns)
        return
    by_name = dict(zip(name_criteria(rubric.rubric), rubric, strict=True))
    rows = [{name: _read_word(item.metadata.get(column)) for name, column in columns.items()} for _, item in placed]
    used = dict.fromkeys(pair for row in rows for pair in row.items() if pair[1])
    meant = {(name, word): match_label(by_name[name], word) for name, word in used}
    bare, has_label = [name for name in by_name if name not in columns], _are_labels(meant)
    if bare or not has_label:
        notes += [*_note_unread(columns, bare, meant), *_find_hints(placed, by_name)]
        return
    partial = set[str]()
    if None not in meant.values():  # else a row with only some labels is a problem
        given = {where: row for (where, _), row in zip(placed, rows, strict=True) if any(row.values())}
        partial = _find_partial(given, columns.values(), notes)
    whole, problems, labels = GroundTruthReader(rubric), list[str](), list[Any]()
    for (where, _), row in zip(placed, rows, strict=True):
        held = {name: meant[name, word] or word for name, word in row.items() if word and where not in partial}
        found = [OF_TWO] * (bool(held) and where.endswith("(chosen)"))
        labels.append(whole.read(held, found) if held else None)
        problems += (f"{where}: {problem}" for problem in found)
    read = f"labels are read from {join_names(columns.values())}"
    if problems:
        advice = "label all criteria of a row or none, and rename columns that contain something else"
        raise InputError([*problems, f"{read}; {advice}"])
    for (where, item), verdicts in zip(placed, labels, strict=True):
        item.ground_truth = verdicts
        gone = () if where in partial else columns.values()
        item.metadata = {key: cell for key, cell in item.metadata.items() if key not in gone}
    notes += [f"{read}, named like the criteria"] * any(labels)
    for name, word in used:
        match_label(by_name[name], word, notes)


def _find_partial(rows: Mapping[str, Mapping[str, str]], columns: Iterable[str], notes: list[str]) -> set[str]:
    """Return the places of rows with labels for only some criteria, which are noted."""
    found = [where for where, row in rows.items() if "" in row.values()]
    if found:
        some = f"{len(found)} of {len(rows)} rows in {join_names(columns)}"
        notes.append(f"labels of {some} are not read: {found[0]} has only some; {_WAYS}")
    return set(found)


def _read_word(cell: Any) -> str:
    try:
        return read_label(cell)
    except ValueError:
        return str(cell)


def _are_labels(meant: Mapping[Any, str | None]) -> bool:
    """Return whether the words of columns are labels: all are, or one is and cannot be a score."""
    return (bool(meant) and None not in meant.values()) or any(
        label is not None and (label == word or parse_number(word) is None) for (_, word), label in meant.items()
    )


def _note_unread(
    columns: Mapping[str, str], bare: list[str], meant: Mapping[tuple[str, str], str | None]
) -> Iterator[str]:
    named, other = join_names(columns.values()), next((pair for pair, label in meant.items() if label is None), None)
    if bare:
        if _are_labels(meant):
            yield f"labels in {named} are not read, since {join_names(bare)} has none; {_WAYS}"
    elif other is None or not any(meant.values()):
        yield f"columns named like criteria, but without labels such as MET, are kept as metadata: {named}"
    else:
        reason = f"since {columns[other[0]]!r} has {other[1]!r:.60}; expected only labels"
        yield f"labels in {named} are not read, {reason}"


def note_own_labels(placed: Iterable[tuple[str, DataItem]]) -> Iterator[str]:
    """Yield a note on the first item that has its own rubric and labels in columns named like its criteria.

    Example:
        >>> rubric = Rubric.from_dict([{"name": "Brief", "requirement": "Is brief"}])
        >>> list(note_own_labels([("a.csv:2", DataItem("So.", "", rubric=rubric, metadata={"brief": "yes"}))]))
        ["a.csv:2: labels in 'brief' are not read, since the row has its own rubric; write them under ...
    """
    for where, item in placed:
        if item.rubric is None or item.ground_truth is not None:
            continue
        columns = _find_label_columns(item.rubric, [item.metadata], [])
        by_name = dict(zip(name_criteria(item.rubric.rubric), item.rubric, strict=True))
        words = ((by_name[name], _read_word(item.metadata.get(column))) for name, column in columns.items())
        if columns and all(match_label(criterion, word) for criterion, word in words):
            why = "since the row has its own rubric; write them under 'ground_truth', a list or a mapping from names"
            yield f"{where}: labels in {join_names(columns.values())} are not read, {why}"
            return


def _find_hints(placed: Sequence[tuple[str, DataItem]], by_name: Mapping[str, Criterion]) -> Iterator[str]:
    """Sentences on columns of labels with nearly the name of a criterion."""
    columns = dict.fromkeys(column for _, item in placed for column in item.metadata)
    called = {criterion.requirement: criterion for criterion in by_name.values()} | dict(by_name)
    for column, name in find_near_columns(columns, [*by_name.values()]).items():
        words = {_read_word(item.metadata.get(column)) for _, item in placed} - {""}
        if words and all(match_label(called[name], word) for word in words):
            yield NEAR.format(column, name)


def _find_label_columns(rubric: Rubric, rows: Iterable[Mapping[str, Any]], notes: list[str]) -> dict[str, str]:
    """Return the column named like each criterion or its text, by the criterion's name; empty if one has several."""
    by_name: dict[str, list[str]] = {}
    for column in dict.fromkeys(column for row in rows for column, cell in row.items() if not is_blank(cell)):
        by_name.setdefault(fold_name(column), []).append(column)
    found: dict[str, list[str]] = {}
    for name, criterion in zip(name_criteria(rubric.rubric), rubric, strict=True):
        called = next((key for key in map(fold_name, (name, criterion.requirement)) if key in by_name), None)
        if called is not None:
            found[name] = by_name[called]
    if several := [columns for columns in found.values() if len(columns) > 1]:
        notes.append(
            f"labels are not read, since several columns are named like one criterion: {join_names(several[0])}"
        )
        return {}
    return {name: columns[0] for name, columns in found.items()}
