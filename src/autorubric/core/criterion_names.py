"""What the criteria of a rubric are called where each needs a name of its own."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.core.criterion import Criterion


def criterion_names(criteria: Sequence[Criterion]) -> list[str]:
    """A name for each criterion that no other one of the rubric has.

    Its own, with its section where two share it; `C1`, `C2`, … by its place where it has none.

    Example:
        >>> criterion_names([Criterion(requirement="Is brief"), Criterion(name="Tone", requirement="Is kind")])
        ['C1', 'Tone']
        >>> criterion_names([Criterion(name="C2", requirement="Is brief"), Criterion(requirement="Is kind")])
        ['C2', 'C2 (C2)']
    """
    plain = [criterion.name or f"C{number}" for number, criterion in enumerate(criteria, start=1)]
    own = {criterion.name for criterion in criteria if criterion.name}
    found: list[str] = []
    for number, (criterion, name) in enumerate(zip(criteria, plain, strict=True), start=1):
        if plain.count(name) > 1 and criterion.section:
            name = f"{criterion.section}/{name}"  # noqa: PLW2901
        while name in found or (not criterion.name and name in own):
            name = f"{name} (C{number})"  # noqa: PLW2901
        found.append(name)
    return found
