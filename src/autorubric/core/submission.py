"""The graded text, which may have a thinking part and an output part."""

import re
from typing import Any, TypeAlias, TypedDict

from autorubric.core.wording import UNSPACED
from autorubric.errors import InputError
from autorubric.files.keys import suggest_name

_UNSPACED = re.compile(rf"[{UNSPACED}][^\w\s]*")  # with its vowel signs and punctuation
_PARTS = ("thinking", "output")


class ThinkingOutputDict(TypedDict, total=False):
    """A submission in two parts: thinking and output.

    Example:
        >>> both: ThinkingOutputDict = {"thinking": "Hm.", "output": "Yes."}
        >>> both["output"]
        'Yes.'
    """

    thinking: str
    output: str


ToGradeInput: TypeAlias = str | ThinkingOutputDict
"""The types of submissions that graders accept."""


def word_count(text: str) -> int:
    """Count words separated by white space; in Chinese, Japanese and Thai, each character counts as a word.

    Example:
        >>> word_count("It began in  Britain."), word_count("始于英国。")
        (4, 4)
    """
    return len(_UNSPACED.sub(" x ", text).split())


def normalize_to_grade_input(to_grade: ToGradeInput) -> ThinkingOutputDict:
    """Return both parts of a submission; a missing part is empty, and a string is all output.

    Raises:
        InputError: it is neither text nor a mapping of texts with the keys `thinking` and `output`.

    Example:
        >>> normalize_to_grade_input({"output": "Yes."})
        {'thinking': '', 'output': 'Yes.'}
        >>> normalize_to_grade_input({"ouput": "Yes."})
        Traceback (most recent call last):
        autorubric.errors.InputError: unknown key 'ouput' in the submission; did you mean 'output'?
    """
    if isinstance(to_grade, str):
        return {"thinking": "", "output": to_grade}
    problems = _find_problems(to_grade)
    if problems:
        raise InputError(problems)
    return {"thinking": to_grade.get("thinking", ""), "output": to_grade.get("output", "")}


def _find_problems(given: Any) -> list[str]:
    if not isinstance(given, dict):
        return [
            f"the submission is of type {type(given).__name__}; expected a string, or a dict with thinking and output"
        ]
    if not given:
        return ["the submission is an empty dict; expected the keys 'thinking' and 'output'"]
    found = []
    for key, value in given.items():
        if key not in _PARTS:
            found.append(f"unknown key {key!r} in the submission; {suggest_name(str(key), _PARTS)}")
        elif not isinstance(value, str):
            found.append(f"{key!r} of the submission is of type {type(value).__name__}; expected a string")
    return found
