"""Criteria in another language than the query."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.lint.languages import spoken
from autorubric.lint.rules.rule import Hit, Rule
from autorubric.lint.sheet import Sheet

_ADVICE = "Write the criteria in the language of the query, so that quotes and terms can be found"


def _mismatch(sheet: Sheet) -> Iterator[Hit]:
    wanted = sheet.query_language
    if wanted is None:
        return
    read = sheet.read()
    other = [(n, found) for n, draft in read if (found := spoken(draft.wording.own)) not in (None, wanted)]
    if not other and len(read) > 1:
        whole = spoken("\n".join(draft.wording.own for _, draft in read))
        other = [(n, whole) for n, _ in read] if whole not in (None, wanted) else []
    if len(other) > 1 and 2 * len(other) >= len(read):
        yield Hit(
            None,
            f"{len(other)} of {len(read)} criteria are in {other[0][1]!r}, and the query is in {wanted!r}",
            _ADVICE,
        )
        return
    for position, found in other:
        yield Hit(position, f"it is in {found!r}, and the query is in {wanted!r}", _ADVICE)


LANGUAGE = Rule("language-mismatch", "warning", "criteria are in another language than the query", _mismatch)
