"""Misspelled keys."""

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache


def find_nearest_key(key: str, known: Collection[str]) -> str | None:
    """Return the known key of which `key` is a misspelling, or None.

    Case and separators are ignored. A key of at least three letters may have one typo, of at least seven two: a
    letter added, omitted, wrong, or swapped with its neighbour. An id is not a misspelling of what it identifies.

    Example:
        >>> find_nearest_key("wieght", ["weight", "requirement"])
        'weight'
        >>> find_nearest_key("option", {"options", "name"})
        'options'
        >>> [find_nearest_key(key, ["submission", "name"]) for key in ("author", "submission_id")]
        [None, None]
    """
    return _find_nearest(key, tuple(sorted(known)))


_MANY = 12
"""If there are more names than this, only names similar to the unknown one are listed."""


def suggest_name(name: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown name: the nearest known name, else similar ones if there are many, else all.

    Example:
        >>> suggest_name("majorty", ["majority", "any"]), suggest_name("most", ["majority", "any"])
        ("did you mean 'majority'?", 'expected one of majority, any')
    """
    near = find_nearest_key(name, known)
    similar = [near] if near else get_close_matches(name, known) if len(known) > _MANY else []
    if similar:
        return f"did you mean {' or '.join(map(repr, similar))}?"
    return f"expected {'one of ' if len(known) > 1 else ''}{', '.join(known)}"


def describe_unknown_key(key: str, known: Collection[str], where: str) -> str:
    """Return the sentence for a key that is not known, naming the nearest one or all of them.

    Example:
        >>> describe_unknown_key("wieght", ["weight"], "criterion 2 of rubric.yaml")
        "unknown key 'wieght' in criterion 2 of rubric.yaml; did you mean 'weight'?"
        >>> describe_unknown_key("color", ["name", "weight"], "criterion 2")
        "unknown key 'color' in criterion 2; expected one of name, weight"
    """
    return f"unknown key {key!r} in {where}; {suggest_name(key, sorted(known))}"


_IDS = ("_id", "-id", " id", "Id", "ID")


@lru_cache(maxsize=4096)
def _find_nearest(key: str, known: tuple[str, ...]) -> str | None:
    if key in known:
        return None
    folded, is_id = _fold_key(key), key.endswith(_IDS)
    best: tuple[int, str] | None = None
    for candidate in known:
        target = _fold_key(candidate)
        slips = 2 if min(len(folded), len(target)) >= 7 else 1 if min(len(folded), len(target)) >= 3 else 0
        if abs(len(folded) - len(target)) > slips or (is_id and not target.endswith("id")):
            continue
        distance = count_slips(folded, target)
        if distance <= slips and (best is None or distance < best[0]):
            best = (distance, candidate)
    return best[1] if best else None


def count_slips(one: str, other: str) -> int:
    """Return the optimal string alignment distance: letters added, omitted, replaced, or swapped with a neighbour.

    `rapidfuzz` has this function, but is not part of a base install, where error messages need it.

    Example:
        >>> count_slips("wieght", "weight"), count_slips("option", "options"), count_slips("ca", "abc")
        (1, 1, 3)
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        row = [i]
        for j, target in enumerate(other, start=1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != target)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == target:
                row[j] = min(row[j], before[j - 2] + 1)
        before, last = last, row
    return last[-1]


def _fold_key(key: str) -> str:
    return key.strip().casefold().replace("-", "").replace("_", "").replace(" ", "")
