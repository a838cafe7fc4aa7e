"""What is wrong with a rubric that can be seen without a model: one rule a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.linting.finding import SEVERITIES, Finding, Rule, Severity
    from autorubric.linting.raw_rubric import Place
    from autorubric.linting.rule_table import RULES, chosen_rules
    from autorubric.linting.sources import lint_file, lint_raw_rubric, lint_rubric

__all__ = [
    "RULES",
    "SEVERITIES",
    "Finding",
    "Place",
    "Rule",
    "Severity",
    "chosen_rules",
    "lint_file",
    "lint_raw_rubric",
    "lint_rubric",
]

_HOMES = {
    "SEVERITIES": "finding",
    "Finding": "finding",
    "Rule": "finding",
    "Severity": "finding",
    "Place": "raw_rubric",
    "RULES": "rule_table",
    "chosen_rules": "rule_table",
}


def __getattr__(name: str) -> Any:
    """The public name, loaded on first use: graders need one rule, not the patterns of all."""
    if name not in __all__:
        raise AttributeError(f"module 'autorubric.linting' has no attribute {name!r}")
    return getattr(import_module(f"autorubric.linting.{_HOMES.get(name, 'sources')}"), name)
