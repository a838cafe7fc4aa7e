"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from typing import Any, cast

_USES = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "groups", "groupindex")


class _LatePattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        # From the second use on, the methods are found without this one.
        compiled = re.compile(self.pattern, self.flags)
        self.__dict__.update((use, getattr(compiled, use)) for use in _USES)
        return getattr(compiled, name)


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    r"""The pattern, for a module that many import and few use: to compile a long one takes up to 50 ms.

    It has the methods of a pattern, but the functions of `re` do not take it.

    Args:
        pattern: as of `re.compile`.
        flags: as of `re.compile`.

    Example:
        >>> numbers = late_pattern(r"\d+")
        >>> numbers.findall("2 of 30"), numbers.search("none")
        (['2', '30'], None)
    """
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))
