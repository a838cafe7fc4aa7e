"""Rubrics for language models: synthesis, grading, agreement, training.

Importing the package is cheap: every public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.core.criterion import CANONICAL_NA_OPTION, Criterion, CriterionOption
    from autorubric.core.rubric import Rubric
    from autorubric.core.verdict import CannotAssessConfig, CannotAssessStrategy, CriterionVerdict
    from autorubric.dataset import DataItem, RubricDataset
    from autorubric.errors import AutorubricError, InputError

    __version__: str

__all__ = [
    "CANONICAL_NA_OPTION",
    "AutorubricError",
    "CannotAssessConfig",
    "CannotAssessStrategy",
    "Criterion",
    "CriterionOption",
    "CriterionVerdict",
    "DataItem",
    "InputError",
    "Rubric",
    "RubricDataset",
    "__version__",
]

_HOMES = {
    "CANONICAL_NA_OPTION": "autorubric.core.criterion",
    "AutorubricError": "autorubric.errors",
    "CannotAssessConfig": "autorubric.core.verdict",
    "CannotAssessStrategy": "autorubric.core.verdict",
    "Criterion": "autorubric.core.criterion",
    "CriterionOption": "autorubric.core.criterion",
    "CriterionVerdict": "autorubric.core.verdict",
    "DataItem": "autorubric.dataset",
    "InputError": "autorubric.errors",
    "Rubric": "autorubric.core.rubric",
    "RubricDataset": "autorubric.dataset",
}


def __getattr__(name: str) -> Any:
    """The public name, loaded from its home on first use (PEP 562)."""
    if name == "__version__":
        found: Any = import_module("importlib.metadata").version("autorubric")
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'autorubric' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
