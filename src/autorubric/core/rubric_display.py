"""How a rubric looks: as a line, and as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.display import clipped, listed

_MOST = 1000


def rubric_text(kind: str, criteria: Sequence[Criterion], guidelines: str | None) -> str:
    """The criteria as Python writes them where that is short, else their number, points and names.

    Example:
        >>> long = [Criterion(name=f"C{n}", weight=2, requirement="Names a cause. " * 30) for n in range(30)]
        >>> rubric_text("Rubric", long, None)
        '<Rubric: 30 criteria, 60 points; C0 (2), C1 (2), C2 (2), ...>'
    """
    if len(criteria) * 30 < _MOST and sum(len(criterion.requirement) for criterion in criteria) < _MOST:
        more = f", guidelines={guidelines!r}" if guidelines else ""
        text = f"{kind}({list(criteria)!r}{more})"
        if len(text) <= _MOST:
            return text
    points = sum(criterion.weight for criterion in criteria if criterion.weight > 0)
    names = [f"{clipped(c.name or c.requirement, 40)} ({c.weight:g})" for c in criteria]
    more = f"; guidelines {clipped(guidelines, 60)!r}" if guidelines else ""
    noun = "criterion" if len(criteria) == 1 else "criteria"
    return f"<{kind}: {len(criteria)} {noun}, {points:g} points; {listed(names)}{more}>"


def criterion_rows(criteria: Sequence[Criterion]) -> Iterator[dict[str, Any]]:
    """A row for each criterion.

    Example:
        >>> next(criterion_rows([Criterion(requirement="Is brief")]))["name"]
        'C1'
    """
    for number, criterion in enumerate(criteria, start=1):
        yield {
            "name": criterion.name or f"C{number}",
            "weight": criterion.weight,
            "requirement": criterion.requirement,
            "options": None if criterion.options is None else ", ".join(one.label for one in criterion.options),
            "scale_type": None if criterion.options is None else criterion.scale_type,
            "check": None if criterion.check is None else str(criterion.check.get("name")),
            "section": criterion.section,
            "tags": ", ".join(criterion.tags) or None,
        }
