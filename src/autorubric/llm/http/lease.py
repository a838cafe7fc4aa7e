"""The share of one process in the rate at which several processes may call an endpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from autorubric.llm.sharing import Traffic, sharing

_LATE_TIMER = 0.05
"""Seconds of lateness that are made up for."""


class Lease:
    """What this process may send to one endpoint with one key; without other processes, as much as it likes.

    Args:
        clock: in seconds.
        account: names the endpoint and the key.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, account: str = "") -> None:
        self.account = account
        self._clock = clock
        self._shared = sharing.get()
        self._rate = math.inf
        self._next = -math.inf
        self._traffic = Traffic()
        if self._shared is not None:
            self._shared.leases.add(self)

    @property
    def processes(self) -> int:
        """How many processes share a limit that a user has set."""
        return 1 if self._shared is None else self._shared.processes

    @property
    def is_rated(self) -> bool:
        """Whether all processes together have found a limit of the endpoint."""
        return self._rate < math.inf

    def delay(self, now: float) -> float:
        """Seconds until the next request may be sent; not positive if it may be sent now."""
        return self._next - now

    def took(self, now: float) -> None:
        """A request leaves."""
        if self._rate < math.inf:
            self._next = max(self._next, now - _LATE_TIMER) + 1 / self._rate

    def passed(self) -> None:
        """A request was not refused."""
        if self._shared is not None:
            self._traffic = Traffic(self._traffic.passed + 1, self._traffic.refused)

    def refused(self, closed_for: float | None = None) -> None:
        """A request was refused as too fast; the other processes hear of it at once.

        Args:
            closed_for: seconds for which the endpoint has closed, if it has.
        """
        if self._shared is None:
            return
        self._traffic = Traffic(self._traffic.passed, self._traffic.refused + 1)
        self._shared.tell_traffic()
        if closed_for is not None:
            self._shared.tell_refusal(closed_for)

    def hold(self, seconds: float) -> None:
        """Send nothing for some seconds: an endpoint has closed for another process."""
        self._next = max(self._next, self._clock() + seconds)

    def take_traffic(self) -> Traffic:
        """What was sent since the last call."""
        traffic, self._traffic = self._traffic, Traffic()
        return traffic

    def renew(self, rate: float) -> None:
        """Send at most `rate` requests a second from now on."""
        self._rate = rate


@dataclass(slots=True)
class _Account:
    """What is known of one endpoint and key; rates in requests a second.

    Attributes:
        rate: of all processes together; infinite until a limit shows.
        top: to which a halved rate returns.
        cut_at: when it was halved.
        since: since when `passed` requests have passed.
        steps: how often it has grown since it returned.
    """

    since: float
    rate: float = math.inf
    top: float = math.inf
    cut_at: float = -math.inf
    passed: int = 0
    steps: int = 0

    def halve(self, now: float) -> None:
        """A request was refused; further refusals within a second tell nothing new."""
        if now - self.cut_at < _SECOND:
            return
        refused_at = self._measured(now) if self.rate == math.inf else self.rate
        if self.rate < math.inf:  # else replies that are still to come tell how many the first burst was
            self._begin(now)
        self.rate, self.top = max(refused_at / 2, _LEAST), max(_BACK * refused_at, _LEAST)
        self.cut_at, self.steps = now, _HALVED

    def grow(self, now: float) -> None:
        """No request was refused: each second, a rate that is used grows, by more than the second before."""
        if self.rate == math.inf or now - max(self.cut_at, self.since) < _SECOND:
            return
        if self.steps == _HALVED:
            self.rate, self.steps = max(self.top, _BACK * self._measured(now)), 0
        elif self.passed >= _USED * self.rate * (now - self.since):
            self.rate *= 1 + min(_FIRST_STEP * 2**self.steps, _LARGEST_STEP)
            self.steps += 1
        self._begin(now)

    def _measured(self, now: float) -> float:
        return self.passed / max(now - self.since, _SECOND)

    def _begin(self, now: float) -> None:
        self.passed, self.since = 0, now


_SECOND = 1.0
_HALVED = -1
_BACK = 0.9
"""Share of the rate at which a request was refused to which a halved rate returns after a second."""

_FIRST_STEP, _LARGEST_STEP = 0.01, 0.3
_USED = 0.5
"""Share of the rate that has to be used for it to grow."""

_LEAST = 1.0


class Leases:
    """Divides the rate of each endpoint and key among processes: a refusal at one halves that of all.

    Example:
        >>> leases = Leases()
        >>> leases.heard({"a": Traffic(60, 0)}, now=0.0)
        {'a': inf}
        >>> leases.heard({"a": Traffic(60, 1)}, now=2.0)  # 120 passed in two seconds
        {'a': 30.0}
        >>> leases.heard({"a": Traffic(0, 5)}, now=2.5)  # sent before that was known
        {'a': 30.0}
        >>> leases.heard({"a": Traffic(30, 0)}, now=3.0)
        {'a': 54.0}
        >>> leases.heard({"a": Traffic(54, 0)}, now=4.0)
        {'a': 54.54}
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def heard(self, traffic: dict[str, Traffic], now: float) -> dict[str, float]:
        """The rate of all processes together, for each endpoint that one of them has called.

        Args:
            traffic: of one process since its last report.
            now: seconds on a clock that only goes forward.
        """
        for name, (passed, refused) in traffic.items():
            known = self._accounts.setdefault(name, _Account(now))
            known.passed += passed
            if refused:
                known.halve(now)
            else:
                known.grow(now)
        return {name: self._accounts[name].rate for name in traffic}
