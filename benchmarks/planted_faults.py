"""How many planted faults the gates reject, and how many good criteria they keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autorubric.synthesis.gates import GateSettings
from benchmarks.planted.corpus import BAD, scenes
from benchmarks.planted.course import Fate, course

RESPONSES, JUDGES = 6, 2
SEEDS = range(100, 120)


def outcomes(seed: int, responses: int = RESPONSES, judges: int = JUDGES, settings: GateSettings | None = None) -> list[Fate]:
    """What becomes of every criterion of the corpus."""
    used = settings or GateSettings()
    return [fate for scene in scenes(seed, responses) for fate in course(scene, seed, judges, used)]


def rates(fates: Iterable[Fate]) -> tuple[float, float]:
    """The share of the bad that is rejected, and of the good that is kept."""
    kept = Counter[bool]()
    total = Counter[bool]()
    for fate in fates:
        total[fate.kind == "good"] += 1
        kept[fate.kind == "good"] += fate.kept
    return 1 - kept[False] / total[False], kept[True] / total[True]


def run() -> None:
    """Print the figures."""
    for responses in (6, 8, 12):
        for judges in (1, 2, 3):
            every = [fate for seed in SEEDS[:5] for fate in outcomes(seed, responses, judges)]
            print(responses, judges, "%.3f %.3f" % rates(every))
            for kind in ("good", *BAD):
                these = [fate for fate in every if fate.kind == kind]
                lost = Counter((f.decision.gate if f.decision.outcome == "rejected" else "kept" if f.kept else "mended") for f in these)
                print("   ", kind, len(these), {k: round(v / len(these), 3) for k, v in lost.most_common()})
