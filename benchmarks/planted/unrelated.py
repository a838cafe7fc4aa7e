"""How the separation gate treats criteria that are unrelated to the quality of responses."""

from __future__ import annotations

from random import Random

from autorubric.synthesis.candidate import Candidate, Pool, Votes
from autorubric.synthesis.gate_rules import GateContext, GateSettings, check_separation
from benchmarks.planted.corpus import Truth, plainly_better
from benchmarks.planted.judges import ERRORS

_GOOD = 8


def unrelated_rejected(responses: int, judges: int, repetitions: int, seed: int = 300) -> float:
    """The share of unrelated criteria that are rejected, among eight good ones in pools of this size.

    Which responses meet an unrelated criterion is drawn by coin, some and not all.
    """
    random, rejected = Random(seed), 0
    candidates = tuple(Candidate(f"g{number}", "", f"Good {number}", 5) for number in range(_GOOD))
    stranger = Candidate("u", "", "Unrelated", 5, "evolved", 1)
    for _ in range(repetitions):
        quality = [random.gauss(0, 1) for _ in range(responses)]
        votes = {one.id: _judged(plainly_better(quality, random), judges, random) for one in candidates}
        votes["u"] = _judged(_drawn(responses, random), judges, random)
        pool = Pool(("",) * responses, tuple(f"j{number}" for number in range(judges)), votes)
        everyone = (*candidates, stranger)
        (decision,) = check_separation(everyone, GateContext("", everyone, pool), GateSettings())
        # "separating" alone stands there where it was not its direction that it fell by.
        rejected += decision.outcome == "rejected" and "reversed" in decision.figures
    return rejected / repetitions


def _drawn(responses: int, random: Random) -> Truth:
    while True:
        truth = tuple(random.random() < 0.5 for _ in range(responses))
        if 0 < sum(truth) < responses:
            return truth


def _judged(truth: Truth, judges: int, random: Random) -> Votes:
    return tuple(tuple(met != (random.random() < ERRORS[judge]) for met in truth) for judge in range(judges))
