"""Tokens and dollars of replies, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one or more replies; usages can be added and summed.

    Attributes:
        prompt_tokens: tokens sent.
        completion_tokens: tokens received, thinking included.
        total_tokens: the sum of both.
        cache_creation_input_tokens: prompt tokens that the endpoint put into its cache.
        cache_read_input_tokens: prompt tokens that the endpoint read from its cache.

    Example:
        >>> sum([TokenUsage(90, 10, 100), TokenUsage(40, 5, 45)]).total_tokens
        145
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        if not isinstance(other, TokenUsage):
            return NotImplemented
        return TokenUsage(*map(add, _counts(self), _counts(other)))

    def __radd__(self, other: TokenUsage | int) -> TokenUsage:
        """`sum()` starts from 0."""
        if isinstance(other, int) and other == 0:
            return self
        return NotImplemented


_counts = attrgetter(*(field.name for field in fields(TokenUsage)))


class UnknownCost(float):
    """An unknown sum of dollars: falsy, equal to None, and formatted as `unknown` with any format.

    Reports of AutoRubric 1.6 recipes format the cost of a run without checking whether it is known.

    Example:
        >>> cost = UnknownCost()
        >>> f"Cost: ${cost:.4f}", cost == None, bool(cost)
        ('Cost: $unknown', True, False)
    """

    def __new__(cls) -> UnknownCost:
        """Return the only value."""
        return super().__new__(cls, "nan")

    def __format__(self, spec: str) -> str:
        return "unknown"

    def __repr__(self) -> str:
        return "unknown"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, UnknownCost)

    def __hash__(self) -> int:
        return hash(None)

    def __reduce__(self) -> tuple[type[UnknownCost], tuple[()]]:
        return UnknownCost, ()


class _Spent(Protocol):
    @property
    def token_usage(self) -> TokenUsage | None: ...
    @property
    def completion_cost(self) -> float | None: ...


def aggregate_token_usage(usages: Iterable[TokenUsage | None]) -> TokenUsage | None:
    """Return the sum of the usages that are known, or None if none is.

    Example:
        >>> aggregate_token_usage([TokenUsage(1, 2, 3), None]).total_tokens
        3
    """
    known = [_counts(usage) for usage in usages if usage is not None]
    return TokenUsage(*map(sum, zip(*known, strict=True))) if known else None


def aggregate_completion_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum of the costs that are known, in dollars, or None if none is; a cost of 0 is known.

    Example:
        >>> aggregate_completion_cost([0.0, None]), aggregate_completion_cost([None])
        (0.0, None)
    """
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def aggregate_evaluation_usage(reports: Iterable[_Spent]) -> tuple[TokenUsage | None, float | None]:
    """Tokens and dollars of several reports together.

    Example:
        >>> from autorubric.core.report import EvaluationReport
        >>> aggregate_evaluation_usage([EvaluationReport(score=1.0, completion_cost=0.5)])
        (None, 0.5)
    """
    reports = list(reports)
    usage = aggregate_token_usage(report.token_usage for report in reports)
    return usage, aggregate_completion_cost(report.completion_cost for report in reports)
