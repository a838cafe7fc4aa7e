"""What is odd about finished rubrics: reported at the end of a run, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autorubric.linting.records import drafts, query_of
from autorubric.linting.rules.counts import MOST
from autorubric.linting.rules.languages import LANGUAGE
from autorubric.linting.sheet import Sheet

_MOST_NAMED = 3
_IN_ANOTHER = "rubric is not in the language of its query"
_IN_OTHERS = "rubrics are not in the language of their queries"
_POINTLESS = "no criterion with positive points; left out of the final files"


class Remarks:
    """Collects what is odd about the rubrics of an export, with the ids of their rows.

    Example:
        >>> remarks = Remarks()
        >>> rubric = [{"criterion": "Names the year in which the strike was over.", "points": 4}]
        >>> remarks.look("q1", "¿En qué año fue la huelga de los mineros y por qué?", rubric)
        >>> list(remarks.sentences())
        ["1 rubric is not in the language of its query ('q1')"]
    """

    __slots__ = ("_languages", "_long", "_without_points")

    def __init__(self) -> None:
        self._languages: list[str] = []
        self._long: list[str] = []
        self._without_points: list[str] = []

    def look(self, name: str, question: Any, rubric: Sequence[Mapping[str, Any]]) -> None:
        """Take a rubric in, as the final files hold it."""
        if not rubric:
            return
        sheet = Sheet(drafts(rubric), query_of({"question": question}))
        if next(LANGUAGE.find(sheet), None) is not None:
            self._languages.append(name)
        if len(rubric) > MOST:
            self._long.append(name)

    def leave_out(self, name: str) -> None:
        """Take in that a rubric was left out because none of its criteria has positive points."""
        self._without_points.append(name)

    def sentences(self) -> Iterator[str]:
        """What was found, a sentence each."""
        for names, one, several in (
            (self._languages, _IN_ANOTHER, _IN_OTHERS),
            (self._long, f"rubric has more than {MOST} criteria", f"rubrics have more than {MOST} criteria"),
            (self._without_points, f"rubric has {_POINTLESS}", f"rubrics have {_POINTLESS}"),
        ):
            if names:
                yield f"{len(names)} {one if len(names) == 1 else several} ({_named(names)})"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(map(repr, names[:_MOST_NAMED])) + more
