"""How many criteria with planted faults the gates reject, and how many good ones they keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autorubric.synthesis.gate_rules import GateSettings
from benchmarks.planted.corpus import BAD, LANGUAGES, Kind, scenes
from benchmarks.planted.course import Fate, course
from benchmarks.planted.judges import Noise
from benchmarks.planted.unrelated import unrelated_rejected
from benchmarks.record import Record

RESPONSES, JUDGES = 6, 3
SEEDS = range(100, 110)
FEW = SEEDS[:3]
"""The seeds of the sweep and of the grid."""

SIZES = ((6, 1, 5), (6, 2, 5), (6, 3, 1), (6, 3, 3), (8, 3, 5), (12, 3, 5))

SWEEP: dict[str, Noise] = {
    "relevance 6 %": Noise(),
    "relevance 0 %": Noise(relevance=0),
    "relevance 3 %": Noise(relevance=0.03),
    "relevance 12 %": Noise(relevance=0.12),
    "relevance 20 %": Noise(relevance=0.2),
    "relevance 50 % (knows nothing)": Noise(relevance=0.5),
    "relevance by words of the query": Noise(words=True),
    "relevance 6 %, 35 % shared": Noise(shared=0.35, across=True),
    "relevance 6 %, 70 % shared": Noise(shared=0.7, across=True),
    "relevance 6 %, 70 % shared within models": Noise(shared=0.7),
    "relevance 12 %, 70 % shared": Noise(relevance=0.12, shared=0.7, across=True),
    "relevance 20 %, 70 % shared": Noise(relevance=0.2, shared=0.7, across=True),
    "verdicts 13 %": Noise(verdicts=2),
    "verdicts 70 % shared": Noise(verdicts_shared=0.7),
    "verdicts 13 %, 70 % shared": Noise(verdicts=2, verdicts_shared=0.7),
    "both 70 % shared": Noise(shared=0.7, across=True, verdicts_shared=0.7),
}
"""How the scripted models err; see `Noise`."""

STATED = {"relevance 6 %": 0.06, "relevance 12 %, 70 % shared": 0.12, "relevance 20 %, 70 % shared": 0.2}
"""Rows that are repeated with `least_error` set to the error rate, as measured on labels."""

FIGURES = {
    "shared": "both 70 % shared",
    "error_12": "relevance 12 %, 70 % shared",
    "error_20": "relevance 20 %, 70 % shared",
    "stated_6": "relevance 6 %, `least_error: 0.06`",
    "stated_12": "relevance 12 %, 70 % shared, `least_error: 0.12`",
    "stated_20": "relevance 20 %, 70 % shared, `least_error: 0.2`",
}
"""Rows of the sweep whose shares the guide states."""

SHARES = (
    *("bad rejected", "good kept", "bad undecided", "good undecided"),
    *("bad rejected, of the decided", "good kept, of the decided"),
)
KINDS: tuple[Kind, ...] = ("good", *BAD)

HELD = ("relevance 6 %, 70 % shared", "verdicts 70 % shared", "both 70 % shared")
LEAST = 0.9
"""The claim: of what is decided, the bad rejected and the good kept in the rows of `HELD` and `STATED`."""
KNOWN = FIGURES["stated_20"]
"""The row in which the claim is missed, as the guide says."""


def outcomes(
    seed: int,
    responses: int = RESPONSES,
    judges: int = JUDGES,
    settings: GateSettings | None = None,
    noise: Noise | None = None,
    *,
    selected: bool = False,
) -> list[Fate]:
    """The result of every criterion of the corpus."""
    used = settings or GateSettings()
    found = (course(scene, seed, judges, used, noise) for scene in scenes(seed, responses, selected=selected))
    return [fate for fates in found for fate in fates]


def rejected(fates: Iterable[Fate]) -> float:
    """The share of criteria that are not in the finished rubrics."""
    kept = [fate.kept for fate in fates]
    return 1 - sum(kept) / len(kept)


def of_kind(fates: Iterable[Fate], *kinds: Kind) -> list[Fate]:
    """The criteria of these kinds."""
    return [fate for fate in fates if fate.kind in kinds]


def decided(fates: Iterable[Fate]) -> list[Fate]:
    """The criteria that no gate left undecided."""
    return [fate for fate in fates if fate.decided]


def gates_of(fates: Sequence[Fate]) -> str:
    """Which gates rejected these criteria, as shares; `fixed` where a rewrite took the fault away."""
    ended = Counter(_end(fate) for fate in fates if not fate.kept)
    return ", ".join(f"{gate} {count / len(fates):.1%}" for gate, count in ended.most_common())


def _end(fate: Fate) -> str:
    if fate.decision and fate.decision.outcome == "rejected":
        return fate.decision.gate
    return "fixed" if fate.kind == "ambiguous" else "the other one"


def run() -> Record:
    """The default settings by fault and gate, then the sweeps; fails where `LEAST` is missed. Floor: no gate."""
    every = [fate for seed in SEEDS for fate in outcomes(seed)]
    record = Record(
        f"{RESPONSES} responses, {JUDGES} judges, {GateSettings().licence_draws} relevance draws; "
        f"{len(every) // len(SEEDS)} criteria, {len(SEEDS)} seeds, sweeps {len(FEW)}; scripted models; floor: no gate"
    )
    record.table("faults", ("fault", "planted", "rejected", "undecided", "by"), [_fault_row(every, k) for k in KINDS])
    bad, good = shares(every)
    record.figure("bad_rejected", f"{bad:.1%}")
    record.figure("good_kept", f"{good:.1%}")
    for language in LANGUAGES:
        for name, share in zip(
            ("bad_rejected", "good_kept"), shares([fate for fate in every if fate.language == language]), strict=True
        ):
            record.figure(f"{name}_{language}", f"{share:.1%}")
    record.limit("bad rejected", bad, least=LEAST)
    record.limit("good kept", good, least=LEAST)
    _sweep(record)
    rows = []
    for responses, judges, draws in SIZES:
        fates = _few(responses, judges, GateSettings(licence_draws=draws))
        name = f"{responses} × {judges} × {draws}"
        rows.append((name, *_cells(fates), f"{unrelated_rejected(responses, judges, 1000):.1%}"))
    record.table("sizes", ("responses × judges × relevance draws", *SHARES, "unrelated rejected"), rows)
    return record


def _fault_row(every: Sequence[Fate], kind: Kind) -> tuple[str, ...]:
    mine = of_kind(every, kind)
    unsure = 1 - len(decided(mine)) / len(mine)
    return kind, f"{len(mine):,}", f"{rejected(mine):.1%}", f"{unsure:.1%}", gates_of(mine)


def _sweep(record: Record) -> None:
    """The effect of the scripted models' errors, in a table with the floor first."""
    found = {"no gate at all": _few(settings=GateSettings(order=()))}
    found["good criteria drawn until they separate"] = _few(selected=True)
    found |= {name: _few(noise=noise) for name, noise in SWEEP.items()}
    for name, least in STATED.items():
        found[f"{name}, `least_error: {least}`"] = _few(noise=SWEEP[name], settings=GateSettings(least_error=least))
    for name in HELD:
        found[f"{name}, counted as independent"] = _few(noise=SWEEP[name], settings=GateSettings(least_error=0))
    record.table("sweep", ("conditions", *SHARES), [(name, *_cells(fates)) for name, fates in found.items()])
    for name in (*HELD, FIGURES["stated_12"], KNOWN):
        for what, share in zip(("bad rejected", "good kept"), shares(decided(found[name])), strict=True):
            record.limit(f"{name}: {what}, of the decided", share, least=LEAST, known=name == KNOWN)
    record.figure("known", "; ".join(record.known) or "none")
    for key, name in FIGURES.items():
        bad_rejected, good_kept, bad_left, good_left, bad_right, good_right = _cells(found[name])
        record.figure(f"{key}_bad_rejected", bad_rejected)
        record.figure(f"{key}_good_kept", good_kept)
        record.figure(f"{key}_bad_right", bad_right)
        record.figure(f"{key}_good_right", good_right)
        record.figure(f"{key}_bad_undecided", bad_left)
        record.figure(f"{key}_good_undecided", good_left)


def _few(
    responses: int = RESPONSES,
    judges: int = JUDGES,
    settings: GateSettings | None = None,
    noise: Noise | None = None,
    *,
    selected: bool = False,
) -> list[Fate]:
    return [fate for seed in FEW for fate in outcomes(seed, responses, judges, settings, noise, selected=selected)]


def shares(fates: Sequence[Fate]) -> tuple[float, float]:
    """The shares of the bad that are rejected and of the good that are kept."""
    return rejected(of_kind(fates, *BAD)), 1 - rejected(of_kind(fates, "good"))


def _cells(fates: Sequence[Fate]) -> tuple[str, ...]:
    """The cells of `SHARES`."""
    sure = decided(fates)
    left = [1 - len(of_kind(sure, *kinds)) / len(of_kind(fates, *kinds)) for kinds in (BAD, ("good",))]
    return tuple(f"{share:.1%}" for share in (*shares(fates), *left, *shares(sure)))


if __name__ == "__main__":
    run()
