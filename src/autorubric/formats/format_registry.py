"""The formats, built in or registered by installed packages, and their detection."""

from dataclasses import replace
from functools import cache
from typing import Any

from autorubric.core.rubric_from import rubric_from
from autorubric.errors import InputError
from autorubric.files import suggest_name
from autorubric.formats.autorubric_dataset import AUTORUBRIC
from autorubric.formats.format import Format, Row
from autorubric.formats.format import Record as Described
from autorubric.formats.rubric_documents import LLMDC, PAPERBENCH, PROMETHEUS, VERIFIERS
from autorubric.formats.rubric_rows import HEALTHBENCH, OPEN_INSTRUCT, RAR, VERL
from autorubric.formats.rubrichub import RUBRICHUB, RUFT, RURL
from autorubric.plugins import find_plugins, load_plugin
from autorubric.rows import Record, join_names
from autorubric.rows.record import read_question

_GROUP = "formats"

FORMATS: dict[str, Format] = {
    fmt.name: fmt
    for fmt in (
        AUTORUBRIC,
        RUBRICHUB,
        RURL,
        RUFT,
        HEALTHBENCH,
        RAR,
        VERL,
        OPEN_INSTRUCT,
        VERIFIERS,
        LLMDC,
        PAPERBENCH,
        PROMETHEUS,
    )
}
"""The built-in formats by name."""


def list_format_names() -> list[str]:
    """Return the names of all formats, those of installed packages last."""
    return list(dict.fromkeys((*FORMATS, *find_plugins(_GROUP))))


def list_formats() -> dict[str, Format]:
    """Return every format by name, those of installed packages last.

    Raises:
        InputError: an installed package registers a format that cannot be used.
    """
    return {name: find_format(name) for name in list_format_names()}


@cache
def _load_format(name: str) -> Format | None:
    found = load_plugin(_GROUP, name)
    where = f"entry point {name!r} in group 'autorubric.{_GROUP}'"
    if found is not None and not isinstance(found, Format):
        raise InputError(f"{where} is a {type(found).__name__}; expected an autorubric.formats.Format")
    if found is not None and found.name != name:
        raise InputError(f"{where} is the format {found.name!r}; give the entry point this name")
    return found


def find_format(name: str) -> Format:
    """Return the format of a name: built in (takes precedence), or registered by an installed package.

    Raises:
        InputError: the name is unknown; the message has the nearest name or all names.

    Example:
        >>> find_format("healthbnch")
        Traceback (most recent call last):
        autorubric.errors.InputError: unknown format 'healthbnch'; did you mean 'healthbench'?
    """
    found = FORMATS.get(name) or _load_format(name)
    if found is None:
        raise InputError(f"unknown format {name!r}; {suggest_name(name, list_format_names())}")
    return found


def detect(row: Row) -> Format:
    """Return the format of a row, by its keys.

    Raises:
        InputError: no format or several match; the message has the keys.

    Example:
        >>> detect({"question": "Why?", "id": "q1", "rubrics": []}).name
        'rubrichub'
        >>> detect({"text": "Why?"})
        Traceback (most recent call last):
        autorubric.errors.InputError: no format has rows with the keys 'text'; known formats: autorubric, ...
    """
    formats = list_formats()
    found = [fmt for fmt in formats.values() if fmt.matches(row)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"no format has rows with the keys {join_names(row)}; known formats: {', '.join(formats)}")
    names = " and ".join(fmt.name for fmt in found)
    raise InputError(f"rows with the keys {join_names(row)} may be {names}; choose one with --from")


IN_ROW = ("query", "rubric", "id", "submission", "reference", "domain")
"""What a row under usual names may contain."""
_PARTS = (("id", "id"), ("answer", "submission"), ("reference", "reference"), ("domain", "domain"))


def read_usual(row: Record) -> Described:
    """Return the record of a row in no named format, read by a `RowReader`.

    Raises:
        InputError: it has no query or no rubric, or one of them cannot be read.

    Example:
        >>> from autorubric.rows import Record, RowReader
        >>> row = Record("a.jsonl:1", 1, {"task": "Why?", "criteria": [{"requirement": "Says why."}], "uid": 7})
        >>> read_usual(RowReader("a.jsonl", IN_ROW).read(row)).id
        '7'
    """
    query, rubric = row.query, row.read_value("rubric")
    if query is None or rubric is None:
        raise InputError(f"{row.where}: has no query or no rubric; its keys are {join_names(row.fields)}")
    read = rubric_from(rubric, row.where)
    found = {row.columns[role]: row.read_value(role) for role in row.columns if role not in ("query", "rubric")}
    metadata = {key: value for key, value in (row.rest | found).items() if value is not None}
    prompt = read_question(query, row.columns["query"])
    return with_usual(Described(tuple(read.rubric), prompt, guidelines=read.guidelines, metadata=metadata), row)


def with_usual(record: Described, row: Record) -> Described:
    """Return the record with fields of the row under usual names that its format lacks.

    Example:
        >>> from autorubric.rows import RowReader
        >>> row = RowReader("a.jsonl", IN_ROW).read(Record("a.jsonl:1", 1, {"uid": "q1"}))
        >>> with_usual(Described((), metadata={"uid": "q1"}), row).id
        'q1'
    """
    found: dict[str, Any] = {}
    for name, role in _PARTS:
        value = (row.id if role == "id" else row.read_value(role)) if not getattr(record, name) else None
        if isinstance(value, str | int):
            found[name] = str(value)
    if not found:
        return record
    used = {row.columns[role] for name, role in _PARTS if name in found}
    return replace(record, **found, metadata={k: v for k, v in record.metadata.items() if k not in used})


def _refuse_use(_: Any) -> Any:
    raise AssertionError("`read_usual` reads rows under usual names; nothing writes them")


USUAL = Format("usual names", "Rows under usual names", (), lambda row: True, _refuse_use, _refuse_use)
"""The format of rows in no named format; not in `FORMATS`."""
