"""What every format is read into and written from: a query, its rubric, and what came with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.errors import InputError

Row: TypeAlias = dict[str, Any]
"""One row as JSON values."""

Prompt: TypeAlias = str | list[dict[str, Any]]
"""A text, or the messages of a conversation. One user message with nothing but text is the text."""


@dataclass(frozen=True, slots=True)
class Record:
    """One query with its rubric.

    Attributes:
        criteria: at least one; a negative weight marks a pitfall, which costs points where it is met.
        prompt: the query; empty where a file holds a rubric alone.
        id: of the row, in its file.
        reference: an ideal answer.
        answer: a submission that came with the row.
        domain: the field, such as `Medical`.
        guidelines: advice to the judge.
        metadata: what the row holds beyond that, by the keys of its format; None values are left out.
    """

    criteria: tuple[Criterion, ...]
    prompt: Prompt = ""
    id: str = ""
    reference: str | None = None
    answer: str | None = None
    domain: str = ""
    guidelines: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_prompt(value: Any, key: str) -> Prompt:
    """A prompt from a text or a list of messages.

    Raises:
        InputError: it is neither.

    Example:
        >>> read_prompt([{"role": "user", "content": "Why?"}], "prompt")
        'Why?'
        >>> read_prompt([{"content": "Why?"}], "prompt")
        Traceback (most recent call last):
        autorubric.errors.InputError: prompt[0].role is None; expected text
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise InputError(f"{key} is {_shown(value)}; expected text or a list of messages")
    problems = []
    for index, turn in enumerate(value):
        if not isinstance(turn, dict):
            problems.append(f"{key}[{index}] is {_shown(turn)}; expected a message with role and content")
            continue
        problems += [
            f"{key}[{index}].{name} is {_shown(turn.get(name))}; expected text"
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
    """A prompt as a column of text holds it: its text, or a conversation's messages as JSON.

    Example:
        >>> question_text("Why?"), question_text([{"role": "system", "content": "Be brief."}])
        ('Why?', '[{"role": "system", "content": "Be brief."}]')
    """
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def read_question(value: Any, key: str) -> Prompt:
    """A prompt from a text, a list of messages, or such a list as JSON, as `question_text` gives it.

    Raises:
        InputError: it is none of them.

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


def turns_of(prompt: Prompt) -> list[dict[str, str]]:
    """A prompt as messages of role and content.

    Example:
        >>> turns_of("Why?")
        [{'role': 'user', 'content': 'Why?'}]
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [{"role": turn["role"], "content": turn["content"]} for turn in prompt]


def text_of(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    r"""A prompt as one text; of a conversation, each turn under the name of its role.

    Example:
        >>> text_of([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}])
        'user: Why?\n\nassistant: Because.'
    """
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in prompt)


def read_text(row: Mapping[str, Any], *keys: str) -> str | None:
    """The text under the first of the keys that has a value.

    Raises:
        InputError: the value is no text.

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
            raise InputError(f"{key} is {_shown(value)}; expected text")
    return None


def source_of(record: Record) -> str:
    """What goes under `data_source`: the record's own where it came with one, else its domain.

    Example:
        >>> source_of(Record((Criterion(requirement="Is brief"),), domain="Medical"))
        'Medical'
    """
    source = record.metadata.get("data_source")
    return source if isinstance(source, str) else record.domain


def rest_of(row: Mapping[str, Any], known: Sequence[str] | frozenset[str]) -> dict[str, Any]:
    """What a mapping holds under other keys, None values left out.

    Example:
        >>> rest_of({"id": "q1", "split": "test", "note": None}, ["id"])
        {'split': 'test'}
    """
    return {key: value for key, value in row.items() if key not in known and value is not None}


def number(weight: float) -> int | float:
    """A weight as files write it: whole where it is whole.

    Example:
        >>> number(5.0), number(2.5)
        (5, 2.5)
    """
    return int(weight) if weight == int(weight) else weight


def whole(weight: float) -> int:
    """A weight where a file takes whole numbers only: the nearest, halves away from zero, never from not-0 to 0.

    Example:
        >>> whole(2.5), whole(-2.5), whole(0.2)
        (3, -3, 1)
    """
    size = int(abs(weight) + 0.5)
    return (max(size, 1) if weight else 0) * (-1 if weight < 0 else 1)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
