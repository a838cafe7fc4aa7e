"""Words for what is graded and for who wrote it."""

from __future__ import annotations

import re

WRITERS = frozenset(
    """student candidate pupil learner writer author applicant participant examinee contestant model assistant
    chatbot bot ai llm system speaker respondent she he they coder developer translator contributor""".split()  # noqa: SIM905
)
"""Who made a submission."""

TEXTS = frozenset(
    """response answer reply submission essay text output report paper composition work piece entry code program
    function query solution summary explanation letter email story plan poem translation review article
    paragraph introduction conclusion discussion analysis argument proof derivation calculation diagram
    presentation draft dialogue message note post speech outline script table abstract caption definition
    description comparison it completion recommendation thesis narrative project demo recipe advice itinerary
    document writing prose sentence reasoning implementation class method test lyrics song tutorial guide memo
    proposal tone style language grammar spelling punctuation structure formatting layout handwriting graph
    chart figure title ending opening""".split()  # noqa: SIM905
)
"""What is submitted, or a part of it."""

SUBJECTS = WRITERS | TEXTS
_DETERMINERS = frozenset("the this that a an any each its their his her every no another".split())  # noqa: SIM905
_ASKING = frozenset("does do did".split())  # noqa: SIM905
_LABEL = re.compile(r"^\s*[a-z][a-z-]*(?: [a-z-]+){0,2}\s*[:：]\s+(?=\S+ \S)")
_MARKUP = re.compile(r"^(?:[\s>#•*_\-–—·]+|\(?\d{1,2}[.)]\s|\(?[a-h]\)\s|[①-⑳]|☐|✓)+")


def unmarked(text: str) -> str:
    """A criterion in lower case without bullets, emphasis and a label before it.

    Example:
        >>> unmarked("- **tone**: the email is polite")
        'the email is polite'
    """
    plain = _MARKUP.sub("", text.replace("**", "").replace("__", ""))
    return _LABEL.sub("", plain)


def after_subject(text: str) -> str:
    """What a criterion in lower case says of the submission: the words after the subject, if it names one.

    Example:
        >>> [after_subject(text) for text in ("the student's essay omits it", "does the code run?", "omits it")]
        ['omits it', 'run?', 'omits it']
    """
    words = text.split(" ", 6)
    start = 1 if words[0] in _ASKING else 0
    named = start < len(words) and words[start] in _DETERMINERS
    last = -1
    for place in range(start + named, min(start + (4 if named else 2), len(words))):
        word = words[place].removesuffix("'s")
        if word in SUBJECTS:
            last = place
        elif not named or last >= 0:
            break
    return " ".join(words[last + 1 :]) if last >= 0 else text
