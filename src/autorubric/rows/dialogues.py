"""Queries in the forms of HH-RLHF and Alpaca, with tools or with media, and columns that repeat a query."""

import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

from autorubric.errors import InputError
from autorubric.rows.messages import fold_role
from autorubric.rows.record import (
    Prompt,
    as_turns,
    dump_question,
    from_cell,
    is_blank,
    read_prompt,
    read_question,
    to_plain,
)

_SPEAKER = re.compile(r"(?:\A|\n)\s*(Human|User|Assistant):\s*")


def split_dialogues(one: Any, other: Any) -> tuple[list[dict[str, str]], list[str]]:
    r"""Return the common messages of two texts such as `Human: … Assistant: …`, and the answer that ends each.

    Both are empty if the values are not such texts, or share no messages before an answer.

    Example:
        >>> split_dialogues("Human: Why?\n\nAssistant: So.", "Human: Why?\n\nAssistant: No.\n\nHuman: Hm?")
        ([{'role': 'user', 'content': 'Why?'}], ['So.', 'No.\n\nHuman: Hm?'])
    """
    if not isinstance(one, str) or not isinstance(other, str):
        return [], []
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    shared = [mark for mark in _SPEAKER.finditer(one) if mark[1] == "Assistant" and mark.end(1) < length]
    first, *said = _SPEAKER.split(one[: shared[-1].start()]) if shared else [""]
    if first or not said or said[0] == "Assistant":
        return [], []
    turns = [{"role": fold_role(role), "content": text.strip()} for role, text in zip(*[iter(said)] * 2, strict=True)]
    return turns, [text[shared[-1].end(1) + 1 :].strip() for text in (one, other)]


def is_conversation(value: Any) -> bool:
    """Return whether a value is a list of several messages, or JSON text of one.

    Example:
        >>> is_conversation([{"role": "user"}, {"role": "assistant"}]), is_conversation(["Why?", "So."])
        (True, False)
    """
    turns = from_cell(value)
    is_list = isinstance(turns, list) and len(turns) > 1
    return is_list and all(isinstance(turn, Mapping) and {"role", "from"} & turn.keys() for turn in turns)


def drop_copies(rivals: list[str], fields: Mapping[str, Any], layout: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one column if all have the same query, as in `final_full`; of a conversation, the one with its messages.

    A conversation that ends with an answer is the same query, and is read unless the row has another answer.

    Example:
        >>> row = {"prompt": "Why?", "messages": [{"role": "user", "content": "Why?"}]}
        >>> drop_copies(["prompt", "messages"], row, [])
        ['prompt']
    """
    has_answer = any("submission" in roles for roles in layout)
    try:
        asked = [read_question(to_plain(fields[name]), name) for name in rivals]
        bare = [_leave_out_answer(prompt) for prompt in asked]
    except InputError:
        return rivals
    answered = {_dump_turns(whole) for prompt, whole in zip(bare, asked, strict=True) if prompt != whole}
    if len({_dump_turns(prompt).strip() for prompt in bare}) != 1 or (len(answered) > 1 and not has_answer):
        return rivals
    wrong_end = [(prompt != whole) == has_answer for prompt, whole in zip(bare, asked, strict=True)]
    bare_calls = [not any("tool_calls" in turn for turn in prompt if isinstance(turn, dict)) for prompt in bare]
    as_text = [isinstance(fields[name], str) and isinstance(bare[0], list) for name in rivals]
    return [min(zip(wrong_end, bare_calls, as_text, range(len(rivals)), rivals, strict=True))[-1]]


def _dump_turns(prompt: Prompt) -> str:
    return dump_question(prompt if isinstance(prompt, str) else as_turns(prompt))


def read_tools(fields: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the definitions of tools in a row, as trainers take them; a column of that name may have something else.

    Example:
        >>> read_tools({"tools": '[{"name": "look_up"}]'}), read_tools({"tools": "hammer"})
        ([{'type': 'function', 'function': {'name': 'look_up'}}], None)
    """
    held = from_cell(fields.get("tools"))
    if not isinstance(held, list) or not held or not all(isinstance(tool, Mapping) for tool in held):
        return None
    return [tool if "name" not in tool or "type" in tool else {"type": "function", "function": tool} for tool in held]


def join_instruction(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    r"""Return a row of Alpaca with its instruction and input as the query; None for other rows.

    Example:
        >>> join_instruction({"instruction": "Add.", "input": "1 and 2", "output": "3"})
        {'query': 'Add.\n\n1 and 2', 'output': '3'}
    """
    parts = [fields[name] for name in ("instruction", "input") if not is_blank(fields.get(name))]
    are_texts = all(isinstance(part, str | int | float) for part in parts)
    if not are_texts or not fields.keys() >= {"instruction", "input", "output"}:
        return None
    query = "\n\n".join(map(str, parts))
    return {"query": query, **{name: value for name, value in fields.items() if name not in ("instruction", "input")}}


def _leave_out_answer(prompt: Prompt) -> Prompt:
    has_answer = isinstance(prompt, list) and len(prompt) > 1 and fold_role(prompt[-1]["role"]) == "assistant"
    return read_prompt(prompt[:-1], "") if has_answer else prompt
