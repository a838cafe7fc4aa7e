"""The words that turn a demand about."""

from __future__ import annotations

import re

_NEGATION = re.compile(
    r"\b(?:not|no|never|without|fails?|failed|neglects?|omits?|lacks?|avoid\w*|refrain\w*|neither|nor|none|cannot|"
    r"unless|except|incorrectly|wrongly|\w+n['’]t)\b|[不未无没勿莫禁]|非(?!常)|避免|错误"
)


def negations_in(text: str) -> int:
    """How many words of a text negate: an even number of them may cancel out.

    Example:
        >>> [negations_in(text) for text in ("Does not fail to warn.", "Names the dose.", "未说明剂量", "非常清楚")]
        [2, 0, 1, 0]
    """
    return len(_NEGATION.findall(text.lower()))
