"""Queries with their rubrics, from a dataset, from rows, or as trainers pass them to reward functions."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from autorubric.core.rubric import Rubric
from autorubric.core.rubric_from import rubric_from
from autorubric.dataset import RubricDataset
from autorubric.dataset.item import split_last_turn
from autorubric.dataset.storage import load
from autorubric.errors import InputError, problems_at
from autorubric.files.strict_json import dump_json
from autorubric.rows import Record, RowReader, inspect_file, iter_objects, join_names, name_input
from autorubric.rows.columns import COLUMN_OPTION, ROLES
from autorubric.rows.dialogues import read_tools
from autorubric.rows.messages import fold_role, pick_keys, read_answer, read_message
from autorubric.rows.record import Prompt, as_text, as_turns, find_media, read_prompt, read_question, to_plain

Turn = dict[str, str]

_ROLES = ("query", "rubric", "id", "submission", "sample", "source")
_DATASET_KEYS = ("submission", "items")


@dataclass(frozen=True, slots=True)
class RubricQuery:
    """A query and the rubric for its answers.

    Attributes:
        id: unique among the queries of a run.
        turns: the conversation that the answer continues, with tool calls unchanged; a plain query is one user turn.
        rubric: the rubric for the answers.
        source: the domain or dataset it comes from; empty if unknown.
        answers: id and text of the answers in the same file.
        where: its place in the file, for messages.
        aliases: further ids of the same query.
        tools: the definitions of the tools, in the format of trainers.
    """

    id: str
    turns: tuple[Mapping[str, Any], ...]
    rubric: Rubric
    source: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    where: str = ""
    aliases: tuple[str, ...] = ()
    tools: Any = None

    @property
    def prompt(self) -> Prompt:
        """The query as a text, or the messages of a conversation with tool calls as text."""
        return read_prompt(list(self.turns), "the query")

    @property
    def key(self) -> tuple[str, Rubric, str]:
        """The key by which equal queries are merged."""
        return self.text, self.rubric, repr(self.tools)

    @property
    def text(self) -> str:
        """The query as one text; a conversation is shown with the role of each turn."""
        return as_text(self.prompt)


@dataclass(slots=True)
class QueryReading:
    """The content of a file of queries: usable queries, problems of the others, and notes on guessed columns."""

    queries: list[RubricQuery] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_queries(path: Path, columns: Mapping[str, str] | None = None) -> QueryReading:
    """Read queries from a `RubricDataset` file, or from a file of any kind whose rows have query and rubric."""
    found = inspect_file(path, what="Data")
    problems: list[str] = []
    if found.is_document:
        value = found.read_document()
        is_row = isinstance(value, dict) and value.keys().isdisjoint(("prompt", "rubric", "items"))
        first = value if is_row else value[0] if isinstance(value, list) and value else None
        if not isinstance(first, Mapping) or "submission" in first:
            return _read_dataset(RubricDataset(*load(path, columns)), path)
        return _read_rows(iter_objects(value, found.name, problems), path, problems, columns or {})
    rows = found.iter_rows(problems)
    head = next(rows, None)
    if head is not None and (head.fields.keys() == {"dataset"} or any(key in head.fields for key in _DATASET_KEYS)):
        return _read_dataset(RubricDataset(*load(path, columns)), path)
    return _read_rows(itertools.chain([head] if head else [], rows), path, problems, columns or {})


def read_turns(value: Any, where: str) -> tuple[Mapping[str, Any], ...]:
    """Return a query as turns; a conversation may be JSON text, as in `final.jsonl`."""
    with problems_at(f"{where}: "):
        prompt = read_question(to_plain(value), "the query")
    if not any(turn["content"].strip() for turn in as_turns(prompt)):
        raise InputError(f"{where}: the query is blank")
    turns = as_turns(prompt) if isinstance(prompt, str) else prompt
    if fold_role(turns[-1]["role"]) == "assistant":
        raise InputError(f"{where}: the conversation ends with the assistant; nothing is asked there")
    return tuple(map(pick_keys, turns))


def _find_conversation(metadata: Mapping[str, Any], prompt: str | None) -> Any:
    """Return the conversation that an item's prompt shows as one text; without one, the prompt."""
    for held in metadata.values():
        with suppress(InputError):
            if isinstance(held, list) and as_text(read_prompt(held, "")) == prompt:
                return held
    return prompt


def _read_rows(rows: Iterable[Record], path: Path, problems: list[str], columns: Mapping[str, str]) -> QueryReading:
    """Read the queries in rows; the iterator of the rows also adds to `problems`."""
    lines: dict[str, int] = {}
    queries: dict[str | tuple[str, Rubric, str], RubricQuery] = {}
    reader = RowReader(name_input(path), _ROLES, given=columns)
    for row in map(partial(split_last_turn, reader), reader.read_all(rows)):
        try:
            query = _read_row(row)
        except InputError as error:
            problems += error.problems
            continue
        first = lines.setdefault(query.id, row.number)
        same = queries.get(query.key)
        if query.answers and (first == row.number or (same is not None and query.id in (same.id, *same.aliases))):
            _merge_query(queries, query)
        elif first != row.number:
            problems.append(f"{query.where}: id {query.id!r} is already used on line {first}; ids must be unique")
        else:
            queries[query.id] = query
    if not queries and not problems:
        raise InputError(f"{name_input(path)}: it has no rows; expected one per query")
    return QueryReading(list(queries.values()), problems, reader.notes)


def _merge_query(queries: dict[Any, RubricQuery], query: RubricQuery) -> str:
    """Merge a query with an equal one in `queries`, adding its answers; return the id of the merged query."""
    known = queries.setdefault(query.key, query)
    if known is not query:
        queries[query.key] = replace(
            known, answers=(*known.answers, *query.answers), aliases=(*known.aliases, query.id)
        )
    return known.id


def _read_row(row: Record) -> RubricQuery:
    asked, value = row.read_value("query"), row.read_value("rubric")
    if asked is None:
        known = ", ".join(ROLES["query"].quiet)
        raise InputError(f"{row.where}: no query; expected one of {known}, the row has {join_names(row.fields)}")
    if value is None:
        known, way = ", ".join(ROLES["rubric"].quiet), COLUMN_OPTION.format(role="rubric")
        raise InputError(f"{row.where}: no rubric; expected criteria under one of {known}; name it with {way}")
    if media := find_media(row.fields, asked):
        raise InputError(f"{row.where}: {row.columns['query']!r} {media}")
    answer, source = read_answer(row.read_value("submission")), row.read_value("source")
    name = f"row-{row.number}" if row.id is None else row.id
    return RubricQuery(
        id=name,
        turns=read_turns(asked, row.where),
        rubric=rubric_from(value, row.where),
        source="" if source is None else str(source),
        answers=((str(row.read_value("sample") or name), answer),) if isinstance(answer, str) else (),
        where=row.where,
        tools=read_tools(row.fields),
    )


def _read_dataset(dataset: RubricDataset, path: Path) -> QueryReading:
    queries, _ = group_items(dataset, path)
    if not queries and dataset.prompt and dataset.rubric is not None:
        name = dataset.name or path.stem
        only = RubricQuery(
            name, read_turns(dataset.prompt, name_input(path)), dataset.rubric, name, where=name_input(path)
        )
        return QueryReading([only])
    return QueryReading(queries)


def group_items(dataset: RubricDataset, path: Path) -> tuple[list[RubricQuery], list[str]]:
    """Return the queries that the items of a dataset answer, and the id of each item's query."""
    groups: dict[tuple[str, Rubric], RubricQuery] = {}
    sources = RowReader(name_input(path), ("source",))
    own = []
    for index, item in enumerate(dataset):
        rubric, prompt = dataset.get_item_rubric(index), dataset.get_item_prompt(index)
        where = f"{name_input(path)}: item {index}"
        number = item.id or f"item-{index}"
        source = sources.read(Record(where, index, dict(item.metadata))).read_value("source")
        name = str(source) if source is not None else dataset.name or ""
        turns = read_turns(_find_conversation(item.metadata, prompt), where)
        answers, tools = ((number, item.submission),), read_tools(item.metadata)
        own.append(_merge_query(groups, RubricQuery(number, turns, rubric, name, answers, where, tools=tools)))
    return list(groups.values()), own


def extract_completion_text(completion: Any) -> str:
    """Return the policy's text: the completion itself, or the last assistant turn of a conversation."""
    if isinstance(completion, str):
        return completion
    turns = [turn for turn in completion if turn.get("role") == "assistant"]
    return extract_text(turns[-1].get("content")) if turns else ""


def extract_text(content: Any, kinds: Collection[str] = ("text",)) -> str:
    """Return the text of a message's content, which may be a list of parts; parts of other kinds are left out."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part.get("text") or "") for part in content if part.get("type", "text") in kinds)


def as_conversation(prompt: Any) -> str | tuple[Turn, ...]:
    """Return a prompt as the judge sees it: a text or turns; a single user turn becomes a text.

    Turns are mappings or pydantic models. Tool calls become text.

    Example:
        >>> as_conversation([{"role": "user", "content": [{"type": "text", "text": "Why?"}]}])
        'Why?'
        >>> call = {"function": {"name": "look_up", "arguments": '{"word": "sky"}'}}
        >>> as_conversation([{"role": "assistant", "content": None, "tool_calls": [call]}])[0]["content"]
        'calls look_up({"word": "sky"})'
    """
    if isinstance(prompt, str):
        return prompt
    turns = tuple(_read_turn(turn.model_dump() if hasattr(turn, "model_dump") else turn) for turn in prompt)
    return turns[0]["content"] if len(turns) == 1 and turns[0]["role"] == "user" else turns


def _read_turn(turn: Mapping[str, Any]) -> Turn:
    content = turn.get("content")
    is_text = not isinstance(content, list) or all(part.get("type", "text") == "text" for part in content)
    message = read_message({**turn, "content": extract_text(content)} if is_text else turn)
    text = message.get("content")
    return {"role": str(message["role"]), "content": text if isinstance(text, str) else extract_text(content)}


def find_rubric_column(columns: Mapping[str, Any], wanted: str | None, option: str = "rubric=NAME") -> str:
    """Find the column with rubrics; messages name `option`, which chooses between several."""
    reader = RowReader("the row", ("rubric",), option, {} if wanted is None else {"rubric": wanted})
    found = reader.read(Record("the row", 1, dict(columns))).columns.get("rubric")
    if found is None:
        expected = repr(wanted) if wanted else f"one of {', '.join(ROLES['rubric'].quiet)}"
        raise InputError(f"no rubric column; expected {expected}, the columns are {join_names(columns)}")
    return found


def read_rubric(value: Any, where: str) -> Rubric:
    """Read the rubric in a field. Equal fields, as in all generations of a prompt, are parsed once."""
    if isinstance(value, Rubric):
        return value
    try:
        return _parse_rubric(value if isinstance(value, str) else dump_json(to_plain(value), None))
    except InputError:
        return rubric_from(value, where)  # raises again, with the place in the message


@lru_cache(maxsize=4096)
def _parse_rubric(text: str) -> Rubric:
    return rubric_from(text, "rubric")
