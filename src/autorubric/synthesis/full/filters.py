"""What is left out for its length or form, and why."""

from __future__ import annotations

import re
from collections import Counter

from autorubric.synthesis.full.settings import Filters

_FENCE = re.compile(r"^\s*(```|~~~)", re.MULTILINE)
_LEAST_LOOP = 12  # characters: shorter lines, such as table rules and braces, come often in sound texts


def response_fault(text: str, filters: Filters) -> str | None:
    """What is abnormal about a response; None where it may stay.

    Example:
        >>> response_fault("```python", Filters())
        'a code fence is never closed'
        >>> response_fault("4 g a day.", Filters()) is None
        True
    """
    length = len(text.strip())
    if length < filters.response_least_characters:
        return f"shorter than {filters.response_least_characters} characters"
    if length > filters.response_most_characters:
        return f"longer than {filters.response_most_characters} characters"
    if filters.response_closed_fences and len(_FENCE.findall(text)) % 2:
        return "a code fence is never closed"
    lines = Counter(line.strip() for line in text.splitlines() if len(line.strip()) >= _LEAST_LOOP)
    if lines and max(lines.values()) > filters.response_most_repeats:
        return f"one line comes more than {filters.response_most_repeats} times"
    return None


def criterion_fault(description: str, weight: int, filters: Filters) -> str | None:
    """What is abnormal about a criterion; None where it may stay.

    Example:
        >>> criterion_fault("Names the dose.", 0, Filters())
        'weight 0'
        >>> criterion_fault("```json", 5, Filters())
        'not plain text'
    """
    text = description.strip()
    if not weight:
        return "weight 0"
    if len(text) < filters.criterion_least_characters:
        return f"shorter than {filters.criterion_least_characters} characters"
    if len(text) > filters.criterion_most_characters:
        return f"longer than {filters.criterion_most_characters} characters"
    if filters.criterion_plain_text and ("```" in text or text.startswith(('{"', "[{"))):
        return "not plain text"
    return None
