"""What the wordings of all criteria share: subjects, modals and verbs, in English and Chinese."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

Found: TypeAlias = tuple[str, dict[str, Any]] | None
"""A check with its parameters, or None where a wording names none."""

_NOUN = r"(?:response|answer|reply|output|text|essay|summary|message|email|e-mail|letter|article|story|poem|post)"
_NOUN_ZH = r"(?:回答|回复|答案|答复|输出|全文|文章|正文|内容|文本|摘要|邮件|故事|篇幅|总字数|字数|长度)"
SUBJECT = rf"(?:(?:(?:the|this|its)\s+)?(?:(?:entire|whole|full|final|total)\s+)?{_NOUN}\s+)?"
SUBJECT_ZH = rf"(?:该|本|此)?(?:{_NOUN_ZH}(?:的)?)*(?:长度|字数)?(?:中|里|内)?"
MODAL = r"(?:(?:should|must|has\s+to|needs\s+to)\s+)?"
MODAL_ZH = r"(?:应该|应当|应|需要|需|必须|须|要|控制在|保持在|限制在|在|为|是)*"
HAS = (
    r"(?:is|be|has|have|contains?|includes?|uses?|provides?|gives?|lists?|consists?\s+of|comprises?|stays?|keeps?\s+to|"
    r"remains?|is\s+limited\s+to|is\s+written\s+in|be\s+limited\s+to|ends\s+up|presents?|offers?|"
    r"(?:answers?|responds?|replies|is\s+given|is\s+written)\s+(?:in|with)|limits?\s+(?:the|its)\s+\w+\s+to|"
    r"keeps?\s+(?:the|its)\s+\w+(?:\s+to)?|is\s+(?:divided|split)\s+into)"
)
NOT = r"(?:does\s+not|doesn[’']t|must\s+not|should\s+not|never|do\s+not)"
NOT_ZH = r"(?:不|未|没有|不得|不应|不能|不要|避免)"


def patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    """The patterns of texts, whatever the case.

    Example:
        >>> len(patterns("a", "b"))
        2
    """
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


def first_match(options: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    """The match of the first pattern that covers the whole text.

    Example:
        >>> first_match(patterns("a+", "b+"), "bb")[0]
        'bb'
    """
    return next((match for option in options if (match := option.fullmatch(text))), None)
