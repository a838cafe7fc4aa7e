"""One row of a file, and the contents of its columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from autorubric.errors import InputError, problems_at
from autorubric.files.json_values import is_missing
from autorubric.files.strict_json import parse_json
from autorubric.rows.messages import keep_calls, quote, read_message

_SCALARS = frozenset((str, int, float, bool, type(None)))
_NONE: Mapping[str, str] = MappingProxyType({})
FLOAT_ID = "; a column of numbers with blanks becomes floats, write its ids as integers"
MERGED = "; in merged cells, only the first has a value"
HOLDERS = ("rubrics", "rubric", "Rubrics", "criteria", "rubric_items")

# Names of the parts of a criterion in files and replies, in order of preference; in files, of any case.
TEXT_KEYS, WEIGHT_KEYS, NAME_KEYS = (
    tuple(names.split())
    for names in (
        "requirement criterion description text rubric_item rubric_str criteria criterion_description criterion_text "
        "criteria_description long_description sub_criterion subcriterion indicator "
        "描述 标准 准则 要求 说明 评分标准 评价标准 评分点 得分点 観点 評価項目 評価基準 基準 説明 "
        "평가항목 평가기준 기준 설명 "
        "kriterium kriterien critère critères criterio criterios critério critérios критерий критерии "
        "beschreibung descripción descrição descrizione описание المعيار الوصف",
        "weight points score 权重 分值 分数 配点 重み 배점 가중치 gewicht gewichtung punkte poids pondération barème "
        "peso ponderación puntos puntaje pontos punti punteggio вес баллы балл الدرجة الوزن",
        "name title heading criteria_name 标题 名称 评分项 评价指标 指标 titel titre título titolo",
    )
)


class Record(NamedTuple):
    """One row.

    Attributes:
        where: its place for messages, such as `rows.csv:7`.
        number: its line in a text, or its place in a table; from 1.
        fields: its values by column or key.
        columns: the column of each role, as `RowReader` found them.
    """

    where: str
    number: int
    fields: dict[str, Any]
    columns: Mapping[str, str] = _NONE

    def read_value(self, role: str) -> Any:
        """Return the value of a role; None if the row has no such column or the cell is blank.

        Example:
            >>> Record("a.jsonl:1", 1, {"prompt": "Why?"}, {"query": "prompt"}).read_value("query")
            'Why?'
        """
        column = self.columns.get(role)
        value = None if column is None else self.fields[column]
        if column == "reward_model":
            value = find_rubric(value)
        return None if is_blank(value) else value

    @property
    def query(self) -> Prompt | None:
        """The query: an unchanged text, or the messages of a conversation.

        JSON text is not parsed, because existing runs have it in their requests and would send them again.

        Raises:
            InputError: the value is neither text nor messages, or it refers to files.
        """
        value = to_plain(self.read_value("query"))
        if media := find_media(self.fields, value):
            raise InputError(f"{self.where}: {self.columns['query']!r} {media}")
        if value is None or isinstance(value, str):
            return value
        with problems_at(f"{self.where}: "):
            return read_prompt(value, self.columns["query"])

    @property
    def id(self) -> str | None:
        """The id as text.

        Raises:
            InputError: the value is neither text nor a number.
        """
        value = self.read_value("id")
        if isinstance(value, bool | list | dict):
            raise InputError(f"{self.where}: {self.columns['id']!r} is {quote(value)}; expected a string or a number")
        return None if value is None else str(value)

    @property
    def rest(self) -> dict[str, Any]:
        """The values of columns without a role."""
        used = set(self.columns.values())
        return {name: value for name, value in self.fields.items() if name not in used}


def find_media(fields: Mapping[str, Any], query: Any) -> str:
    """Why a query is not text alone: it refers to files of another column, as in LLaMA-Factory; empty if it does not.

    Example:
        >>> find_media({"images": ["a.jpg"]}, "<image>What is this?")
        "refers to files in 'images' with <image>; expected text alone, models are not shown files"
    """
    for kind in ("image", "audio", "video"):
        mark, named = f"<{kind}>", [name for name in (kind, f"{kind}s") if not is_blank(fields.get(name))]
        if named and mark in str(query):
            return f"refers to files in {named[0]!r} with {mark}; expected text alone, models are not shown files"
    return ""


def find_rubric(value: Any) -> Any:
    """Return the rubric in a `reward_model` of verl or RubricHub; None if it has none.

    Example:
        >>> find_rubric({"style": "rubric", "rubrics": ["Is brief"]}), find_rubric({"style": "rule"})
        (['Is brief'], None)
    """
    if not isinstance(value, Mapping):
        return value
    return next((value[name] for name in HOLDERS if not is_blank(value.get(name))), None)


def to_plain(value: Any, *, nulls: bool = True) -> Any:
    """Return a value with arrays of Parquet readers as lists, so that it has JSON values only.

    Args:
        value: the value.
        nulls: whether mappings keep keys that hold None.

    Example:
        >>> to_plain({"tags": ("a", "b"), "note": None}, nulls=False)
        {'tags': ['a', 'b']}
    """
    if type(value) in _SCALARS:  # nearly all values; the tests below are slow
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        found = value.items()
        return {str(key): to_plain(inner, nulls=nulls) for key, inner in found if nulls or inner is not None}
    return [to_plain(inner, nulls=nulls) for inner in value] if isinstance(value, list | tuple) else value


def from_cell(value: Any) -> Any:
    """Return the value of a cell; a text that is a JSON list or mapping is parsed.

    Example:
        >>> from_cell('[1]'), from_cell("Why?"), from_cell("5")
        ([1], 'Why?', '5')
    """
    try:
        return to_plain(parse_json(value) if isinstance(value, str) and value.lstrip()[:1] in ("[", "{") else value)
    except InputError:
        return value


def find_paths(value: Any, path: str) -> Iterator[str]:
    """Yield the paths to the texts in a column, also inside JSON text; in a list, of its first entry or last message.

    Example:
        >>> list(find_paths([{"turns": ["So.", "No."], "n": 1, "meta": '{"by": "Ann"}'}], "choices"))
        ['choices[0].turns[0]', 'choices[0].meta.by']
    """
    held = from_cell(value)
    if isinstance(held, Mapping):
        for key, inner in held.items():
            yield from find_paths(inner, f"{path}.{key}")
    elif isinstance(held, list):
        at = -1 if held and isinstance(held[0], Mapping) and {"role", "from"} & held[0].keys() else 0
        yield from find_paths(held[at], f"{path}[{at}]") if held else ()
    elif isinstance(value, str):
        yield path


def is_blank(value: Any) -> bool:
    """Return whether a cell contains nothing: null, NaN as pandas writes it, a blank text, an empty list or mapping.

    Example:
        >>> is_blank(" "), is_blank(float("nan")), is_blank([]), is_blank(0)
        (True, True, True, False)
    """
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, list | dict):
        return not value
    return is_missing(value)


def is_sentence(value: Any) -> bool:
    """Return whether a text, or a list, has more than two words, or eight Chinese, Japanese or Korean characters.

    A date or a fraction is not a sentence: most of its words have no letters.

    Example:
        >>> is_sentence("Why is it late?"), is_sentence(["too late"]), is_sentence("回答必须指出两个原因")
        (True, False, True)
        >>> is_sentence("1 / 1"), is_sentence("1 January 2025 10:00 AM")
        (False, False)
    """
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    if not isinstance(text, str):
        return False
    words = text.split()
    with_letters = sum(any(map(str.isalpha, word)) for word in words)
    return (len(words) > 2 and 2 * with_letters > len(words)) or len(_CJK.findall(text)) > 7


_CJK = re.compile("[\u3040-\u9fff\uac00-\ud7af]")


_PARTS_READ = ", or parts with text, thoughts, tool calls or their results"
Prompt: TypeAlias = str | list[dict[str, Any]]
"""A text, or the messages of a conversation. A single user message with only text is represented as its text."""


def read_prompt(value: Any, key: str) -> Prompt:
    """Return a prompt from a text or a list of messages.

    Raises:
        InputError: it is neither.

    Example:
        >>> read_prompt([{"role": "user", "content": "Why?"}], "prompt")
        'Why?'
        >>> read_prompt([{"content": "Why?"}], "prompt")
        Traceback (most recent call last):
        autorubric.errors.InputError: prompt[0].role is None; expected a string
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise InputError(f"{key} is {quote(value)}; expected a string or a list of messages")
    value = [keep_calls(turn) for turn in value]
    problems = []
    for index, turn in enumerate(value):
        if not isinstance(turn, dict):
            problems.append(f"{key}[{index}] is {quote(turn)}; expected a message with role and content")
            continue
        problems += [
            f"{key}[{index}].{name} is {quote(turn.get(name))}; expected a string{_PARTS_READ * (name == 'content')}"
            for name in ("role", "content")
            if not isinstance(turn.get(name), str)
        ]
    if problems:
        raise InputError(problems)
    turns = [{name: part for name, part in turn.items() if part is not None} for turn in value]
    if len(turns) == 1 and turns[0].keys() == {"role", "content"} and turns[0]["role"] == "user":
        return str(turns[0]["content"])
    return turns


def dump_question(prompt: Prompt) -> str:
    """Return a prompt for a text column: its text, or the messages of a conversation as JSON.

    Example:
        >>> dump_question("Why?"), dump_question([{"role": "system", "content": "Be brief."}])
        ('Why?', '[{"role": "system", "content": "Be brief."}]')
    """
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def read_question(value: Any, key: str) -> Prompt:
    """Return a prompt from a text, a list of messages, or such a list as JSON, as `dump_question` writes it.

    Raises:
        InputError: it is neither.

    Example:
        >>> read_question('[{"role": "system", "content": "Be brief."}]', "question")
        [{'role': 'system', 'content': 'Be brief.'}]
        >>> read_question("[1, 2] is a list", "question")
        '[1, 2] is a list'
    """
    if isinstance(value, str) and value.startswith("[{"):
        with suppress(ValueError, RecursionError, InputError):
            return read_prompt(json.loads(value), key)
    return read_prompt(value, key)


def as_turns(prompt: str | Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a prompt as messages of role and content, with tool calls as text.

    Example:
        >>> as_turns("Why?")
        [{'role': 'user', 'content': 'Why?'}]
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    turns = (read_message(turn) if turn.get("tool_calls") else turn for turn in prompt)
    return [{"role": turn["role"], "content": turn["content"]} for turn in turns]


def as_text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    r"""Return a prompt as one text; each turn of a conversation is prefixed with its role.

    Example:
        >>> as_text([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}])
        'user: Why?\n\nassistant: Because.'
    """
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in as_turns(prompt))
