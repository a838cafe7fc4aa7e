"""Scales of criteria: described scores, as in Prometheus, and levels with points, as in Canvas and Moodle."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.misread_keys import OF_SCORE, find_misread, find_usual_keys, read_weights
from autorubric.errors import InputError
from autorubric.files.json_values import as_weight
from autorubric.files.keys import find_nearest_key
from autorubric.rows.columns import fold_column, fold_name
from autorubric.rows.record import NAME_KEYS, TEXT_KEYS, WEIGHT_KEYS

SCORES = range(1, 6)
_LEVELS = re.compile(
    r"((performance|rubric|criterion|scoring|scores?|ratings?)_)?"
    r"(levels|scale|scoring|scores?|ratings?|rubric|choices|descriptors|descriptions|bands|anchors)|等级|量表|档次"
)
"""Keys of levels; other lists of texts and numbers may be human ratings, examples or further criteria."""
_LEVEL_TEXTS = ("label", "name", "title", "description", "definition", "text", "descriptor", "long_description")
_LEVEL_NUMBERS = ("points", "score", "value", "level", "rating", "marks")
_POINTS = ("points", "marks")
POINTS = "points"
"""The key in the metadata of an option for the points that its rubric gives it."""


def has_described_scores(entry: Mapping[str, Any], prefix: str = "") -> bool:
    """Return whether a mapping is a criterion with described scores, by its keys.

    Example:
        >>> has_described_scores({"criteria": "Is it kind?", "score1_description": "No."})
        True
    """
    return {f"{prefix}criteria", f"{prefix}score1_description"} <= entry.keys()


def read_scored_criterion(entry: Mapping[str, Any], prefix: str = "") -> Criterion:
    """Return the criterion: its options are the descriptions, worth 0 to 1.

    Raises:
        InputError: the question or a description is missing.

    Example:
        >>> levels = {f"score{score}_description": f"{score} jokes." for score in range(1, 6)}
        >>> criterion = read_scored_criterion({"criteria": "Is it fun?", **levels})
        >>> criterion.requirement, criterion.options[1]
        ('Is it fun?', CriterionOption(label='2 jokes.', value=0.25))
    """
    requirement = entry.get(f"{prefix}criteria")
    texts = {key: entry.get(key) for key in (f"{prefix}score{score}_description" for score in SCORES)}
    is_text = isinstance(requirement, str) and requirement.strip()
    problems = [] if is_text else [f"{prefix}criteria is {requirement!r:.60}; expected the text of a criterion"]
    problems += [f"{key} is missing" for key, text in texts.items() if text is None]
    wrong = [(key, text) for key, text in texts.items() if not isinstance(text, str | None)]
    problems += [f"{key} is {text!r:.60}; expected a string" for key, text in wrong]
    if problems:
        raise InputError(problems)
    return Criterion(requirement=str(requirement), options=_build_options([str(text) for text in texts.values()]))


def _build_options(texts: list[str]) -> list[CriterionOption]:
    labels = _number_alike(texts, SCORES)
    return [CriterionOption(label=label, value=index / 4) for index, label in enumerate(labels)]


def _number_alike(texts: Sequence[str], numbers: Sequence[float]) -> list[str]:
    """Return the texts as labels of options, numbered if two read alike or one is blank."""
    folded = {text.strip().casefold() for text in texts}
    if len(folded) == len(texts) and "" not in folded:
        return [*texts]
    return [f"{number:g}. {text}".strip() for number, text in zip(numbers, texts, strict=True)]


class _Level(NamedTuple):
    number: float
    text: str
    is_points: bool = False
    rest: Mapping[str, Any] = {}


def read_scale(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a criterion's entry with its only scale as options; unchanged if it has options or several scales.

    A scale is a list of levels with points or a score, texts by consecutive scores, or a key for each score. Points
    are shares of the highest; other scores run from 0, the lowest, to 1. Without a weight, the range is the weight.

    Example:
        >>> levels = [{"points": 4, "description": "Clear"}, {"points": 1, "description": "Vague"}]
        >>> read_scale({"description": "Thesis", "ratings": levels})["options"]
        [{'label': 'Clear', 'value': 1.0, 'metadata': {'points': 4.0}},
         {'label': 'Vague', 'value': 0.25, 'metadata': {'points': 1.0}}]
        >>> read_scale({"criterion": "Tone", "levels": {"1": "Rude", "2": "Cool", "3": "Kind"}})["weight"]
        2.0
    """
    scales = {} if entry.get("options") else dict(_find_scales(entry))
    if len(scales) != 1:
        return entry
    keys, levels = next(iter(scales.items()))
    numbers = [level.number for level in levels]
    lowest, highest = (0.0 if levels[0].is_points else min(numbers)), max(numbers)
    if min(numbers) < 0 or len({*numbers}) < len(numbers):
        return entry
    rest = {key: value for key, value in entry.items() if key not in keys}
    labels = _number_alike([level.text for level in levels], numbers)
    rest["options"] = [
        {"label": label, "value": (level.number - lowest) / (highest - lowest), "metadata": dict(level.rest)}
        for label, level in zip(labels, levels, strict=True)
    ]
    titles = find_usual_keys(tuple(rest), NAME_KEYS)
    if titles and not any(key in TEXT_KEYS or find_nearest_key(key, TEXT_KEYS) for key in map(fold_name, rest)):
        rest["description"] = rest[titles[0]]  # the levels describe it, as in Google Classroom
    if rest.get("ignore_for_scoring") is True:  # as in Canvas
        return rest | dict.fromkeys(find_usual_keys(tuple(rest), WEIGHT_KEYS) or ["weight"], 0.0)
    has_weight = read_weights([rest]) != [None] or (lowest and any(find_misread(rest, {"options": levels})))
    return rest if has_weight else {**rest, "weight": highest - lowest}


def _find_scales(entry: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], list[_Level]]]:
    """Yield the keys and the levels of each scale of an entry."""
    for key, value in entry.items():
        if not isinstance(value, list | Mapping) or len(value) < 2 or not _LEVELS.fullmatch(fold_column(key)):
            continue
        levels = _read_keyed(value) if isinstance(value, Mapping) else [*filter(None, map(_read_level, value))]
        if len(levels) == len(value) and len({level.is_points for level in levels}) == 1:
            yield (key,), levels
    keyed = {key: value for key, value in entry.items() if OF_SCORE.match(str(key)) and not str(key).isdecimal()}
    if levels := _read_keyed(keyed):
        yield tuple(keyed), levels


def _read_keyed(texts: Mapping[str, Any]) -> list[_Level]:
    """Return the levels of texts by score; empty if these are not consecutive."""
    found = [(re.findall(r"\d+", str(key)), text) for key, text in texts.items() if OF_SCORE.match(str(key))]
    levels = [_Level(float(digits[0]), text) for digits, text in found if len(digits) == 1 and isinstance(text, str)]
    numbers = sorted(level.number for level in levels)
    is_whole = len(levels) == len(texts) > 1 and numbers == [numbers[0] + step for step in range(len(numbers))]
    return levels if is_whole else []


def _read_level(level: Any) -> _Level | None:
    """Return a level of a list; None if it has no text, or not one number."""
    if not isinstance(level, Mapping):
        return None
    names = {fold_name(key): key for key in level}
    numbers = [name for name in _LEVEL_NUMBERS if name in names and as_weight(level[names[name]]) is not None]
    texts = [str(level[names[name]]).strip() for name in _LEVEL_TEXTS if level.get(names.get(name)) is not None]
    if len(numbers) != 1 or not texts:
        return None
    used = {names.get(name) for name in (*numbers, *_LEVEL_TEXTS)}
    text = ": ".join(dict.fromkeys(filter(None, texts)))
    rest = {key: value for key, value in level.items() if key not in used and value is not None}
    number, is_points = as_weight(level[names[numbers[0]]]) or 0.0, numbers[0] in _POINTS
    return _Level(number, text, is_points, {**rest, POINTS: number} if is_points else rest)
