"""The step files: views of a run's rows in input order, which never lose a row that they contained before."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from autorubric.errors import InputError
from autorubric.files.atomic import atomic_writer
from autorubric.files.strict_json import decode_json
from autorubric.llm.failure_groups import NOT_MADE
from autorubric.llm.records.database import ImportRow
from autorubric.llm.records.ledger import Ledger
from autorubric.rows.record import as_turns, read_question
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.stage_runner import Row, hash_inputs
from autorubric.synthesis.stages import HIDDEN_STEP_FILES, STEP_FILES, Plan, Stage


@dataclass(slots=True)
class RowStore:
    """The finished rows of a run in a scratch file; uses memory for two numbers per row.

    A row is stored as one line of JSON members per step: its first k + 1 lines in braces are the row of step file k,
    so no text is encoded twice. A complete row is followed by its export, computed while the run waits for replies.

    Attributes:
        file: an empty file to write and read.
        plan: the plan of the run.
        export: returns the JSON values of the final files for a row of the last step file; None for no final files.
        failed: the input indices of rows with a failed stage.
        owned: step files that contain only rows of this store.
    """

    file: IO[bytes]
    plan: Plan
    export: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    failed: set[int] = field(default_factory=set)
    owned: set[Path] = field(default_factory=set)
    _slots: array[int] = field(default_factory=partial(array, "q"))  # by input index; -1 for a row that is not here
    _starts: array[int] = field(default_factory=partial(array, "Q"))
    _end: int = 0

    def add(self, row: Row) -> None:
        """Keep a row."""
        stages, pieces = self.plan.stages, list[bytes]()
        stage_keys = {key for stage in stages for key in stage.keys}
        members = {key: value for key, value in row.query.fields.items() if key not in stage_keys}
        for step in range(self.plan.last_step + 1):
            ending = [stage for stage in stages if stage.step == step]
            if any(stage.name in row.unreached for stage in ending):
                break
            members |= {key: row.fields[key] for stage in ending for key in stage.keys if key in row.fields}
            try:
                pieces.append(to_json(members, inf_nan_mode="null")[1:-1])
            except PydanticSerializationError:  # lone surrogates
                pieces.append(json.dumps(members, ensure_ascii=False)[1:-1].encode(errors="replace"))
            members = {}
        is_whole = len(pieces) > self.plan.last_step
        if self.export is not None and is_whole:
            held = decode_json(_join_pieces(pieces), share_texts=False)
            pieces.append(json.dumps(self.export(held), ensure_ascii=False).encode())
        data = b"\n".join(pieces)
        if any(f.kind not in NOT_MADE for f in row.failures.values()):
            self.failed.add(row.query.index)
        index = row.query.index
        self._slots.extend([-1] * (index + 1 - len(self._slots)))
        self._slots[index] = len(self._starts)
        self._starts.append(self._end)
        self.file.write(data + b"\n\n")
        self._end += len(data) + 2

    def read_pieces(self, index: int) -> list[bytes]:
        """Read the JSON members of an input row, one piece per finished step, then its export; empty if unknown."""
        slot = self._slots[index] if index < len(self._slots) else -1
        if slot < 0:
            return []
        start = self._starts[slot]
        end = self._starts[slot + 1] if slot + 1 < len(self._starts) else self._end
        self.file.seek(start)
        data = self.file.read(end - start - 2)
        self.file.seek(self._end)
        return data.split(b"\n") if data else []

    def read_exported(self) -> Iterator[Mapping[str, Any]]:
        """Yield the exports of all complete rows, in input order."""
        for index in range(len(self._slots)):
            pieces = self.read_pieces(index)
            if len(pieces) > self.plan.last_step + 1:
                yield decode_json(pieces[-1], share_texts=False)

    def read(self, index: int) -> dict[str, Any]:
        """Return the fields of the row with input index `index`."""
        return _read_row(_join_pieces(self.read_pieces(index)[: self.plan.last_step + 1])) or {}


def _join_pieces(pieces: Iterable[bytes]) -> bytes:
    return b"{" + b",".join(filter(None, pieces)) + b"}\n"


def find_record_id(row: Mapping[str, Any]) -> str:
    """Return the resume key of a step row: `__record_id__`, else `idx:` and its `__source_index__`."""
    record_id = str(row.get("__record_id__") or "").strip()
    return record_id or f"idx:{row.get('__source_index__')}"


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a step file; invalid lines are skipped, as in the public pipeline."""
    with path.open("rb") as file:
        yield from (row for line in file if (row := _read_row(line)) is not None)


def find_same(path: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a step file for the same query; empty if there is none.

    Args:
        path: the step file.
        row: of a final file.
    """
    wanted, question = str(row.get("id") or ""), format_question(row.get("question"))
    start = wanted or question[:200]
    # Texts are escaped in the file; messages of a conversation are not.
    needles = [text.encode("utf-8", "surrogatepass") for text in (start, json.dumps(start, ensure_ascii=False)[1:-1])]
    with path.open("rb") as file:
        for line in file:
            found = _read_row(line) if any(needle in line for needle in needles) else None
            is_same = found is not None and str(found.get("id") or "") == wanted
            if found and is_same and (wanted or format_question(found.get("question")) == format_asked(question)):
                return found
    return {}


StepFiles: TypeAlias = Literal["full", "latest", "none"]


def list_step_paths(directory: Path, last_step: int, kept: StepFiles = "full") -> dict[int, Path]:
    """Return the step files that a run writes, by step: all of them, or only the last, which has every field.

    Example:
        >>> [path.name for path in list_step_paths(Path("out"), 4, "latest").values()]
        ['step4_augmented.jsonl']
    """
    if kept == "none":
        return {last_step: directory / HIDDEN_STEP_FILES[last_step]}
    first = last_step if kept == "latest" else 0
    return {step: directory / STEP_FILES[step] for step in range(first, last_step + 1)}


def write_steps(paths: Mapping[int, Path], queries: Iterable[Query], store: RowStore) -> dict[str, int]:
    """Bring step files up to date; a file that would not change is not written.

    Rows of this run are in input order. Earlier rows that did not reach the same step in this run are kept: in place
    if the input has them with the same question, else at the end. A row whose key changed because its line moved or
    got an id is not kept twice.

    Returns:
        The number of rows replaced in one file: `changed` by another question for the key, or `moved` to another key.
    """
    with ExitStack() as stack:
        files = [
            (
                step,
                _ExistingRows(path) if path.exists() and path not in store.owned else None,
                stack.enter_context(atomic_writer(path, "wb", keep_same=True)).write,
            )
            for step, path in paths.items()
        ]
        for query in queries:
            pieces = store.read_pieces(query.index)
            for step, kept, write in files:
                if step < len(pieces):
                    if kept:
                        kept.drop(query)
                    write(_join_pieces(pieces[: step + 1]))
                elif kept and (line := kept.pop_line(query)):
                    write(line)
        for _, kept, write in files:
            if kept:
                kept.write_rest(write)
    store.owned = {paths[step] for step, kept, _ in files if not (kept and kept.kept)}
    earlier = [kept for _, kept, _ in files if kept]
    return {name: max((getattr(kept, name) for kept in earlier), default=0) for name in ("changed", "moved")}


def append_step_rows(directory: Path, others: Iterable[Path]) -> None:
    """Append the rows in other directories' step files, so that `write_steps` keeps rows that it does not write."""
    folders = list(others)
    for name in (*STEP_FILES, *HIDDEN_STEP_FILES):
        paths = [path for folder in (directory, *folders) if (path := folder / name).exists()]
        if paths:
            with atomic_writer(directory / name) as out:
                for path in paths:
                    with path.open(encoding="utf-8") as lines:
                        out.writelines(line.rstrip("\n") + "\n" for line in lines)


class _ExistingRows:
    """The rows of an existing step file by id; uses memory for one offset and one hash per row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = 0
        self._rows: dict[str, tuple[int, int]] = {}
        # By question, the rows that this run wrote under a key that had another question.
        self._written: dict[int, list[tuple[bool, str]]] = {}
        self.changed = self.moved = 0
        with path.open("rb") as file:
            offset = 0
            for line in file:
                row = _read_row(line)
                if row is not None:
                    self._rows[find_record_id(row)] = (offset, _hash_question(row))
                offset += len(line)

    def drop(self, query: Query) -> None:
        """Forget the row of a query that this run wrote."""
        if not self._rows:
            return
        now = _hash_question(query.fields)
        _, mark = self._rows.pop(query.record_id, (0, None))
        self.changed += mark is not None and mark != now
        if mark != now:
            self._written.setdefault(now, []).append((query.record_id.startswith("idx:"), _read_id(query.fields)))

    def pop_line(self, query: Query) -> bytes | None:
        offset, mark = self._rows.pop(query.record_id, (0, None))
        if mark is None or mark != _hash_question(query.fields):
            return None
        self.kept += 1
        return self._read_line(offset)

    def write_rest(self, write: Callable[[bytes], object]) -> None:
        for key, (offset, mark) in self._rows.items():
            line = self._read_line(offset)
            if mark in self._written and self._has_moved(key, json.loads(line), self._written[mark]):
                self.moved += 1
            else:
                self.kept += 1
                write(line)

    @staticmethod
    def _has_moved(key: str, row: Mapping[str, Any], written: list[tuple[bool, str]]) -> bool:
        """Return whether a row written with this question is this row under another key; each counts once.

        Line numbers may change, but two ids given by the user are two records.
        """
        for number, (by_line, row_id) in enumerate(written):
            if (by_line or key.startswith("idx:")) and (_read_id(row) == row_id or not (_read_id(row) and row_id)):
                del written[number]
                return True
        return False

    def _read_line(self, offset: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.readline().rstrip(b"\n") + b"\n"


def _read_id(fields: Mapping[str, Any]) -> str:
    found = fields.get("id")
    return "" if found is None else str(found).strip()


def _hash_question(fields: Mapping[str, Any]) -> int:
    """Return the hash of a row's question."""
    return hash(format_question(fields.get("question")))


def format_question(question: Any) -> str:
    """Return a query as in the final files: its text, or a conversation's messages as JSON."""
    return json.dumps(question, ensure_ascii=False) if isinstance(question, list) else str(question or "").strip()


def format_asked(question: Any) -> str:
    """Return a query of a final file or a step file, with tool calls as text."""
    asked = question
    with suppress(InputError):
        asked = read_question(question, "question") if isinstance(question, str) else question
    return format_question(as_turns(asked) if isinstance(asked, list) else question)


def _read_row(line: bytes) -> dict[str, Any] | None:
    try:
        row = decode_json(line, share_texts=False)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def import_steps(directory: Path, plan: Plan, ledger: Ledger) -> Counter[str]:
    """Import every finished field of another pipeline's step files; return the counts by field.

    By the seed's rule, a field is finished if it is present, not blank, and has no error; for evolved criteria, an
    empty list is finished too. Each value is kept with a digest of its input fields, and is used only while those are
    unchanged.
    """

    def read(stage: Stage, path: Path) -> Iterator[ImportRow]:
        name, model, error = stage.keys
        for row in read_rows(path):
            if name in row and stage.finished(row[name]) and not row.get(error):
                value = {"value": row[name], "model": str(row.get(model) or "unknown")}
                yield ImportRow(find_record_id(row), name, hash_inputs(stage, row), value)

    counts: Counter[str] = Counter()
    for stage in plan.stages:
        path = directory / STEP_FILES[stage.step]
        finished = read(stage, path) if path.exists() else iter(())
        while rows := list(islice(finished, 500)):
            ledger.record_imports(rows)
            counts[stage.name] += len(rows)
    return counts
