"""One criterion on five described scores, as Prometheus and BiGGen-Bench write it."""

from collections.abc import Mapping
from typing import Any

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.errors import InputError

SCORES = range(1, 6)


def has_described_scores(entry: Mapping[str, Any], prefix: str = "") -> bool:
    """Whether a mapping is such a criterion, by its keys.

    Example:
        >>> has_described_scores({"criteria": "Is it kind?", "score1_description": "No."})
        True
    """
    return {f"{prefix}criteria", f"{prefix}score1_description"} <= entry.keys()


def read_scored_criterion(entry: Mapping[str, Any], prefix: str = "") -> Criterion:
    """The criterion: its options are the descriptions, worth 0 to 1.

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
    """Options with the descriptions as labels, numbered if two read alike or one is blank."""
    folded = {text.strip().casefold() for text in texts}
    clear = len(folded) == len(texts) and "" not in folded
    labels = texts if clear else [f"{score}. {text}".strip() for score, text in zip(SCORES, texts, strict=True)]
    return [CriterionOption(label=label, value=index / 4) for index, label in enumerate(labels)]
