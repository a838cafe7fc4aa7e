"""The step files: views of a run's rows, in input order, that never lose a row they held before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

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


def write_steps(directory: Path, last_step: int, queries: Iterator[Query], spool: Spool) -> None:
    """Write the step files 0 to `last_step` (5 in the full method) anew.

    Rows of this run come in input order. Rows that the files held before and that this run did not bring to
    the same step are kept: in their place where they are in the input with the same question, else at the end.
    """
    with ExitStack() as stack:
        paths = [directory / name for name in FULL_STEP_FILES[: last_step + 1]]
        kept = [_Kept(path) for path in paths]
        outs = [stack.enter_context(atomic_writer(path)) for path in paths]
        for query in queries:
            pieces = spool.pieces(query.index) or []
            for step, out in enumerate(outs):
                if step < len(pieces):
                    kept[step].drop(query.record_id)
                    out.write("{" + ", ".join(p for p in pieces[: step + 1] if p) + "}\n")
                elif line := kept[step].take(query):
                    out.write(line)
        for held, out in zip(kept, outs, strict=True):
            held.write_rest(out)


class _Kept:
    """The rows an existing step file holds, found by id; memory is one offset a row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[str, int] = {}
        if path.exists():
            with path.open("rb") as file:
                offset = 0
                for line in file:
                    row = _row_in(line)
                    if row is not None:
                        self._offsets[record_id_of(row)] = offset
                    offset += len(line)

    def drop(self, record_id: str) -> None:
        self._offsets.pop(record_id, None)

    def take(self, query: Query) -> str | None:
        offset = self._offsets.pop(query.record_id, None)
        if offset is None:
            return None
        line = self._line(offset)
        row = json.loads(line)
        same = _plain(row.get("question", "")) == _plain(query.fields["question"])
        return line if same else None

    def write_rest(self, out: IO[str]) -> None:
        for offset in self._offsets.values():
            out.write(self._line(offset))

    def _line(self, offset: int) -> str:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.readline().decode().rstrip("\n") + "\n"


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
