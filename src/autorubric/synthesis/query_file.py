"""The input of a synthesis run: one query per row, all checked before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from autorubric.errors import InputError
from autorubric.files import find_nearest_key
from autorubric.rows import Record, RowReader, join_names, name_input, read_rows
from autorubric.rows.columns import ROLES, fold_column
from autorubric.rows.contexts import is_for_models
from autorubric.rows.messages import find_fault, fold_role, keep_calls, pick_keys, read_message
from autorubric.rows.paths import find_base_column, find_text_path, find_value
from autorubric.rows.record import find_media
from autorubric.runs.shard import Shard
from autorubric.synthesis.stages import list_letters

_LIKELY = {"question": "query", "id": "id", "responses": "submissions", "domain": "domain"}
_OPTION = "--question-column NAME (in Python: question_column)"
_SPEAKERS = ("user", "assistant", "system", "developer", "tool")
FROM_INPUT = "input"
"""The recorded author of an input value without a model."""
_WHAT = "Input file"
_ROWS_SEEN = 100
_LACKING = "; the row has "  # in the message on a row that lacks a column


@dataclass(frozen=True, slots=True)
class Query:
    """One input row.

    Attributes:
        index: its line in the file, from 0.
        record_id: the key by which a resumed run finds its work.
        fields: the input columns, and `question`, `id`, `__source_index__`, `__record_id__`.
        is_answered: whether the conversation ends with an answer, which is left out of `question`.
    """

    index: int
    record_id: str
    fields: Mapping[str, Any]
    is_answered: bool = False


@dataclass(frozen=True, slots=True)
class InputReport:
    """The contents of a file of queries.

    Attributes:
        rows: the number of usable rows, in the shard if there is one.
        skipped: the reasons why other rows cannot be used.
        responses: the number of given responses in each row.
        answered: rows whose conversation ends with an answer, which is not part of the query.
        whole: a digest of all usable rows, including those of other shards.
        all_rows: the number of all usable rows.
        records: the number of all rows read, including unusable ones.
    """

    rows: int
    skipped: tuple[str, ...]
    responses: int = 0
    answered: int = 0
    whole: bytes = b""
    all_rows: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A file of queries (of any kind that `autorubric.rows` reads) and the columns to read from it.

    Attributes:
        path: the file.
        question_column: the column of the query, or a path such as `turns[0]` or `meta.query`.
        id_column: the column that identifies a row; without one, or if it is blank, the line number is used.
        limit: maximum number of rows to read; None for all.
        skip_bad_rows: leave out rows that cannot be used, instead of refusing the file.
        responses_column: the column of given responses: a list of texts, or a mapping from model to text.
        domain_column: the column of a row's domain.
        shown_id: the column that is written as the `id` of rows without one; rows are not resumed by it.
        reader: finds the query by usual column names, if the user named no column.
        shard: leave out the rows of other shards; equal queries are in the same shard.
        rows: queries in memory instead of a file; `path` is then their name in messages.
    """

    path: Path
    question_column: str = "question"
    id_column: str | None = None
    limit: int | None = None
    skip_bad_rows: bool = False
    responses_column: str | None = None
    domain_column: str | None = None
    shown_id: str | None = None
    reader: RowReader | None = None
    shard: Shard | None = None
    rows: Sequence[Record] | None = None

    def _read_records(self, problems: list[str]) -> Iterable[Record]:
        records = read_rows(self.path, problems, what=_WHAT) if self.rows is None else self.rows
        return records if self.reader is None else map(self.reader.read, records)

    def with_guesses(self, notes: list[str], *, named: bool = False) -> QueryFile:
        """Return this file with the query's column guessed from usual names, unless the user named it.

        Each guess is added to `notes`.

        Raises:
            InputError: several columns may contain the query.
        """
        columns: dict[str, None] = {}
        is_guessed = self.question_column == "question" and not named
        given = {} if is_guessed else {"query": self.question_column}
        reader, shown = RowReader(str(self.path), ("query",), _OPTION, given, notes), None
        for record in islice(self._read_records([]), _ROWS_SEEN):
            columns.update(dict.fromkeys(record.fields))
            reader.read(record)
        if unseen := [name for name in columns if is_for_models(name, reference=False)]:
            note = f"models do not see {join_names(unseen)}; add what they need to the query"
            notes.append(f"{name_input(self.path)}: {note}")
        ids = [name for name in columns if fold_column(name) in ROLES["id"].names]
        if self.id_column is None and "id" not in columns and len(ids) == 1:
            shown = ids[0]
            notes.append(
                f"{name_input(self.path)}: column {shown!r} is written as the id; "
                f"--id-column {shown} resumes rows by it"
            )
        return replace(self, shown_id=shown, reader=reader if is_guessed else None)

    def __iter__(self) -> Iterator[Query]:
        """Yield the usable rows in file order, read one at a time."""
        for record in islice(self._read_records([]), self.limit):
            query = self._read_query(record)
            if isinstance(query, Query) and (self.shard is None or self.shard.has(query.fields["question"])):
                yield query

    def check(self) -> InputReport:
        """Read the whole file once and report what is in it.

        Raises:
            InputError: rows cannot be used (unless `skip_bad_rows`), ids repeat, a column is missing, or no row is
                usable; lists all problems.
        """
        problems: list[str] = []
        repeated: list[str] = []
        first_line: dict[str, int] = {}
        columns: dict[str, Any] = {}
        usable = in_shard = responses = answered = records = 0
        whole = blake2b()
        for record in islice(self._read_records(problems), self.limit):
            records += 1
            where, line, row = record.where, record.number, record.fields
            columns |= islice(row.items(), 50 if len(columns) < 200 else 0)
            query = self._read_query(record)
            if isinstance(query, str):
                problems.append(f"{where}: {query}")
                continue
            usable += 1
            in_shard += self.shard is None or self.shard.has(query.fields["question"])
            whole.update(json.dumps(query.fields, default=str).encode() + b"\n")
            answered += query.is_answered
            given = sum(f"response_{x}" in query.fields for x in list_letters(26)) if self.responses_column else 0
            if given != responses and responses:
                problems.append(f"{where}: {given} responses; the rows before it have {responses}")
            responses = responses or given
            own = query.record_id if self.id_column or "__record_id__" in row else str(query.fields["id"]).strip()
            if own and first_line.setdefault(own, line) != line:
                repeated.append(f"{where}: id {own!r} is already used on line {first_line[own]}; ids must be unique")
        self._refuse(usable, problems, repeated, columns)
        return InputReport(in_shard, tuple(problems), responses, answered, whole.digest(), usable, records)

    def _refuse(self, usable: int, problems: list[str], repeated: list[str], columns: Mapping[str, Any]) -> None:
        if not columns and not problems:
            raise InputError(f"{name_input(self.path)}: the file has no rows; expected one per query")
        is_found = usable or (problems and not any(_LACKING in problem for problem in problems))
        asked = {"question": "" if is_found else self.question_column, "id": self.id_column}
        asked |= {"responses": self.responses_column, "domain": self.domain_column}
        missing = [
            _describe_missing_column(self.path, purpose, column, columns)
            for purpose, column in asked.items()
            if column and columns and find_base_column(column) not in columns
        ]
        if missing:
            # Every row lacks the column, so only other problems are reported row by row.
            raise InputError([*missing, *(p for p in problems if _LACKING not in p)])
        if problems and not self.skip_bad_rows:
            which = "all but the repeated ids" if repeated else "them"
            advice = f"fix these rows, or leave {which} out with --skip-bad-rows (in Python: skip_bad_rows=True)"
            raise InputError([*problems, *repeated], advice)
        if repeated:
            raise InputError(repeated)
        if usable == 0:
            raise InputError([f"{name_input(self.path)}: no row can be used", *problems])

    def _read_query(self, record: Record) -> Query | str:
        """Return the query of a row, or why it cannot be used."""
        index, row = record.number - 1, record.fields
        column = record.columns.get("query", self.question_column)
        question, turns, problem = _read_asked(row, column)
        if problem:
            return problem
        own_id = find_value(row, self.id_column) if self.id_column else None
        held = row.get("__record_id__") or ""
        domain = find_value(row, self.domain_column) if self.domain_column else None
        keys = {self.id_column or "": own_id, "__record_id__": held, self.domain_column or "": domain}
        for name, text in (keys if turns else {column: question, **keys}).items():
            if isinstance(text, bool | list | dict):
                return _describe_wrong_type(name, text, row if name == column else {})
        responses = _read_responses(row, self.responses_column) if self.responses_column else {}
        if isinstance(responses, str):
            return responses
        own_id = None if own_id is None or not str(own_id).strip() else own_id
        record_id = str(held).strip() or (str(own_id).strip() if own_id is not None else f"idx:{index}")
        fields = {**row, "question": turns or str(question), **responses}
        shown = own_id if own_id is not None else row.get(self.shown_id or "")
        fields.setdefault("id", "" if shown is None else shown)
        if self.domain_column:
            fields["domain"] = "" if domain is None else str(domain).strip()
        fields |= {"__source_index__": index, "__record_id__": record_id}
        if (column == "question" or column not in row) and find_messages(fields, question):
            fields.setdefault("messages", question)
        return Query(index, record_id, fields, isinstance(turns, list) and len(turns) < len(question))


def read_turns(value: Any) -> list[dict[str, str]] | str | None:
    """Return a conversation's turns up to the user's last one, or the problem with them; None for other values."""
    if not isinstance(value, list) or not all(isinstance(turn, Mapping) for turn in value):
        return None
    if not value:
        return "the list of messages is empty"
    turns = []
    for number, turn in enumerate(map(read_message, value), 1):
        role, content = fold_role(turn.get("role")), turn.get("content")
        if role not in _SPEAKERS:
            return f"message {number} has the role {role!r}; expected one of {', '.join(_SPEAKERS)}"
        if fault := find_fault(turn):
            return f"message {number}: {fault}"
        turns.append({"role": role, "content": content})
    while turns and turns[-1]["role"] == "assistant":
        turns.pop()
    if not turns or turns[-1]["role"] not in ("user", "tool"):
        return "the conversation does not end with a message of the user or a tool"
    return turns


def _read_asked(row: Mapping[str, Any], column: str) -> tuple[Any, list[dict[str, str]] | None, str]:
    """Return the query of a row, its turns if it is a conversation, and why it cannot be used."""
    question = find_value(row, column)
    if question is None:
        where = f"{column!r} is null" if column in row else f"nothing at {column!r}{_LACKING}{join_names(row)}"
        return question, None, where
    turns = read_turns(question)
    if isinstance(turns, str):
        return question, None, f"{column!r}: {turns}"
    media = find_media(row, question)
    blank = "" if str(question).strip() else f"{column!r} is blank"
    return question, turns, f"{column!r} {media}" if media else blank


def find_messages(row: Mapping[str, Any], *held: Any) -> list[dict[str, Any]]:
    """Return the conversation of a row with its tool calls as they are in the input; empty if there are none.

    Args:
        row: the row, which has the turns of the conversation under `question`.
        held: what may be the conversation of the input; the values of the row if there is none.
    """
    asked: Any = row.get("question")
    for value in (held or row.values()) if isinstance(asked, list) else ():
        if value is not asked and read_turns(value) == asked:
            messages = [pick_keys(keep_calls(turn)) for turn in value[: len(asked)]]
            if any("tool_calls" in message for message in messages):
                return [{**message, "role": turn["role"]} for message, turn in zip(messages, asked, strict=True)]
    return []


def _read_responses(row: Mapping[str, Any], column: str) -> dict[str, Any] | str:
    """Return the given responses of a row as the fields of response slots, or the problem with them."""
    given = find_value(row, column)
    if given is None:
        return f"nothing at {column!r}{_LACKING}{join_names(row)}"
    named = given.items() if isinstance(given, Mapping) else enumerate(given) if isinstance(given, list) else None
    if named is None:
        return f"{column!r} is of type {type(given).__name__}; expected a list of responses, or a mapping from models"
    texts = [*named]
    if len(texts) < 2 or len(texts) > 26:
        return f"{column!r} has {len(texts)} responses; expected 2 to 26"
    fields: dict[str, Any] = {}
    for letter, (name, text) in zip(list_letters(len(texts)), texts, strict=True):
        if not isinstance(text, str) or not text.strip():
            return f"'{column}[{name!r}]' is {text!r:.60}; expected a text that is not blank"
        model = name if isinstance(name, str) else FROM_INPUT
        fields |= {f"response_{letter}": text, f"response_{letter}_model": model}
    return fields


def _describe_wrong_type(column: str, value: Any, row: Mapping[str, Any]) -> str:
    """Describe a value that is not a string; for a query, with the path of a string in it."""
    problem = f"{column!r} is of type {type(value).__name__}; expected a string"
    inner = find_text_path(row, column, is_query=True)
    return f"{problem}; choose one in it with {_OPTION.replace('NAME', inner)}" if inner else problem


def _describe_missing_column(path: Path, purpose: str, column: str, columns: Mapping[str, Any]) -> str:
    candidates = [name for name in columns if purpose == "id" or not name.endswith("id")]
    near = find_nearest_key(column, candidates) or next(
        (name for name in ROLES[_LIKELY[purpose]].names if name in columns), None
    )
    option = f"--{purpose}-column {near or 'NAME'} (in Python: {purpose}_column)"
    advice = f"did you mean {option}?" if near else f"choose the right one with {option}"
    return f"{name_input(path)}: no column {column!r}; the rows have {join_names(columns)}; {advice}"
