"""Criteria in another language than the query."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.linting.languages import spoken
from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Sheet

_ADVICE = "Write the criteria in the language of the query, so that quotes and terms can be found"


def _mismatch(sheet: Sheet) -> Iterator[Hit]:
    wanted = sheet.query_language
    if wanted is None:
        return
    read = sheet.read()
    # Together they hold enough words to be sure of; one criterion alone often does not.
    whole = spoken("\n".join(draft.wording.own for _, draft in read))
    if len(read) > 1 and whole not in (None, wanted):
        yield Hit(None, f"the criteria are in {whole!r}, and the query is in {wanted!r}", _ADVICE)
        return
    for position, draft in read:
        found = spoken(draft.wording.own)
        if found not in (None, wanted):
            yield Hit(position, f"it is in {found!r}, and the query is in {wanted!r}", _ADVICE)


LANGUAGE = Rule("language-mismatch", "warning", "criteria are in another language than the query", _mismatch)
