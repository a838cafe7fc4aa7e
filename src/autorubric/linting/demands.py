"""Whether a wording has several demands, for those who grade by it."""

from __future__ import annotations

from functools import lru_cache

from autorubric.linting.finding import RawCriterion
from autorubric.linting.rules.compound import second_demand


@lru_cache(maxsize=65_536)
def find_second_demand(requirement: str) -> str:
    """The words with which a second demand begins, as the lint rule `several-demands` finds them; else empty.

    Example:
        >>> find_second_demand("States the dose and warns about liver damage.")
        'and warns'
        >>> find_second_demand("Names two causes, such as coal and wages.")
        ''
    """
    return second_demand(RawCriterion(requirement))
