"""The two comparisons that rule parameters know."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge

from autorubric.checks.outcome import CheckOutcome
from autorubric.core.counted import counted

Relation = Literal["less than", "at least"]
Natural = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]


def related(count: int, noun: str, relation: Relation, threshold: int) -> CheckOutcome:
    """Whether a count stands in the relation to its threshold; only `at least` includes it.

    Example:
        >>> related(3, "word", "less than", 3)
        CheckOutcome(passed=False, reason='3 words; expected less than 3')
    """
    passed = count < threshold if relation == "less than" else count >= threshold
    return CheckOutcome(passed, f"{counted(count, noun)}; expected {relation} {threshold}")


def exactly(count: int, noun: str, expected: int) -> CheckOutcome:
    """Whether a count is the expected one.

    Example:
        >>> exactly(2, "paragraph", 2).passed
        True
    """
    return CheckOutcome(count == expected, f"{counted(count, noun)}; expected exactly {expected}")


def at_least(count: int, noun: str, expected: int) -> CheckOutcome:
    """Whether a count reaches the expected one.

    Example:
        >>> at_least(1, "placeholder", 2).passed
        False
    """
    return related(count, noun, "at least", expected)
