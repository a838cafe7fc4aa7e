"""The word lists, patterns and sentences of the offline model, from the YAML files beside this one."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

_GAPS = {
    "QUOTED": r"[\"“「『'‘]([^\"”」』'’\n]{1,80})[\"”」』'’]",
    "VALUE": r"([^.;:!?\n，。；！？]{2,80})",
}


@cache
def table(name: str) -> dict[str, Any]:
    """The content of `name.yaml`.

    Example:
        >>> sorted(table("phrases"))
        ['en', 'zh']
    """
    from autorubric.files.strict_yaml import parse_yaml

    text = files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = parse_yaml(text, f"{name}.yaml")
    return content


@cache
def words(name: str) -> frozenset[str]:
    """A list of words from `patterns.yaml`.

    Example:
        >>> "the" in words("function_words")
        True
    """
    return frozenset(table("patterns")[name].split())


@cache
def patterns(name: str) -> dict[str, tuple[re.Pattern[str], ...]]:
    """A table of patterns from `patterns.yaml`, compiled.

    Example:
        >>> bool(patterns("kinds")["why"][0].search("Why is the sky blue?"))
        True
    """
    entries: dict[str, list[str]] = table("patterns")[name]
    return {key: tuple(re.compile(_filled(line), re.I) for line in lines) for key, lines in entries.items()}


def _filled(pattern: str) -> str:
    for gap, meaning in _GAPS.items():
        pattern = pattern.replace(gap, meaning)
    return pattern
