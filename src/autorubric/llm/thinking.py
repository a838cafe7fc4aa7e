"""Separates the answer in a reply from its thinking."""

import re
from typing import Literal, TypeAlias

from autorubric.core.submission import ThinkingOutputDict, ToGradeInput, normalize_to_grade_input
from autorubric.llm.request import Reply

Reasoning: TypeAlias = Literal["drop", "keep"]
"""Whether the reasoning before an answer is graded."""

# Each alternative has one group, which is empty in an opening tag.
_TAG = re.compile(
    r"<(/?)(?:\w+:|longcat_)?(?:think(?:ing)?|thoughts?)>|\[(/?)THINK\]|◁(/?)think▷|<\|(/?)think\|>|"
    r"<\|(?:begin|(end))_of_thought\|>|<\|(?:START|(END))_THINKING\|>|<\|inner_(?:prefix|(suffix))\|>|"
    r"<\|(?:open|(close))\|>think<\|sep\|>|<(?:\|channel>thought|(channel\|>))|<unused9(?:4>thought|(5>))",  # Gemma
    re.IGNORECASE,
)
_PROSE = re.compile(
    r"[ \t]+(?:(?:is|are|tags?|tokens?|blocks?|means?|marks?|ist|est)\b|(?:and|or|und|et|y) \W?[<\[])|"
    r"[ \t]*(?:是|标签)"
)
_PROMPTED = re.compile(rf"(?i:<reasoning>)(?!{_PROSE.pattern})(?s:.*?)(?i:</reasoning>|\Z)")  # of GRPO recipes
_INVISIBLE = "\ufeff\u200b\u2060"
_MAY_LOSE_OPENING = re.compile(r"</(?:\w+:)?think|\[/|◁/", re.IGNORECASE)
_ANSWER_FOLLOWS = re.compile(r"[ \t]*(?:\n|\Z|[\[{]|```)")

# Harmony, the format of gpt-oss, as sent by servers that do not parse it or that drop its special tokens.
_START = r"(?:<\|start\|>)?(?:assistant)?<\|channel\|>"
_HEADER = r"\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
_CHANNELS = re.compile(_START)
_FINAL = re.compile(rf"<\|channel\|>\s*final{_HEADER}")
_OTHER = re.compile(rf"{_START}\s*\w+{_HEADER}.*?(?:<\|(?:end|call|return)\|>|\Z)", re.DOTALL)
_END_OF_CHANNEL = re.compile(r"<\|(?:end|return)\|>")
_BARE_ANALYSIS = re.compile(r"analysis(?=[A-Z])")
_BARE_FINAL = "assistantfinal"


def remove_thinking(text: str) -> str:
    """`text` without a leading thinking block; empty if no answer follows, or the block never closes.

    Example:
        >>> remove_thinking("<think>two and two</think> Four.")
        'Four.'
    """
    text = _strip_blank(text)
    if text.startswith(("{", "[{", '"{', "```")):  # tags in here are quoted
        return text
    if _CHANNELS.match(text):
        return _extract_final_channel(text)
    if _BARE_ANALYSIS.match(text):
        return text.partition(_BARE_FINAL)[2].strip()
    first = _TAG.search(text) if "<" in text or "[" in text or "◁" in text else None
    # Some endpoints remove the opening tag; prose that mentions the closing tag continues on the same line.
    if first and _MAY_LOSE_OPENING.match(first[0]) and _ANSWER_FOLLOWS.match(text, first.end()):
        text = text[first.end() :].lstrip()
    while first and (opened := _TAG.match(text)) and not _is_closing(opened) and not _PROSE.match(text, opened.end()):
        text = _skip_block(text, opened.end())
    return _strip_blank(text)


def split_reasoning(submission: str, reasoning: Reasoning = "drop") -> tuple[str, str]:
    """Return the beginning of a submission, which is reasoning with its tags, and the answer after it.

    A submission without reasoning, or whose reasoning is kept, is returned as it is.

    Example:
        >>> split_reasoning("<think>two and two</think> Four.")
        ('<think>two and two</think> ', 'Four.')
        >>> split_reasoning(" Four.")
        ('', ' Four.')
    """
    text = _strip_blank(submission)
    if reasoning == "keep" or (_BARE_ANALYSIS.match(text) and _BARE_FINAL not in text):
        return "", submission
    answer = remove_thinking(f"<think></think>{text[found.end() :]}" if (found := _PROMPTED.match(text)) else text)
    if answer == text:
        return "", submission
    place = submission.rfind(answer)
    return submission[:place] if place > 0 else submission, answer


def split_submission(to_grade: ToGradeInput, reasoning: Reasoning = "drop") -> ThinkingOutputDict:
    """Return the reasoning and the answer of a submission: the parts that it has, or those of its text.

    Raises:
        InputError: the submission is neither text nor a mapping with `thinking` and `output`.

    Example:
        >>> split_submission("<think>two and two</think> Four.")
        {'thinking': '<think>two and two</think> ', 'output': 'Four.'}
    """
    if isinstance(to_grade, str):
        thinking, output = split_reasoning(to_grade, reasoning)
        return {"thinking": thinking, "output": output}
    return normalize_to_grade_input(to_grade)


def find_misplaced_answer(reply: Reply) -> tuple[str, list[str]] | None:
    """Return the JSON answer that vLLM's reasoning parser took for thinking, with a note; None if there is none."""
    thoughts = "" if reply.text or reply.refusal or reply.finish_reason != "stop" else (reply.reasoning or "").strip()
    is_answer = (thoughts[:1], thoughts[-1:]) in (("{", "}"), ("[", "]"))
    return (thoughts, ["the answer came as reasoning"]) if is_answer else None


def _extract_final_channel(text: str) -> str:
    """Return the text of the last `final` channel; without one, what follows the other channels (llama.cpp)."""
    *_, final = [None, *_FINAL.finditer(text)]
    if final is None:
        return _OTHER.sub("", text).strip()
    return _END_OF_CHANNEL.split(text[final.end() :], maxsplit=1)[0].strip()


def _strip_blank(text: str) -> str:
    return text.strip().strip(_INVISIBLE).strip()


def _skip_block(text: str, start: int) -> str:
    closed = next((tag for tag in _TAG.finditer(text, start) if _is_closing(tag)), None)
    return text[closed.end() :].lstrip() if closed else ""


def _is_closing(tag: re.Match[str]) -> bool:
    return any(tag.groups())
