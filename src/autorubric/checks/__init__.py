"""Checks: criteria that need no model, decided by small pure functions with a reason."""

from autorubric.checks.outcome import CannotCheck, CheckContext, CheckFailure, CheckOutcome
from autorubric.checks.registry import CHECKS, Check, run_check, validate_check
from autorubric.checks.rules.tables import IFEVAL, RUBRICHUB
from autorubric.checks.rules.tags import RuleCall, rule_of_tags

__all__ = [
    "CHECKS",
    "IFEVAL",
    "RUBRICHUB",
    "CannotCheck",
    "Check",
    "CheckContext",
    "CheckFailure",
    "CheckOutcome",
    "RuleCall",
    "rule_of_tags",
    "run_check",
    "validate_check",
]
