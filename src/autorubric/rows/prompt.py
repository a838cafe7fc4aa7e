"""Prompts as rows hold them: a text, messages, or messages as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from autorubric.errors import InputError

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
        autorubric.errors.InputError: prompt[0].role is None; expected text
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise InputError(f"{key} is {shown(value)}; expected text or a list of messages")
    problems = []
    for index, turn in enumerate(value):
        if not isinstance(turn, dict):
            problems.append(f"{key}[{index}] is {shown(turn)}; expected a message with role and content")
            continue
        problems += [
            f"{key}[{index}].{name} is {shown(turn.get(name))}; expected text"
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


def shown(value: Any) -> str:
    """A value for a message, in 60 characters.

    Example:
        >>> shown("x" * 100)[-6:]
        'xxx...'
    """
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
