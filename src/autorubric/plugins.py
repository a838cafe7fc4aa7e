"""Extensions that other installed packages provide through entry points."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from autorubric.errors import InputError


@cache
def find_plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points that installed packages register in a group, sorted by name.

    Args:
        group: what is extended, such as `checks` or `statistics`; the entry point group is `autorubric.<group>`.

    Example:
        >>> find_plugins("no_such_group")
        {}
    """
    found = entry_points(group=f"autorubric.{group}")
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def load_plugin(group: str, name: str) -> Any | None:
    """Return the object that an installed package registers under a name, or None.

    Raises:
        InputError: the entry point cannot be imported; the message names it and quotes the error.

    Example:
        >>> load_plugin("no_such_group", "name") is None
        True
    """
    entry = find_plugins(group).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except Exception as error:
        where = f"entry point {entry.value!r} in group 'autorubric.{group}'"
        raise InputError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
