"""What an executor has done in this session, role by role: what progress lines are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autorubric.llm.billing import Bill
from autorubric.llm.request import Failure, Reply, Usage


@dataclass(slots=True)
class Activity:
    """The calls of one role in this session.

    Attributes:
        in_flight: calls that models work on now.
        paid: calls that brought a reply.
        hits: asks that were answered without a call of their own.
        failures: calls that brought no reply.
        refused: asks that were turned away before a call (budget, stop, a model that cannot be used).
        usage: tokens as counted by the endpoint.
        cost: dollars of the calls whose price is known.
        unpriced: replies whose price is not known.
    """

    in_flight: int = 0
    paid: int = 0
    hits: int = 0
    failures: int = 0
    refused: int = 0
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    cost: float = 0.0
    unpriced: int = 0


class Tally:
    """Running counts by role.

    Example:
        >>> tally = Tally()
        >>> tally.hit("judge")
        >>> tally.snapshot()["judge"].hits
        1
    """

    def __init__(self) -> None:
        self._roles: dict[str, Activity] = {}

    def hit(self, role: str) -> None:
        """Count an ask that was answered without a call of its own."""
        self._of(role).hits += 1

    def refused(self, role: str) -> None:
        """Count an ask that was turned away before a call."""
        self._of(role).refused += 1

    def started(self, role: str) -> None:
        """Count a call in."""
        self._of(role).in_flight += 1

    def ended(self, role: str, outcome: Reply | Failure, bill: Bill) -> None:
        """Count a call out, with what came of it."""
        now = self._of(role)
        now.in_flight -= 1
        now.usage += bill.usage
        now.cost += bill.cost or 0.0
        if isinstance(outcome, Reply):
            now.paid += 1
            now.unpriced += bill.cost is None
        else:
            now.failures += 1

    def snapshot(self) -> dict[str, Activity]:
        """The counts of every role, as they are now."""
        return {role: replace(activity) for role, activity in self._roles.items()}

    def _of(self, role: str) -> Activity:
        activity = self._roles.get(role)
        if activity is None:
            activity = self._roles[role] = Activity()
        return activity
