"""How a run makes scores of verdicts, so that labels are scored the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from autorubric.core.verdict import CannotAssessConfig


class ScoreRule(NamedTuple):
    """How a run makes scores of verdicts.

    Attributes:
        cannot_assess: what an abstention does.
        normalize: scores in [0, 1]; False for bare sums.
    """

    cannot_assess: CannotAssessConfig = CannotAssessConfig()
    normalize: bool = True


def grader_settings(run: object) -> Mapping[str, Any] | None:
    """What a run recorded of its grader; None where it recorded nothing.

    Example:
        >>> grader_settings([]) is None
        True
    """
    found = getattr(run, "grader_config", None)
    return found if isinstance(found, Mapping) else None


def recorded_rule(settings: Mapping[str, Any] | None) -> ScoreRule | None:
    """The rule that a grader's settings state; None where they state none.

    Example:
        >>> recorded_rule({"normalize": False}).normalize, recorded_rule({"judges": []})
        (False, None)
    """
    if settings is None or "normalize" not in settings:
        return None
    config = CannotAssessConfig.model_validate(settings.get("cannot_assess") or {})
    return ScoreRule(config, bool(settings["normalize"]))
