"""What a format is: how its rows are known, read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from autorubric.errors import InputError
from autorubric.formats import extras
from autorubric.formats.record import Record, Row

if TYPE_CHECKING:
    import pyarrow as pa


class Written(NamedTuple):
    """A row, and what of its record it does not hold by the format's own keys.

    Attributes:
        row: JSON values.
        lost: names of what the row does not hold at all.
        carried: names of what it holds under `autorubric` only, where other tools do not look.
    """

    row: Row
    lost: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """One format: pure functions between its rows and records.

    Attributes:
        name: as `--from` and `--to` take it.
        title: what it is, for lists.
        containers: the extensions of its files, the usual one first.
        matches: whether a row is one of its rows, by its keys.
        read_row: the record of a row, by the format's own keys.
        write_row: the row of a record, likewise; what has no place is left out.
        schema: the Arrow schema, where it is kept in Parquet.
        carrier: keys of the mapping in a row that may carry what has no place; () is the row itself, None says
            that rows hold nothing but their own keys.
        columns: the row as its Parquet columns hold it, where they hold less than JSON does.
        parts: several records for one, where a row holds a single criterion.
        document: the one value that a JSON, YAML or TOML file of rows holds; the list of rows, where None.
        joined: the record of two that came from one, or None where they did not.
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
        """The record of a row, with all that it carries.

        Raises:
            InputError: the row is not as the format has it; every offending place is named.

        Example:
            >>> from autorubric.formats import format_named
            >>> row = {"question": "Why?", "id": "q1", "rubrics": [{"criterion": "Says why.", "points": 5}]}
            >>> format_named("rubrichub").read(row).criteria
            (Criterion(weight=5.0, requirement='Says why.'),)
        """
        if self.carrier is None:
            return self.read_row(row)
        plain, carried = _without_extras(row, self.carrier)
        record = self.read_row(plain)
        left = extras.load(carried)
        return extras.put_back(record, left) if left else record

    def write(self, record: Record, *, columnar: bool = False, carry: bool = True) -> Written:
        """The row of a record and what it loses, found by reading the row back.

        Args:
            record: what to write.
            columnar: whether the row goes into Parquet.
            carry: whether what has no place goes under the key `autorubric`, where rows may have one.

        Raises:
            InputError: the record cannot be written in this format at all.

        Example:
            >>> from autorubric.core.criterion import Criterion
            >>> from autorubric.formats import format_named
            >>> record = Record((Criterion(requirement="Says why.", name="Cause"),), "Why?", id="q1")
            >>> format_named("rubrichub").write(record).lost
            ('criteria.name',)
        """
        row = self.write_row(record)
        if columnar and self.columns is not None:
            row = self.columns(row)
        left = extras.left_out(record, self.read_row(row))
        names = tuple(extras.names_of(left))
        if self.carrier is None or not carry:
            return Written(row, lost=names)
        return Written(_with_extras(row, self.carrier, extras.dump(left)), carried=names)

    def arrow_schema(self, carry: bool = True) -> pa.Schema:
        """The schema of its Parquet files, the same whatever the rows hold.

        Raises:
            InputError: it is not kept in Parquet.
        """
        if self.schema is None:
            raise InputError(f"{self.name} is not kept in Parquet; take {' or '.join(self.containers)}")
        schema = self.schema()
        if self.carrier == () and carry:
            import pyarrow as pa

            return schema.append(pa.field(extras.KEY, pa.string()))
        return schema


def only_row(rows: list[Row]) -> Row:
    """The row of a file that holds one rubric.

    Raises:
        InputError: there are more or none.

    Example:
        >>> only_row([{"rubric": []}])
        {'rubric': []}
    """
    if len(rows) != 1:
        raise InputError(f"such a file holds one rubric, and there are {len(rows)}; write a .jsonl with one a line")
    return rows[0]


def _without_extras(row: Row, path: tuple[str, ...]) -> tuple[Row, Any]:
    """The row without the key that carries, and what stood under it."""
    if not path:
        return {key: value for key, value in row.items() if key != extras.KEY}, row.get(extras.KEY)
    inner = row.get(path[0])
    if not isinstance(inner, Mapping):
        return row, None
    plain, carried = _without_extras(dict(inner), path[1:])
    return {**row, path[0]: plain}, carried


def _with_extras(row: Row, path: tuple[str, ...], text: str) -> Row:
    if not path:
        return {**row, extras.KEY: text}
    return {**row, path[0]: _with_extras(dict(row.get(path[0]) or {}), path[1:], text)}
