"""Converts a file to another format, and reports what was lost."""

import filecmp
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from autorubric.core.entries import find_parts, from_json_text, is_criterion
from autorubric.core.rubric import Rubric
from autorubric.dataset.item import split_last_turn
from autorubric.errors import InputError, MissingFileError, problems_at
from autorubric.files.text import check_file
from autorubric.formats import format_registry
from autorubric.formats.autorubric_dataset import AUTORUBRIC, build_head, leave_shared, name_dataset
from autorubric.formats.containers import check_container, iter_rows, row_writer
from autorubric.formats.file_audit import Polarity, PolarityAudit, Questions, convert_polarity, parse_polarity
from autorubric.formats.format import Format, Record, Row, Written
from autorubric.formats.format_registry import find_format, list_formats
from autorubric.rows import Record as RowRecord
from autorubric.rows import RowReader, inspect_file, join_names, name_input
from autorubric.rows.columns import COLUMN_OPTION, ROLES, fold_name

_MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Options:
    """How a file is converted.

    Attributes:
        source: the name of the file's format; detected if None.
        polarity: the user's statement on negative weights.
        against: other splits of the same data, searched for the same questions.
        carry: whether to keep fields that the target lacks under the key `autorubric`.
        strict: whether a loss stops the conversion.
        force: whether to replace an existing file with other content.
        columns: columns of rows in no named format, by role.
    """

    source: str | None = None
    polarity: str = "as-is"
    against: Sequence[str | Path] = ()
    carry: bool = True
    strict: bool = False
    force: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Conversion:
    """The result of a conversion: rows read, written and lost.

    Attributes:
        source: name of the format read.
        target: name of the format written, or None if nothing was.
        records: queries with a rubric.
        criteria: criteria in them.
        lost: the number of records that lost a field, by its name.
        carried: the number of records that have it only under the key `autorubric`.
        blank: items written with a blank submission because their records have no answer.
        polarity: the agreement of wordings and signs.
        questions: the repeated questions.
        head: the fields that all items of the dataset read share; empty if it was none.
    """

    source: str = ""
    target: str | None = None
    records: int = 0
    criteria: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    carried: Counter[str] = field(default_factory=Counter)
    blank: int = 0
    polarity: PolarityAudit = field(default_factory=PolarityAudit)
    questions: Questions = field(default_factory=Questions)
    head: Row = field(default_factory=dict, repr=False)


_DEFAULTS = Options()
_POINTS = ("criterion", "points")
_OF_USUAL_NAMES = {"rubrichub": _POINTS, "healthbench": _POINTS, "ruft": _POINTS, "rar": ("description", "weight")}
"""Formats whose rows have only usual names, and the keys of their criteria."""


def convert(
    source: str | Path, target: str | Path | None, target_format: str | None, options: Options = _DEFAULTS
) -> Conversion:
    """Convert a file; the target is written atomically.

    Args:
        source: the file to read.
        target: the file to write; None to read and report only.
        target_format: its format; None only if there is no target.
        options: how to convert.

    Raises:
        InputError: rows are wrong (each is named), the format is unknown, something would be lost and `strict` is
            set, or the target exists with other content and `force` is not set.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> line = '{"question": "Why?", "id": "q1", "rubrics": [{"criterion": "Says why.", "points": 5}]}'
        >>> _ = (folder / "final.jsonl").write_text(line)
        >>> done = convert(folder / "final.jsonl", folder / "rows.parquet", "verl")
        >>> done.source, done.records, dict(done.lost)
        ('rubrichub', 1, {})
    """
    polarity = parse_polarity(options.polarity)
    if options.source is not None:
        find_format(options.source)
    done = Conversion()
    records = _iter_audited(source, options, polarity, done)
    if target is None or polarity == "audit":
        for _ in records:
            pass
        return done
    if target_format is None:
        raise InputError(
            f"pass --to with the format of {target}; the formats are {', '.join(format_registry.list_format_names())}"
        )
    form = find_format(target_format)
    check_container(target, form)
    done.target = form.name
    with _draft(Path(source), Path(target), options.force) as draft:
        first = list(islice(records, 1))  # a dataset's head is read before its first item
        head = _plan_head(form, first, polarity, done)
        with _sink(draft, form, done, carry=options.carry, head=head) as write:
            for place, record in chain(first, records):
                write(record, place)
        if options.strict and done.lost:
            losses = (
                f"{name} would be lost in {count} of {done.records} rows"
                for name, count in sorted(done.lost.items(), key=lambda item: (-item[1], item[0]))
            )
            raise InputError(losses, "leave out --strict to convert anyway")
    return done


def read_records(path: str | Path, source: str | None = None) -> Iterator[tuple[str, Record]]:
    """Return the records of a file in any of the formats, one at a time, with their places.

    Invalid rows are skipped and reported together after the last row.

    Args:
        path: the file.
        source: name of its format; detected from the first row if None.

    Raises:
        InputError: rows are invalid, or no format matches.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "final.jsonl"
        >>> _ = path.write_text('{"question": "Why?", "rubrics": [{"criterion": "Says why.", "points": 5}]}')
        >>> [record.prompt for _, record in read_records(path)]
        ['Why?']
    """
    return _iter_records(path, source, Conversion(), {})


def write_records(
    path: str | Path, target_format: str, records: Iterable[Record], *, carry: bool = True
) -> Conversion:
    """Write records to a file of a format atomically, and report what was lost.

    Raises:
        InputError: the format is unknown or not stored in such files, or a record cannot be written in it.

    Example:
        >>> import tempfile
        >>> from autorubric.core.criterion import Criterion
        >>> record = Record((Criterion(weight=5, requirement="Says why.", name="Cause"),), "Why?", id="q1")
        >>> path = Path(tempfile.mkdtemp()) / "final.parquet"
        >>> dict(write_records(path, "rubrichub", [record]).lost)
        {'criteria.name': 1}
    """
    form = find_format(target_format)
    done = Conversion(target=form.name)
    with _sink(Path(path), form, done, carry=carry) as write:
        for record in records:
            done.records += 1
            done.criteria += len(record.criteria)
            write(record, f"record {done.records}")
    return done


def _iter_audited(
    source: str | Path, options: Options, polarity: Polarity, done: Conversion
) -> Iterator[tuple[str, Record]]:
    """Yield the records of the source, audited, and with the polarity converted."""
    for other in options.against:
        for place, record in _iter_records(other, None, Conversion(), options.columns):
            done.questions.add_other(record, place)
    for place, record in _iter_records(source, options.source, done, options.columns):
        done.records += 1
        done.criteria += len(record.criteria)
        done.polarity.add(record, place)
        done.questions.add(record, place)
        named = replace(record, metadata={**record.metadata, **name_dataset(done.head)})
        yield place, convert_polarity(named, polarity, done.polarity)


def _iter_records(
    path: str | Path, source: str | None, done: Conversion, columns: Mapping[str, str]
) -> Iterator[tuple[str, Record]]:
    problems: list[str] = []
    waiting: tuple[str, Record] | None = None
    for form, place, record in _iter_parts(path, source, columns, problems, done.head):
        done.source = form.name
        merged = form.joined(waiting[1], record) if form.joined is not None and waiting is not None else None
        if waiting is not None and merged is None:
            yield waiting
        waiting = (waiting[0], merged) if waiting is not None and merged is not None else (place, record)
    if waiting is not None:
        yield waiting
    if problems:
        raise InputError(problems)


_QUERIES = frozenset(ROLES["query"].names)
_BARE = frozenset(("requirement", "criterion", "name", "section"))
"""The keys of criteria without weights, as in a Markdown list."""
_OPTION = "--from FORMAT (in Python: from_), or " + COLUMN_OPTION


def _iter_parts(
    path: str | Path, source: str | None, columns: Mapping[str, str], problems: list[str], head: Row
) -> Iterator[tuple[Format, str, Record]]:
    """Yield the record of each row, parts of one record separately; if no format is given, the first row decides."""
    form = find_format(source) if source is not None else format_registry.USUAL if columns else None
    reader = None if source is not None else RowReader(name_input(path), format_registry.IN_ROW, _OPTION, columns)
    for place, row in iter_rows(path, problems, head):
        if form is None and not any(one.matches(row) for one in list_formats().values()) and _is_rubric(row, path):
            yield find_format("llmdc"), name_input(path), _read_rubric(path)
            return
        form = _detect_format(row, place, reader) if form is None else form
        record = _read(form, row, place, problems, reader)
        if record is not None:
            yield form, place, record


def _is_rubric(row: Row, path: str | Path) -> bool:
    """Return whether a row is a criterion of a list, or the file a document of criteria, such as a Canvas rubric."""
    if not isinstance(row.get("criteria"), list) or not _QUERIES.isdisjoint(map(fold_name, row)):
        return is_criterion(row) or row.keys() <= _BARE
    found = inspect_file(path)
    return found.is_document and isinstance(found.read_document(), dict)


def _read_rubric(path: str | Path) -> Record:
    rubric = Rubric.from_file(path)
    return Record(tuple(rubric.rubric), guidelines=rubric.guidelines, metadata=rubric.metadata)


def _read(form: Format, row: Row, place: str, problems: list[str], reader: RowReader | None) -> Record | None:
    usual = None
    if reader is not None and (form is format_registry.USUAL or form.name in _OF_USUAL_NAMES):
        usual = reader.read(RowRecord(place, 0, row))
    try:
        if form is format_registry.USUAL and reader is not None and usual is not None:
            return format_registry.read_usual(split_last_turn(reader, usual))
        if not form.matches(row):
            raise InputError(f"is not a row of {form.name}; its keys are {join_names(row)}")
        return form.read(row) if usual is None else format_registry.with_usual(form.read(row), usual)
    except InputError as error:
        problems += (p if p.startswith(place) else f"{place}: {p}" for p in error.problems)
    if len(problems) >= _MOST_PROBLEMS:
        raise InputError(problems, f"reading stopped after {_MOST_PROBLEMS} problems")
    return None


def _detect_format(row: Row, place: str, reader: RowReader | None) -> Format:
    """Return the format of a row: a named one, or `USUAL` if none matches completely."""
    try:
        form = format_registry.detect(row)
        if form.name not in _OF_USUAL_NAMES or _has_entries(row, _OF_USUAL_NAMES[form.name]):
            return form
    except InputError as error:
        usual = None if reader is None else reader.read(RowRecord(place, 0, row))
        if usual is None or usual.read_value("query") is None or usual.read_value("rubric") is None:
            advice = "or name the columns of the query and the rubric with --column ROLE=NAME (in Python: column)"
            raise InputError([f"{place}: {problem}" for problem in error.problems], advice) from None
    return format_registry.USUAL


def _has_entries(row: Row, keys: tuple[str, str]) -> bool:
    """Return whether a rubric has the keys of a format in its first criterion; True if this cannot be decided."""
    try:
        entries = from_json_text(row.get("rubrics", row.get("rubric")), "rubric")
    except InputError:
        return True
    if isinstance(entries, Mapping) or not isinstance(entries, list) or not entries:
        return not isinstance(entries, Mapping)
    if not isinstance(entries[0], Mapping):
        return not isinstance(entries[0], str)
    used, first = find_parts(entries[0])[0], entries[0]
    is_usual = not {"options", "criteria"}.isdisjoint(first) or isinstance(first.get(used.weight), str)
    return not is_usual and used.text in ("", keys[0]) and used.weight in ("", keys[1])


def _plan_head(form: Format, first: list[tuple[str, Record]], polarity: Polarity, done: Conversion) -> Row:
    """Return the fields that all items of the dataset to write share; empty for other formats."""
    if form is not AUTORUBRIC:
        return {}
    record = first[0][1] if first else None
    return build_head(done.head, record, lambda shared: convert_polarity(shared, polarity, PolarityAudit()))


@contextmanager
def _sink(
    path: Path, form: Format, done: Conversion, *, carry: bool, head: Row | None = None
) -> Iterator[Callable[[Record, str], None]]:
    """Yield a function that writes records to a file and counts what they lose."""
    with row_writer(path, form, carry=carry, head=head) as add:

        def write(record: Record, place: str) -> None:
            written: list[Written] = []
            with problems_at(f"{place}: "):
                for part in form.parts(record) if form.parts is not None else (record,):
                    written.append(form.write(part, columnar=path.suffix.lower() == ".parquet", carry=carry))
                    add(leave_shared(written[-1].row, head) if head else written[-1].row)
                    done.blank += written[-1].row.get("submission") == ""
            done.lost.update(list(dict.fromkeys(name for written in written for name in written.lost)))
            done.carried.update(list(dict.fromkeys(name for written in written for name in written.carried)))

        yield write


@contextmanager
def _draft(source: Path, target: Path, force: bool) -> Iterator[Path]:
    """Yield a draft next to the target, which it replaces when the `with` block succeeds."""
    try:
        check_file(target)
    except MissingFileError:
        pass
    except InputError as error:
        raise InputError(error.problems, "pass the name of an output file") from None
    if target.exists() and source.exists() and target.samefile(source):
        raise InputError(f"{target} is also the input file; pass another output file")
    if not target.parent.is_dir():
        raise InputError(f"{target}: the directory {target.parent} does not exist")
    target = target.resolve()  # of a symbolic link, the target is replaced
    draft = target.with_name(f".{secrets.token_hex(6)}{target.suffix}")
    try:
        draft.touch()
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        yield draft
        if target.exists() and not force and not filecmp.cmp(draft, target, shallow=False):
            raise InputError(f"{target} exists with other content; pass --force to replace it")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
