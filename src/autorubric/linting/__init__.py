"""What is wrong with a rubric that can be seen without a model: one rule a file."""

from autorubric.linting.finding import SEVERITIES, Finding, Place, Severity
from autorubric.linting.linting import lint_file, lint_rubric, lint_sheet
from autorubric.linting.rules import RULES, Rule, chosen_rules

__all__ = [
    "RULES",
    "SEVERITIES",
    "Finding",
    "Place",
    "Rule",
    "Severity",
    "chosen_rules",
    "lint_file",
    "lint_rubric",
    "lint_sheet",
]
