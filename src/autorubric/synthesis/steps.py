"""The step files: views of a run's rows, in input order, that never lose a row they held before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

from autorubric.files import atomic_writer
from autorubric.synthesis.queries import Query
from autorubric.synthesis.spool import Spool

STEP_FILES = (
    "step0_reference.jsonl",
    "step1_responses.jsonl",
    "step2_rubrics.jsonl",
    "step3_merged.jsonl",
    "step4_augmented.jsonl",
)
"""The step files of the seed."""

FULL_STEP_FILES = (*STEP_FILES, "step5_gated.jsonl")
"""Those of the full method."""


def record_id_of(row: Mapping[str, Any]) -> str:
    """The resume key of a step row: `__record_id__`, else `idx:` and its `__source_index__`.

    Example:
        >>> record_id_of({"__source_index__": 4, "question": "Why?"})
        'idx:4'
    """
    held = str(row.get("__record_id__") or "").strip()
    return held or f"idx:{row.get('__source_index__')}"


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a step file that can be read; lines that cannot are passed over, as the public pipeline does."""
    for row, _ in _rows_with_lines(path):
        yield row


class Replaced(NamedTuple):
    """Rows that stood in the step files and had to give way, in the file that held most of them.

    Attributes:
        changed: rows whose key came with another question.
        moved: rows that came under another key, as their line moved or got an id.
    """

    changed: int
    moved: int


def write_steps(directory: Path, last_step: int, queries: Iterator[Query], spool: Spool) -> Replaced:
    """Write the step files 0 to `last_step` (5 in the full method) anew.

    Rows of this run come in input order. Rows that the files held before and that this run did not bring to
    the same step are kept: in their place where they are in the input with the same question, else at the end.
    A row that came under another key, as its line moved or got an id, is not kept beside itself.
    """
    with ExitStack() as stack:
        paths = [directory / name for name in FULL_STEP_FILES[: last_step + 1]]
        kept = [_Kept(path) for path in paths]
        outs = [stack.enter_context(atomic_writer(path)) for path in paths]
        for query in queries:
            pieces = spool.pieces(query.index) or []
            for step, out in enumerate(outs):
                if step < len(pieces):
                    kept[step].drop(query)
                    out.write("{" + ",".join(p for p in pieces[: step + 1] if p) + "}\n")
                elif line := kept[step].take(query):
                    out.write(line)
        for held, out in zip(kept, outs, strict=True):
            held.write_rest(out)
        return Replaced(max(held.changed for held in kept), max(held.moved for held in kept))


class _Kept:
    """The rows an existing step file holds, found by id; memory is one offset and one hash a row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, tuple[int, int]] = {}
        # By question, the rows that this run wrote under a key that held no such row.
        self._arrivals: dict[int, list[tuple[bool, str]]] = {}
        self.changed = self.moved = 0
        if path.exists():
            with path.open("rb") as file:
                offset = 0
                for line in file:
                    row = _row_in(line)
                    if row is not None:
                        self._rows[record_id_of(row)] = (offset, _mark(row))
                    offset += len(line)

    def drop(self, query: Query) -> None:
        """Forget the row of a query that this run wrote."""
        if not self._rows:
            return
        now = _mark(query.fields)
        _, mark = self._rows.pop(query.record_id, (0, None))
        self.changed += mark is not None and mark != now
        if mark != now:
            self._arrivals.setdefault(now, []).append((_by_place(query.record_id), _id(query.fields)))

    def take(self, query: Query) -> str | None:
        offset, mark = self._rows.pop(query.record_id, (0, None))
        return self._line(offset) if mark == _mark(query.fields) else None

    def write_rest(self, out: IO[str]) -> None:
        for key, (offset, mark) in self._rows.items():
            line = self._line(offset)
            if mark in self._arrivals and self._has_moved(key, json.loads(line), self._arrivals[mark]):
                self.moved += 1
            else:
                out.write(line)

    @staticmethod
    def _has_moved(key: str, row: Mapping[str, Any], arrivals: list[tuple[bool, str]]) -> bool:
        """Whether one of the rows that arrived with this question is this one; each is so only once.

        A line's number is no lasting key. Two keys of the user's own are two records.
        """
        for number, (by_place, row_id) in enumerate(arrivals):
            if (by_place or _by_place(key)) and (_id(row) == row_id or not (_id(row) and row_id)):
                del arrivals[number]
                return True
        return False

    def _line(self, offset: int) -> str:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.readline().decode().rstrip("\n") + "\n"


def _by_place(key: str) -> bool:
    return key.startswith("idx:")


def _id(fields: Mapping[str, Any]) -> str:
    found = fields.get("id")
    return "" if found is None else str(found).strip()


def _mark(fields: Mapping[str, Any]) -> int:
    """A number that rows with the same question share."""
    return hash(json.dumps(_plain(fields.get("question", "")), sort_keys=True))


def _plain(question: Any) -> Any:
    return question.strip() if isinstance(question, str) else question


def _rows_with_lines(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    with path.open("rb") as file:
        for line in file:
            row = _row_in(line)
            if row is not None:
                yield row, line


def _row_in(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
