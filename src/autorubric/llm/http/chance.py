"""The share of requests that an endpoint refuses at any rate, as overloaded ones do."""

import math

MOST = 0.2
"""Share of refusals above which they count as a limit."""

PRIOR = 50
"""Requests without a refusal that are assumed before anything is measured."""

REMEMBERED = 300
"""Approximate number of requests over which the share is measured."""

FEWEST = 3
"""Refusals needed to estimate a share: fewer may come from a rate that was cut too little."""

RARE = 3.0
"""Standard deviations above its mean up to which chance explains a number of refusals."""

CHANGED = 2.0
"""Standard deviations from its mean beyond which a number of refusals shows that the share has changed."""


class Chance:
    """Measures the share of random refusals at rates below the limit, and which numbers of refusals it explains.

    Example:
        >>> chance = Chance()
        >>> chance.learn(refused=10, sent=150)
        >>> chance.share, chance.can_explain(refused=11, sent=100), chance.can_explain(refused=12, sent=100)
        (0.05, True, False)
    """

    def __init__(self) -> None:
        self._refused = self._sent = 0.0
        self._suspected = 0, 0

    @property
    def share(self) -> float:
        """Between 0 and `MOST`."""
        return min(self._refused / (self._sent + PRIOR), MOST) if self._refused >= FEWEST else 0.0

    def can_explain(self, refused: int, sent: int) -> bool:
        """Return whether chance can explain this many refusals."""
        expected = self.share * sent
        return refused <= expected + RARE * math.sqrt(expected)

    def learn(self, refused: int, sent: int) -> None:
        """Add refusals below the limit; if they contradict earlier observations, they replace them."""
        self._suspected = 0, 0
        self._add(refused, sent)

    def suspect(self, refused: int, sent: int) -> None:
        """Remember refusals at a rate that was too high, or random ones."""
        self._suspected = self._suspected[0] + refused, self._suspected[1] + sent

    def recall(self, refused: int, sent: int) -> bool:
        """Accept the suspected share if it explains the refusals at a lower rate; returns whether it does."""
        before = self._refused, self._sent
        self._add(*self._suspected)
        if self.share and self.can_explain(refused, sent):
            self._suspected = 0, 0
            return True
        self._refused, self._sent = before
        return False

    def _add(self, refused: int, sent: int) -> None:
        expected = self.share * sent
        tolerated = CHANGED * math.sqrt(expected)
        if not expected - tolerated <= refused <= expected + tolerated + 1:
            self._refused = self._sent = 0.0
        keep = min(1.0, REMEMBERED / (self._sent + 1))
        self._refused, self._sent = keep * self._refused + refused, keep * self._sent + sent
