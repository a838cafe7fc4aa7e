"""Criteria too short to say anything, or too long to be one thing."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Sheet

WORDS = (5, 40)
CHARACTERS = (5, 80)
SENTENCES = 4


def _length(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in sheet.read():
        words = draft.wording
        least, most = CHARACTERS if words.chinese else WORDS
        unit = "characters" if words.chinese else "words"
        if words.size < least:
            yield Hit(
                position,
                f"{words.size} {unit}; expected {least} to {most}",
                "Say what has to be there, so that the criterion can be judged by itself",
            )
        elif words.size > most:
            yield Hit(
                position,
                f"{words.size} {unit}; expected {least} to {most}",
                "Keep the one demand; leave out the reasons, or split it",
            )
        elif len(words.sentences) > SENTENCES:
            yield Hit(
                position,
                f"{len(words.sentences)} sentences; expected 1 to {SENTENCES}",
                "Keep the one demand; leave out the reasons, or split it",
            )


LENGTH = Rule("length", "warning", "a criterion has fewer than 5 or more than 40 words, or over 4 sentences", _length)
