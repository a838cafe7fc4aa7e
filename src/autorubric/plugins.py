"""Extensions that other installed packages provide through entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from autorubric.errors import InputError


def plugin_names(group: str) -> list[str]:
    """The names that installed packages register in a group, sorted.

    Args:
        group: what is extended, such as `checks` or `statistics`; the entry point group is `autorubric.<group>`.

    Example:
        >>> plugin_names("no_such_group")
        []
    """
    return sorted(_entries(group))


def load_plugin(group: str, name: str) -> Any | None:
    """What an installed package registers under a name, or None where no package does.

    Raises:
        InputError: the entry point cannot be imported; the message names it and quotes the error.

    Example:
        >>> load_plugin("no_such_group", "name") is None
        True
    """
    entry = _entries(group).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except Exception as error:
        where = f"entry point {entry.value!r} in group 'autorubric.{group}'"
        raise InputError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"autorubric.{group}")}
