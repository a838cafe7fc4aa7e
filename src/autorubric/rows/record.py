"""One row of a file, and what its columns contain."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from autorubric.errors import InputError, problems_at
from autorubric.files.json_values import is_missing

_SCALARS = frozenset((str, int, float, bool, type(None)))
_NONE: Mapping[str, str] = MappingProxyType({})
HOLDERS = ("rubrics", "rubric", "Rubrics", "criteria", "rubric_items")

# What files and models call the parts of a criterion, in order of preference; the keys of files in any case.
TEXT_KEYS = (
    *("requirement", "criterion", "description", "text", "rubric_item", "rubric_str", "criteria"),
    *("描述", "标准", "准则", "要求", "说明", "评分标准", "评价标准"),
)
WEIGHT_KEYS = ("weight", "points", "score", "权重", "分值", "分数")
NAME_KEYS = ("name", "title", "标题", "名称", "评分项", "评价指标", "指标")


class Record(NamedTuple):
    """One row.

    Attributes:
        where: its place for messages, such as `rows.csv:7`.
        number: its line in a text, its place among the rows of a table; from 1.
        fields: its values by column or key.
        columns: the column of each role that the row plays, as `RowReader` found them.
    """

    where: str
    number: int
    fields: dict[str, Any]
    columns: Mapping[str, str] = _NONE

    def value(self, role: str) -> Any:
        """What the row holds for a role; None if it has no such column or the cell is blank.

        Example:
            >>> Record("a.jsonl:1", 1, {"prompt": "Why?"}, {"query": "prompt"}).value("query")
            'Why?'
        """
        column = self.columns.get(role)
        held = None if column is None else self.fields[column]
        if column == "reward_model":
            held = rubric_inside(held)
        return None if is_blank(held) else held

    @property
    def query(self) -> Prompt | None:
        """The query: an unchanged text, or the messages of a conversation.

        A text that is JSON stays a text: runs whose requests hold it would ask again otherwise.

        Raises:
            InputError: the value is neither.
        """
        value = plain(self.value("query"))
        if value is None or isinstance(value, str):
            return value
        with problems_at(f"{self.where}: "):
            return read_prompt(value, self.columns["query"])

    @property
    def id(self) -> str | None:
        """The row's own id as text.

        Raises:
            InputError: the value is neither text nor a number.
        """
        value = self.value("id")
        if isinstance(value, bool | list | dict):
            raise InputError(f"{self.where}: {self.columns['id']!r} is {shown(value)}; expected a string or a number")
        return None if value is None else str(value)

    @property
    def rest(self) -> dict[str, Any]:
        """The values of the columns that play no role."""
        used = set(self.columns.values())
        return {name: value for name, value in self.fields.items() if name not in used}


def rubric_inside(value: Any) -> Any:
    """The rubric in a `reward_model` as verl and RubricHub write it; None if it holds none.

    Example:
        >>> rubric_inside({"style": "rubric", "rubrics": ["Is brief"]}), rubric_inside({"style": "rule"})
        (['Is brief'], None)
    """
    if not isinstance(value, Mapping):
        return value
    return next((value[name] for name in HOLDERS if not is_blank(value.get(name))), None)


def plain(value: Any, *, nulls: bool = True) -> Any:
    """JSON values only: arrays of parquet readers become lists.

    Args:
        value: the value.
        nulls: whether mappings keep keys that hold None.

    Example:
        >>> plain({"tags": ("a", "b"), "note": None}, nulls=False)
        {'tags': ['a', 'b']}
    """
    if type(value) in _SCALARS:  # nearly all values are: the tests below are slow
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        found = value.items()
        return {str(key): plain(inner, nulls=nulls) for key, inner in found if nulls or inner is not None}
    return [plain(inner, nulls=nulls) for inner in value] if isinstance(value, list | tuple) else value


def is_blank(value: Any) -> bool:
    """Whether a cell contains nothing: null, NaN as pandas writes it, a blank text, an empty list or mapping.

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
    """Whether a value is text of more than two words, or of eight Chinese, Japanese or Korean characters.

    Example:
        >>> is_sentence("Why is it late?"), is_sentence("too late"), is_sentence("回答必须指出两个原因")
        (True, False, True)
    """
    return isinstance(value, str) and (len(value.split()) > 2 or len(_CJK.findall(value)) > 7)


_CJK = re.compile("[\u3040-\u9fff\uac00-\ud7af]")
_SPEAKERS = {"human": "user", **dict.fromkeys(("gpt", "chatgpt", "bot", "model", "ai"), "assistant")}


def speaker(role: Any) -> Any:
    """The usual name of the role of a message.

    Example:
        >>> speaker("model"), speaker("tool"), speaker(None)
        ('assistant', 'tool', None)
    """
    return _SPEAKERS.get(role, role) if isinstance(role, str) else role


def read_message(turn: Any) -> Any:
    """A message as `role` and `content`; anything else is as it was.

    ShareGPT's `from` and `value` are renamed. Content that is a list of texts becomes one text, and the calls of a
    message without content become its text.

    Example:
        >>> read_message({"from": "human", "value": "Why?"})
        {'role': 'user', 'content': 'Why?'}
        >>> read_message({"role": "user", "content": [{"type": "text", "text": "Why?"}]})
        {'role': 'user', 'content': 'Why?'}
        >>> call = {"function": {"name": "look_up", "arguments": '{"word": "sky"}'}}
        >>> read_message({"role": "assistant", "content": None, "tool_calls": [call]})["content"]
        'calls look_up({"word": "sky"})'
    """
    if not isinstance(turn, Mapping):
        return turn
    if turn.keys() >= {"from", "value"} and "role" not in turn:
        turn = {"role": speaker(turn["from"]), "content": turn["value"]}
    parts = turn.get("content", turn.get("parts"))
    if isinstance(parts, list) and parts and all(map(_is_text_part, parts)):
        texts = (part if isinstance(part, str) else part["text"] for part in parts)
        return {**{key: value for key, value in turn.items() if key != "parts"}, "content": "\n".join(texts)}
    if parts is None and isinstance(turn.get("tool_calls"), list):
        calls = "\n".join(map(_call_text, turn["tool_calls"]))
        return {**{key: value for key, value in turn.items() if key != "tool_calls"}, "content": calls}
    return turn


def _is_text_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, Mapping) and isinstance(part.get("text"), str))


def _call_text(call: Any) -> str:
    called = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(called, Mapping) or not isinstance(called.get("name"), str):
        return f"calls {shown(call)}"
    given = called.get("arguments", "")
    return f"calls {called['name']}({given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)})"


Prompt: TypeAlias = str | list[dict[str, Any]]
"""A text, or the messages of a conversation. One user message with nothing but text is the text."""


def read_prompt(value: Any, key: str) -> Prompt:
    """A prompt from a text or a list of messages.

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
        raise InputError(f"{key} is {shown(value)}; expected a string or a list of messages")
    value = [read_message(turn) for turn in value]
    problems = []
    for index, turn in enumerate(value):
        if not isinstance(turn, dict):
            problems.append(f"{key}[{index}] is {shown(turn)}; expected a message with role and content")
            continue
        problems += [
            f"{key}[{index}].{name} is {shown(turn.get(name))}; expected a string"
            for name in ("role", "content")
            if not isinstance(turn.get(name), str)
        ]
    if problems:
        raise InputError(problems)
    turns = [{name: part for name, part in turn.items() if part is not None} for turn in value]
    if len(turns) == 1 and turns[0].keys() == {"role", "content"} and turns[0]["role"] == "user":
        return str(turns[0]["content"])
    return turns


def question_text(prompt: Prompt) -> str:
    """A prompt as a column of text contains it: its text, or a conversation's messages as JSON.

    Example:
        >>> question_text("Why?"), question_text([{"role": "system", "content": "Be brief."}])
        ('Why?', '[{"role": "system", "content": "Be brief."}]')
    """
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def read_question(value: Any, key: str) -> Prompt:
    """A prompt from a text, a list of messages, or such a list as JSON, as `question_text` gives it.

    Raises:
        InputError: it is something else.

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


def as_turns(prompt: Prompt) -> list[dict[str, str]]:
    """A prompt as messages of role and content.

    Example:
        >>> as_turns("Why?")
        [{'role': 'user', 'content': 'Why?'}]
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [{"role": turn["role"], "content": turn["content"]} for turn in prompt]


def as_text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    r"""A prompt as one text; of a conversation, each turn under the name of its role.

    Example:
        >>> as_text([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}])
        'user: Why?\n\nassistant: Because.'
    """
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in prompt)


def shown(value: Any) -> str:
    """A value for a message, in 60 characters.

    Example:
        >>> shown("x" * 100)[-6:]
        'xxx...'
    """
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
