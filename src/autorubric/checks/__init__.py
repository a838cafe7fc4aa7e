"""Checks: criteria that need no model, decided by small pure functions with a reason."""

from autorubric.checks.check import CHECKS, CannotCheck, Check, CheckContext, CheckFailure, CheckOutcome, check
from autorubric.checks.check_registry import (
    IFBENCH,
    IFEVAL,
    MIFEVAL,
    PACKAGES,
    RUBRICHUB,
    find_check,
    run_check,
    validate_check,
)
from autorubric.core.rule_tags import RuleCall, rule_of_tags

__all__ = [
    "CHECKS",
    "IFBENCH",
    "IFEVAL",
    "MIFEVAL",
    "PACKAGES",
    "RUBRICHUB",
    "CannotCheck",
    "Check",
    "CheckContext",
    "CheckFailure",
    "CheckOutcome",
    "RuleCall",
    "check",
    "find_check",
    "rule_of_tags",
    "run_check",
    "validate_check",
]
