"""What an endpoint was asked and what it answered: the proof that no finished call is asked twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Counts:
    """The endpoint's own books.

    Attributes:
        requests: chat completions asked for, the failed and unanswered ones included.
        by_status: answers sent, by HTTP status.
        by_fault: faults met, by name.
        calls_by_body: for each distinct request body (a digest of its bytes), how many answers with status
            200 were sent to the last byte.
        in_flight: requests that wait for their answer now.
        max_in_flight: the most that ever waited at once.
        prompt_tokens: tokens of all completed requests, cached ones included.
        cached_tokens: how many of them came from the simulated prefix cache.
        completion_tokens: tokens of all completed answers.
        elsewhere: requests that followed a redirect to the other host.
        elsewhere_with_key: how many of those carried an Authorization header there.
    """

    requests: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    by_fault: Counter[str] = field(default_factory=Counter)
    calls_by_body: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    max_in_flight: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    elsewhere: int = 0
    elsewhere_with_key: int = 0

    def arrive(self) -> None:
        """Book a request for a completion."""
        self.requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def summary(self) -> dict[str, Any]:
        """The counts as JSON values; bodies only as how many there were and how often one was repeated.

        Example:
            >>> Counts(calls_by_body=Counter({"a": 1, "b": 3})).summary()["repeated_calls"]
            2
        """
        completed = self.calls_by_body.total()
        return {
            "requests": self.requests,
            "by_status": {str(status): count for status, count in sorted(self.by_status.items())},
            "by_fault": dict(sorted(self.by_fault.items())),
            "completed_calls": completed,
            "distinct_bodies": len(self.calls_by_body),
            "repeated_calls": completed - len(self.calls_by_body),
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "computed_tokens": self.prompt_tokens - self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "elsewhere": self.elsewhere,
            "elsewhere_with_key": self.elsewhere_with_key,
        }
