"""Messages of conversations in the forms of ShareGPT, LangChain, OpenAI, Anthropic, Gemini and Bedrock."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from autorubric.errors import InputError
from autorubric.files.strict_json import parse_json

_SPEAKERS = {
    **dict.fromkeys(("user", "human", "customer"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "model", "ai", "agent"), "assistant"),
    "system": "system",
}
# Types or keys of message parts of Anthropic, OpenAI, Gemini and Bedrock.
_CALLS = ("tool_use", "toolUse", "tool_call", "function_call", "functionCall")
_RESULTS = ("tool_result", "toolResult", "function_call_output", "functionResponse")
_THOUGHTS = ("thinking", "reasoning", "reasoning_content", "reasoningContent")
_MOVED = frozenset((*_THOUGHTS, "parts", "tool_calls", "function_call"))
_HOLD_TEXT = ("text", "thinking", "content", "summary", "output", "reasoningText", "response")


def fold_role(role: Any) -> Any:
    """Return the usual name of the role of a message.

    Example:
        >>> fold_role("Agent"), fold_role("tool"), fold_role(None)
        ('assistant', 'tool', None)
    """
    return _SPEAKERS.get(role.casefold(), role) if isinstance(role, str) else role


def read_message(turn: Any) -> Any:
    r"""Return a message as `role` and `content`; any other value unchanged.

    Other forms are renamed as in `rename_message`. A list of parts becomes one text: thoughts in `<thinking>`, tool
    results as text, and then tool calls as text.

    Example:
        >>> read_message({"from": "human", "value": "Why?"})
        {'role': 'user', 'content': 'Why?'}
        >>> read_message({"role": "user", "parts": [{"text": "Why?"}]})
        {'role': 'user', 'content': 'Why?'}
        >>> call = {"function": {"name": "look_up", "arguments": '{"word": "sky"}'}}
        >>> read_message({"role": "assistant", "content": "Wait.", "tool_calls": [call]})["content"]
        'Wait.\ncalls look_up({"word": "sky"})'
        >>> read_message({"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "So."}]})["content"]
        '<thinking>Hm.</thinking>\nSo.'
    """
    turn = rename_message(turn)
    if not isinstance(turn, Mapping):
        return turn
    content, calls = turn.get("content", turn.get("parts")), turn.get("tool_calls")
    said = [*map(_read_part, content)] if isinstance(content, list) else [content] if content else []
    thought = (turn[key] for key in _THOUGHTS if turn.get(key))
    thoughts = [f"<thinking>{text}</thinking>" for text in thought if isinstance(text, str)]
    called = [_format_call(call) for call in (calls if isinstance(calls, list) else [calls])] if calls else []
    texts = [text for text in (*thoughts, *said, *called) if isinstance(text, str)]
    if not texts or len(texts) < len(thoughts) + len(said) + len(called):
        return turn
    rest = {key: value for key, value in turn.items() if key not in _MOVED}
    return {**rest, "content": "\n".join(texts)}


def rename_message(turn: Any) -> Any:
    """Return a message with the names of OpenAI: `role`, `content` and `tool_calls`; any other value unchanged.

    Read are the `from` and `value` of ShareGPT, the `type` of LangChain, tool calls in turns of ShareGPT and
    LlamaFactory (`function_call` or `function`), results (`observation`), and OpenAI's older `function_call` and
    `function`.

    Example:
        >>> turn = rename_message({"from": "function_call", "value": '{"name": "look_up", "arguments": {"n": 1}}'})
        >>> turn["role"], turn["tool_calls"][0]["function"]
        ('assistant', {'name': 'look_up', 'arguments': {'n': 1}})
        >>> rename_message({"from": "observation", "value": "blue"})
        {'role': 'tool', 'content': 'blue'}
    """
    if not isinstance(turn, Mapping):
        return turn
    turn = _parse_calls(turn)
    if turn.keys() >= {"from", "value"} and "role" not in turn:
        turn = {"role": fold_role(turn["from"]), "content": turn["value"]}
    elif "role" not in turn and turn.get("type") in ("human", "ai", "system"):
        turn = {"role": fold_role(turn["type"]), **{key: value for key, value in turn.items() if key != "type"}}
    role, rest = turn.get("role"), {key: value for key, value in turn.items() if key != "function_call"}
    if role == "observation" or (role == "function" and turn.get("name")):
        return {**turn, "role": "tool"}
    if (call := turn.get("function_call")) and not turn.get("tool_calls"):
        return {**rest, "tool_calls": [{"type": "function", "function": call} if isinstance(call, Mapping) else call]}
    if role not in ("function", "function_call"):
        return turn
    text, calls = _split_calls(turn.get("content"))
    if calls:
        return {**turn, "role": "assistant", "content": text, "tool_calls": calls}
    return {**turn, "role": "assistant"} if role == "function_call" else turn


def _parse_calls(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with its tool calls as values, which may be JSON text, as in tables."""
    calls = turn.get("tool_calls")
    if isinstance(calls, str) and calls.strip():
        with suppress(InputError):
            return {**turn, "tool_calls": parse_json(calls)}
    return turn


def _split_calls(content: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the text and the calls in a turn of ShareGPT or LlamaFactory; no calls if it has another form."""
    text, tag, after_tag = content.partition("<tool_call>") if isinstance(content, str) else ("", "", "")
    try:
        held = parse_json(after_tag.strip().removesuffix("</tool_call>") if tag else text)
    except InputError:
        return "", []
    listed = held if isinstance(held, list) else [held]
    named = [isinstance(call, Mapping) and isinstance(call.get("name"), str) for call in listed]
    if not all(named) or not all("arguments" in call for call in listed):  # a result may be JSON with a name too
        return "", []
    return text.strip() if tag else "", [{"type": "function", "function": call} for call in listed]


def keep_calls(turn: Any) -> Any:
    """Return a message as `read_message` returns it, but with tool calls under `tool_calls`, not in the text.

    Calls in another form than OpenAI's become text.

    Example:
        >>> call = {"type": "function", "function": {"name": "look_up", "arguments": '{"word": "sky"}'}}
        >>> turn = keep_calls({"role": "assistant", "content": None, "tool_calls": [call]})
        >>> turn["content"], turn["tool_calls"] == [call]
        ('', True)
    """
    message = rename_message(turn)
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    is_usual = isinstance(calls, list) and all(
        isinstance(call, Mapping) and isinstance(call.get("function"), Mapping) for call in calls
    )
    if not calls or not is_usual:
        return read_message(message)
    plain = read_message({**message, "tool_calls": None})
    return {**plain, "content": plain["content"] if plain.get("content") is not None else "", "tool_calls": calls}


def pick_keys(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of `keep_calls` with the keys that trainers take.

    Example:
        >>> pick_keys({"role": "tool", "content": "blue", "tool_call_id": "c1", "weight": 0})
        {'role': 'tool', 'content': 'blue', 'tool_call_id': 'c1'}
    """
    further = () if turn["role"] == "user" else ("tool_calls", "tool_call_id", "name")
    return {key: turn[key] for key in ("role", "content", *(key for key in further if turn.get(key)))}


def read_answer(value: Any) -> Any:
    """Return the text of an answer that is a message of the assistant, or a list of one; any other value unchanged.

    Example:
        >>> read_answer([{"role": "assistant", "content": "So."}]), read_answer("So."), read_answer([])
        ('So.', 'So.', [])
    """
    message = read_message(value[0] if isinstance(value, list) and len(value) == 1 else value)
    is_answer = isinstance(message, Mapping) and fold_role(message.get("role")) == "assistant"
    return message["content"] if is_answer and isinstance(message.get("content"), str) else value


def find_fault(turn: Mapping[str, Any]) -> str:
    """Return why a message, as `read_message` returns it, has no text; empty if it has one.

    Example:
        >>> find_fault({"role": "user", "content": [{"type": "text", "value": "Why?"}]})
        "part 1 of its content is {'type': 'text', 'value': 'Why?'}; expected 'text'"
    """
    content = turn.get("content")
    for number, part in enumerate(content if isinstance(content, list) else (), 1):
        if _read_part(part) is None:
            is_text = isinstance(part, Mapping) and part.get("type") == "text"
            expected = "'text'" if is_text else "text; models are not shown images, audio or other files"
            return f"part {number} of its content is {quote(part)}; expected {expected}"
    if content is None:
        return "it has no content"
    if not content or (isinstance(content, str) and not content.strip()):
        return "its content is blank"
    return "" if isinstance(content, str) else f"its content is {quote(content)}; expected text"


def _read_part(part: Any) -> str | None:
    """Return the text of a part of a message; None for an image and anything else that is not text."""
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else None
    kind = str(part.get("type") or next((key for key in (*_CALLS, *_RESULTS, *_THOUGHTS) if key in part), ""))
    if kind in _CALLS:
        return _format_call(part.get(kind, part))
    if kind in _RESULTS or kind in _THOUGHTS or part.get("thought") is True:
        text = _read_text(part.get(kind, part))
        return text if kind in _RESULTS or not text else f"<thinking>{text}</thinking>"
    return part["text"] if isinstance(part.get("text"), str) else None


def _read_text(value: Any) -> str | None:
    """Return the text of a thought or a tool result; JSON if it has another form, None if a part is an image."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [*map(_read_part, value)]
        return None if None in texts else "\n".join(map(str, texts))
    key = next((key for key in _HOLD_TEXT if key in value), None) if isinstance(value, Mapping) else None
    return json.dumps(value, ensure_ascii=False) if key is None else _read_text(value[key])


def _format_call(call: Any) -> str:
    called = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(called, Mapping) or not isinstance(called.get("name"), str):
        return f"calls {quote(call)}"
    given = next((called[key] for key in ("arguments", "input", "args") if key in called), "")
    return f"calls {called['name']}({given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)})"


def quote(value: Any) -> str:
    """Return a value for a message, in at most 60 characters.

    Example:
        >>> quote("x" * 100)[-6:]
        'xxx...'
    """
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
