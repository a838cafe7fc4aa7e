"""A format: how its rows are recognized, read and written, and the record that each becomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.rubric_shapes import dump_criterion, read_criteria
from autorubric.errors import InputError
from autorubric.files.json_values import to_json_value
from autorubric.files.strict_json import describe_parse_error
from autorubric.rows.messages import quote
from autorubric.rows.record import Prompt, read_prompt

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = dict[str, Any]
"""One row as JSON values."""


@dataclass(frozen=True, slots=True)
class Record:
    """One query with its rubric.

    Attributes:
        criteria: at least one; a negative weight marks a pitfall, which costs points if it is met.
        prompt: the query; empty if the file has only a rubric.
        id: of the row, in its file.
        reference: an ideal answer.
        answer: the submission in the row.
        domain: the field, such as `Medical`.
        guidelines: advice to the judge.
        metadata: everything else in the row, by the keys of its format, without None values.
    """

    criteria: tuple[Criterion, ...]
    prompt: Prompt = ""
    id: str = ""
    reference: str | None = None
    answer: str | None = None
    domain: str = ""
    guidelines: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_text(row: Mapping[str, Any], *keys: str) -> str | None:
    """Return the text under the first of the keys that has a value.

    Raises:
        InputError: the value is not text.

    Example:
        >>> read_text({"id": None, "prompt_id": 7}, "id", "prompt_id")
        '7'
    """
    for key in keys:
        value = row.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            raise InputError(f"{key} is {quote(value)}; expected a string")
    return None


def read_object(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping under a key of a row, empty if there is none.

    Raises:
        InputError: the value is something else.

    Example:
        >>> read_object({"reward_model": {"style": "rubric"}}, "reward_model"), read_object({}, "reward_model")
        ({'style': 'rubric'}, {})
    """
    value = row.get(key)
    if not isinstance(value, Mapping | None):
        raise InputError(f"{key} is {value!r:.60}; expected an object")
    return value or {}


TURNS = [{"role": str, "content": str}]
"""The turns of a conversation, as a column of a table."""


def build_schema(columns: Mapping[str, Any]) -> Callable[[], pa.Schema]:
    """Return a function that builds the schema of a table, so that Arrow is imported only if needed.

    Args:
        columns: the type of each: `str`, `int`, `float`, a list of one type, or a mapping for a struct.

    Example:
        >>> build_schema({"id": str, "rubrics": [{"criterion": str, "points": float}]})().field("id").type
        DataType(string)
    """

    def build() -> pa.Schema:
        import pyarrow as pa

        scalars = {str: pa.string(), int: pa.int64(), float: pa.float64()}

        def to_arrow_type(kind: Any) -> pa.DataType:
            if isinstance(kind, list):
                return pa.list_(to_arrow_type(kind[0]))
            if isinstance(kind, Mapping):
                return pa.struct([(name, to_arrow_type(inner)) for name, inner in kind.items()])
            return scalars[kind]

        return pa.schema([(name, to_arrow_type(kind)) for name, kind in columns.items()])

    return build


def find_source(record: Record) -> str:
    """Return the value of `data_source`: the record's, else its domain.

    Example:
        >>> find_source(Record((Criterion(requirement="Is brief"),), domain="Medical"))
        'Medical'
    """
    source = record.metadata.get("data_source")
    return source if isinstance(source, str) else record.domain


def to_whole(weight: float) -> int:
    """Return a weight rounded to a whole number, halves away from zero; a weight other than 0 never becomes 0.

    Example:
        >>> to_whole(2.5), to_whole(-2.5), to_whole(0.2)
        (3, -3, 1)
    """
    size = int(abs(weight) + 0.5)
    return (max(size, 1) if weight else 0) * (-1 if weight < 0 else 1)


class Written(NamedTuple):
    """A row, and the parts of its record that the format's own keys do not contain.

    Attributes:
        row: JSON values.
        lost: names of parts that the row does not contain.
        carried: names of parts that it contains only under `autorubric`, which other tools do not read.
    """

    row: Row
    lost: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """One format: pure functions between its rows and records.

    Attributes:
        name: the value of `--from` and `--to`.
        title: a description, for lists.
        containers: the extensions of its files, the usual one first.
        matches: whether a row is one of its rows, by its keys.
        read_row: the record of a row, by the format's own keys.
        write_row: the row of a record; parts without a key of the format are left out.
        schema: the Arrow schema, if it is stored in Parquet.
        carrier: path of keys to the mapping in a row that may carry the other parts; () is the row itself, None means
            that rows have only the format's keys.
        columns: converts a row for Parquet, if its columns represent less than JSON.
        parts: splits a record, if a row has a single criterion.
        document: the value of a JSON, YAML or TOML file of rows; None for the list of rows.
        joined: merges a record and the next part of it; None if they are not parts of one record.
    """

    name: str
    title: str
    containers: tuple[str, ...]
    matches: Callable[[Row], bool]
    read_row: Callable[[Row], Record]
    write_row: Callable[[Record], Row]
    schema: Callable[[], pa.Schema] | None = None
    carrier: tuple[str, ...] | None = ()
    columns: Callable[[Row], Row] | None = None
    parts: Callable[[Record], Sequence[Record]] | None = None
    document: Callable[[list[Row]], Any] | None = None
    joined: Callable[[Record, Record], Record | None] | None = None

    def read(self, row: Row) -> Record:
        """Return the record of a row, with everything that it carries.

        Raises:
            InputError: the row is invalid in this format; all problems are reported.

        Example:
            >>> from autorubric.formats import find_format
            >>> row = {"question": "Why?", "id": "q1", "rubrics": [{"criterion": "Says why.", "points": 5}]}
            >>> find_format("rubrichub").read(row).criteria
            (Criterion(weight=5.0, requirement='Says why.'),)
        """
        if self.carrier is None:
            return self.read_row(row)
        plain, carried = _pop_extras(row, self.carrier)
        record = self.read_row(plain)
        left = _load(carried)
        return _restore(record, left) if left else record

    def write(self, record: Record, *, columnar: bool = False, carry: bool = True) -> Written:
        """Return the row of a record and what it loses, found by reading the row back.

        Args:
            record: the record to write.
            columnar: whether the row is for Parquet.
            carry: whether parts without a key of the format are kept under `autorubric`, if rows may have it.

        Raises:
            InputError: the record cannot be written in this format.

        Example:
            >>> from autorubric.core.criterion import Criterion
            >>> from autorubric.formats import find_format
            >>> record = Record((Criterion(requirement="Says why.", name="Cause"),), "Why?", id="q1")
            >>> find_format("rubrichub").write(record).lost
            ('criteria.name',)
        """
        row = self.write_row(record)
        if columnar and self.columns is not None:
            row = self.columns(row)
        left = find_losses(record, self.read_row(row))
        names = tuple(name_losses(left))
        if self.carrier is None or not carry:
            return Written(row, lost=names)
        if not left and self.schema is None:
            return Written(row)
        return Written(_add_extras(row, self.carrier, _dump(left)), carried=names)

    def build_arrow_schema(self, carry: bool = True) -> pa.Schema:
        """Return the schema of its Parquet files, independent of the rows.

        Raises:
            InputError: it is not stored in Parquet.
        """
        if self.schema is None:
            raise InputError(f"{self.name} cannot be stored as Parquet; use {' or '.join(self.containers)}")
        schema = self.schema()
        if self.carrier == () and carry:
            import pyarrow as pa

            return schema.append(pa.field(KEY, pa.string()))
        return schema


def check_only_row(rows: list[Row]) -> Row:
    """Return the only row of a file that can contain a single rubric.

    Raises:
        InputError: there are several or none.

    Example:
        >>> check_only_row([{"rubric": []}])
        {'rubric': []}
    """
    if len(rows) != 1:
        raise InputError(f"such a file has one rubric, but there are {len(rows)}; write a .jsonl with one per line")
    return rows[0]


def _pop_extras(row: Row, path: tuple[str, ...]) -> tuple[Row, Any]:
    """Return the row without `KEY`, and the value of that key."""
    if not path:
        return {key: value for key, value in row.items() if key != KEY}, row.get(KEY)
    inner = row.get(path[0])
    if not isinstance(inner, Mapping):
        return row, None
    plain, carried = _pop_extras(dict(inner), path[1:])
    return {**row, path[0]: plain}, carried


def _add_extras(row: Row, path: tuple[str, ...], text: str) -> Row:
    if not path:
        return {**row, KEY: text}
    return {**row, path[0]: _add_extras(dict(row.get(path[0]) or {}), path[1:], text)}


KEY = "autorubric"
"""The key of carried parts, as JSON text, so that its column always has one type."""

_FIELDS = ("id", "prompt", "reference", "answer", "domain", "guidelines")


def find_losses(record: Record, back: Record) -> dict[str, Any]:
    """Return the parts of a record that its row loses, as JSON values; None for parts that the row adds.

    Example:
        >>> one = Criterion(weight=5, requirement="Names the dose.", tags=["axis:accuracy"])
        >>> find_losses(Record((one,), "Why?", id="q1"), Record((one.model_copy(update={"tags": []}),), "Why?"))
        {'id': 'q1', 'criteria': {'0': {'tags': ['axis:accuracy']}}}
    """
    found: dict[str, Any] = {
        name: getattr(record, name) for name in _FIELDS if getattr(record, name) != getattr(back, name)
    }
    metadata = _find_changes(record.metadata, back.metadata)
    if metadata:
        found["metadata"] = metadata
    if len(record.criteria) != len(back.criteria):
        found["criteria"] = [dump_criterion(criterion) for criterion in record.criteria]
    elif record.criteria != back.criteria:
        pairs = zip(record.criteria, back.criteria, strict=True)
        found["criteria"] = {
            str(index): change
            for index, (ours, theirs) in enumerate(pairs)
            if ours != theirs and (change := _find_changes(dump_criterion(ours), dump_criterion(theirs)))
        }
    return found


def _restore(record: Record, left: Mapping[str, Any]) -> Record:
    """Return the record with the carried parts."""
    unknown = sorted(set(left) - {*_FIELDS, "metadata", "criteria"})
    if unknown:
        raise InputError(f"{KEY} has the unknown keys {', '.join(unknown)}")
    fields: dict[str, Any] = {name: left[name] for name in _FIELDS if name in left}
    if "prompt" in fields:
        fields["prompt"] = read_prompt(fields["prompt"], f"{KEY}.prompt")
    wrong = [name for name, value in fields.items() if name != "prompt" and not isinstance(value, str | None)]
    if wrong:
        raise InputError(f"{KEY}.{wrong[0]} is {fields[wrong[0]]!r:.60}; expected a string")
    if "metadata" in left:
        merged = {**record.metadata, **_check_mapping(left["metadata"], "metadata")}
        fields["metadata"] = {key: value for key, value in merged.items() if value is not None}
    if "criteria" in left:
        fields["criteria"] = _restore_criteria(record, left["criteria"])
    return replace(record, **fields)


def name_losses(left: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of lost parts, such as `criteria.tags`.

    Example:
        >>> sorted(name_losses({"id": "q1", "criteria": {"0": {"tags": ["x"]}, "3": {"tags": ["y"]}}}))
        ['criteria.tags', 'id']
    """
    for name, value in left.items():
        if name == "metadata":
            yield from (f"metadata.{key}" for key, inner in value.items() if inner is not None)
        elif name == "criteria" and isinstance(value, Mapping):
            keys = dict.fromkeys(key for change in value.values() for key in change)
            yield from (f"criteria.{key}" for key in keys)
        else:
            yield name


def _dump(left: Mapping[str, Any]) -> str:
    """Return the text under `KEY`; empty if nothing is carried."""
    try:
        return json.dumps(left, ensure_ascii=False, allow_nan=False, default=_convert_cell) if left else ""
    except (TypeError, ValueError) as error:
        raise InputError(f"the row contains a value that JSON cannot represent: {error}") from None


def _load(text: Any) -> dict[str, Any]:
    """Return the value under `KEY`."""
    if text is None or text == "":
        return {}
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise InputError(f"{KEY} is not valid JSON: {describe_parse_error(error)}") from None
    return dict(_check_mapping(value, ""))


def _find_changes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    keys = dict.fromkeys((*ours, *theirs))
    return {key: ours.get(key) for key in keys if ours.get(key) != theirs.get(key)}


def _restore_criteria(record: Record, left: Any) -> tuple[Criterion, ...]:
    if isinstance(left, list):
        return tuple(read_criteria(left))
    entries = [dump_criterion(criterion) for criterion in record.criteria]
    for index, change in _check_mapping(left, "criteria").items():
        if not index.isdecimal() or int(index) >= len(entries):
            raise InputError(f"{KEY}.criteria refers to criterion {index!r}; the row has {len(entries)}")
        merged = {**entries[int(index)], **_check_mapping(change, f"criteria.{index}")}
        entries[int(index)] = {key: value for key, value in merged.items() if value is not None}
    return tuple(read_criteria(entries))


def _check_mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{KEY}{'.' if name else ''}{name} is {value!r:.60}; expected an object")
    return value


def _convert_cell(value: Any) -> Any:
    """Return a time or decimal of a table as a JSON value."""
    converted = to_json_value(value)
    if converted is value:
        raise TypeError(f"a value is of type {type(value).__name__}")
    return converted
