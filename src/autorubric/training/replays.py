"""Tells rewards that are given for the first time from those that are given again after a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

_MOST_IN_PASS = 65_536


class Replays:
    """Counts each rollout once, however often a restarted service or trainer asks for it.

    Rollouts of one step may be equal and count each. A restart begins a new *pass*: an equal rollout counts in it
    only if the pass has more of them than any earlier one. A trainer that resumes shows itself where a rollout that
    is known comes again after a later step.

    Args:
        earlier: the rollouts that earlier sessions have counted; each may hold its step.

    Example:
        >>> replays = Replays(["a", "b"])
        >>> [replays.is_new(rollout, 1) for rollout in ("a", "a", "b", "c")]
        [False, True, False, True]
        >>> [replays.is_new(*rollout) for rollout in (("d", 2), ("c", 1), ("d", 2))]  # step 1 is repeated
        [True, False, False]
    """

    def __init__(self, earlier: Iterable[Hashable] = ()) -> None:
        self._known: set[int] = set()
        self._pass: Counter[int] = Counter()
        self._newest: int | None = None
        for rollout in earlier:
            self._count(hash(rollout))
        self._pass.clear()

    def is_new(self, rollout: Hashable, step: int | None) -> bool:
        """Whether to count this rollout, which is known from now on."""
        name = hash(rollout)
        if step is not None:
            if self._newest is None or step > self._newest:
                self._newest = step
                if len(self._pass) > _MOST_IN_PASS:
                    self._pass.clear()
            elif step < self._newest and hash((name, 1)) in self._known:
                self._newest = step
                self._pass.clear()
        return self._count(name)

    def _count(self, name: int) -> bool:
        self._pass[name] += 1
        known = hash((name, self._pass[name]))
        is_new = known not in self._known
        self._known.add(known)
        return is_new
