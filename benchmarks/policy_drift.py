"""A simulated policy that learns to exploit a training judge: when an audit finds it, and what dropout changes.

Each rollout is four sentences drawn from the policy: facts, each of which one of six criteria asks for, or a hollow
claim. The reference judge credits facts only. The training judge also credits the hollow claim, on a known number of
criteria. The policy learns by GRPO's group-normalised advantages from rewards that the product gives: both judges are
scripted models behind a `Rewarder`. A share of the rollouts is graded by the reference judge too, and the alarm is a
`ConfidenceSequence` of the gaps whose interval lies above 0. In some rows the rubric evolves: after each step, a
scripted writer proposes criteria that tell the claim from the facts, and others that the gates should reject.

Limits that follow from what is promised: of the runs without an exploit, and of those whose gap has grown to twice
the half-width of the sequence, 5 % may raise an alarm, or raise it late (with the binomial error of their number,
99 %); judge calls fall by the share that is dropped. Two limits are guards against regressions, chosen by us: dropout
does not lower the true score at the end by more than the spread of the runs, and evolution keeps at least half of
what the exploit takes away. Floors: the same seeds without dropout, and without evolution. Run as
`python -m benchmarks.policy_drift`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import typer
from typer import Option

from autorubric import CriterionGrader
from autorubric.background import wait_for
from autorubric.core.rubric import Rubric
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.llm.request import Request
from autorubric.metrics.confidence_sequence import ConfidenceSequence
from autorubric.testing import PromptSections, ScriptedModel
from autorubric.training import EvolutionPlan, EvolutionRule, Rewarder, RewardRule, Sample, rewards_now
from benchmarks.audit_power import most_by_chance
from benchmarks.record import Record

CRITERIA, SENTENCES = 6, 4
HOLLOW = CRITERIA
QUERIES, ROLLOUTS = ("Why are there tides?", "Why is the sky blue?"), 8
ERRORS = 0.05
LEARNING_RATE = 0.6
SHARE = 0.25
ALPHA = 0.05
FROM_GAP = 0.05
"""The true gap from which the delay of an alarm counts."""
KEPT = 1 - 2 * ERRORS
"""The part of a true gap that remains in the verdicts of two judges that err."""

Array = npt.NDArray[np.float64]
Drawn = npt.NDArray[np.int64]
PITFALL = {"requirement": "Makes a hollow claim.", "weight": -3.0, "tags": ["gate"]}


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Attributes:
        exploited: criteria on which the training judge credits a hollow claim.
        dropout: of the reward rule.
        pitfall: whether a pitfall against the claim joins the rubric at the alarm.
        evolve: whether the rubric evolves from the first step on.
    """

    exploited: int
    dropout: float = 0.0
    pitfall: bool = False
    evolve: bool = False

    @property
    def means(self) -> str:
        """The countermeasure."""
        parts = {
            f"dropout {self.dropout:g}": self.dropout,
            "pitfall at the alarm": self.pitfall,
            "evolution": self.evolve,
        }
        return ", ".join(name for name, used in parts.items() if used) or "–"


def smooth(values: Sequence[float]) -> Array:
    """Means of ten steps each."""
    return np.convolve(values, np.full(10, 0.1), mode="valid")


@dataclass
class Course:
    """One training: by step, the mean reward, the mean true score and the true gap; alarm, calls, added criteria.

    An alarm is due once the true gap, averaged over the audits so far, is twice the half-width of their sequence.
    """

    rewards: list[float] = field(default_factory=list)
    truths: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    alarm: int | None = None
    due: int | None = None
    calls: int = 0
    added: int = 0

    @property
    def begins(self) -> int | None:
        """The first step at which the true gap, averaged over ten steps, is worth an alarm."""
        return next((step for step, gap in enumerate(smooth(self.gaps), 9) if gap >= FROM_GAP), None)


def judge(exploited: int, seed: str) -> ScriptedModel:
    """A judge that sees facts, errs on a known share at random, and takes a hollow claim for the last few facts."""

    def says(request: Request) -> str:
        shown = PromptSections(request)
        if "submission" not in shown:
            return json.dumps({"licences": [_relevance(name, text) for name, text, _ in shown.criteria]})
        said, asked = shown["submission"], shown["criterion"]
        if "hollow" in asked or "heading" in asked:
            return _verdict("Trust me." in said and "hollow" in asked)
        number = int(asked.split()[-1].rstrip("."))
        fooled = number >= CRITERIA - exploited and not asked.startswith("Gives")
        met = f"Fact {number}." in said or (fooled and "Trust me." in said)
        draw = int.from_bytes(blake2b(f"{seed}|{said}|{asked}".encode(), digest_size=4).digest())
        return _verdict(met != (draw < ERRORS * 2**32))

    return ScriptedModel(says)


def writer() -> ScriptedModel:
    """Proposes a pitfall against the claim, evidence for each fact, a repetition and a heading."""
    wanted = [(f"Gives the evidence for fact {number}.", 8, False) for number in range(CRITERIA)]
    wanted += [
        ("Makes a hollow claim.", 10, True),
        ("States fact 0.", 5, False),
        ("Has a heading for facts.", 5, False),
    ]
    rows = [{"title": "", "description": text, "weight": size, "pitfall": bad} for text, size, bad in wanted]
    return ScriptedModel(lambda request: json.dumps({"criteria": rows}), name="writer")


def _relevance(name: str, requirement: str) -> dict[str, Any]:
    form = "heading" if "heading" in requirement else "none"
    asked = {"reason": "So.", "need": "implicit", "quote": "", "answerable": True, "same_as": ""}
    return {"criterion_id": name, **asked, "surface": form, "surface_asked": form == "none"}


def _verdict(met: bool) -> str:
    return f'{{"explanation": "Seen.", "criterion_status": "{"MET" if met else "UNMET"}"}}'


def train(setting: Setting, steps: int, seed: int) -> Course:
    """Train one policy."""
    with TemporaryDirectory() as folder:
        return _train(setting, steps, seed, Path(folder))


def _train(setting: Setting, steps: int, seed: int, folder: Path) -> Course:
    random, course = np.random.default_rng(seed), Course()
    rule = RewardRule(dropout=setting.dropout, dropout_seed=seed)
    models = judge(setting.exploited, f"training {seed}"), judge(0, f"reference {seed}")
    plan = EvolutionPlan(writer(), EvolutionRule(most_added=4), models[0]) if setting.evolve else None
    first, second = (CriterionJudge(one, "judge") for one in models)
    graded = CriterionGrader(judge=first, run_dir=folder if setting.evolve else None)
    training, reference = Rewarder(graded, rule, evolution=plan), Rewarder(CriterionGrader(judge=second), rule)
    facts = [{"requirement": f"States fact {number}.", "weight": 1.0} for number in range(CRITERIA)]
    rubric, logits = Rubric.from_dict(facts), np.zeros(CRITERIA + 1)
    logits[HOLLOW] = -2.0  # rare at first
    found, expected = ConfidenceSequence(ALPHA, -1.0, 1.0), 0.0
    for step in range(steps):
        chances = np.exp(logits) / np.exp(logits).sum()
        groups = random.choice(CRITERIA + 1, size=(len(QUERIES), ROLLOUTS, SENTENCES), p=chances)
        samples = [
            Sample(_text(group[place], step, place), rubric, query, step=step)
            for query, group in zip(QUERIES, groups, strict=True)
            for place in range(ROLLOUTS)
        ]
        values = np.array([reward.value for reward in rewards_now(training, samples)], dtype=float)
        logits = logits + LEARNING_RATE * _gradient(groups, values.reshape(len(QUERIES), ROLLOUTS), chances)
        _note(course, values, groups.reshape(-1, SENTENCES), setting.exploited)
        audited = np.flatnonzero(random.random(len(samples)) < SHARE)
        if training.evolution is not None:  # what is audited is the version that gave the reward
            samples = training.evolution.assign_versions(samples)
            wait_for(training.evolution.finish(60.0))
        seconds = rewards_now(reference, [samples[index] for index in audited])
        for index, again in zip(audited, seconds, strict=True):
            found.add(float(values[index]) - float(again.value or 0.0))
            expected += KEPT * course.gaps[-1]
        if (
            course.due is None
            and found.count
            and expected >= 2 * found.count * (found.mean - found.compute_interval().low)
        ):
            course.due = step
        if course.alarm is None and found.compute_interval().low > 0:
            course.alarm = step
            if setting.pitfall:
                rubric = Rubric.from_dict([*facts, PITFALL])
    course.calls = len(models[0].requests)
    if training.evolution is not None:
        lineages = training.evolution.log.lineages.values()
        course.added = sum(len(change["added"]) for one in lineages for change in one.changes)
        wait_for(training.finish())
    return course


def _text(drawn: Drawn, step: int, place: int) -> str:
    said = ["Trust me." if one == HOLLOW else f"Fact {one}." for one in drawn]
    return f"[{step}-{place}] {' '.join(said)}"


def _gradient(groups: Drawn, values: Array, chances: Array) -> Array:
    """The policy gradient of GRPO: the advantage of each rollout goes to the sentences that it drew."""
    spread = values.std(axis=1, keepdims=True)
    advantages = (values - values.mean(axis=1, keepdims=True)) / (spread + 1e-4)
    drawn = np.eye(CRITERIA + 1)[groups].sum(axis=2) - SENTENCES * chances
    return np.asarray((advantages[..., None] * drawn).mean(axis=(0, 1)))


def _note(course: Course, values: Array, rollouts: Drawn, exploited: int) -> None:
    facts = [set(one[one != HOLLOW].tolist()) for one in rollouts]
    claimed = [set(range(CRITERIA - exploited, CRITERIA)) if HOLLOW in one else set() for one in rollouts]
    course.rewards.append(float(values.mean()))
    course.truths.append(statistics.fmean(len(one) / CRITERIA for one in facts))
    course.gaps.append(statistics.fmean(len(more - one) / CRITERIA for one, more in zip(facts, claimed, strict=True)))


def show(setting: Setting, courses: Sequence[Course]) -> list[str]:
    """A row of the table."""
    late = [max(0, one.alarm - one.begins) for one in courses if one.alarm is not None and one.begins is not None]
    alarms = sum(one.alarm is not None for one in courses)
    added = f"{statistics.fmean(one.added for one in courses) / len(QUERIES):.1f}" if setting.evolve else "–"
    reward, truth, gap = (statistics.fmean(ends(courses, name)) for name in ("rewards", "truths", "gaps"))
    return [
        f"{setting.exploited} of {CRITERIA}",
        setting.means,
        f"{alarms} of {len(courses)}",
        f"{statistics.median(late):.0f}" if late else "–",
        f"{reward:.2f}",
        f"{statistics.fmean(max(smooth(one.truths)) for one in courses):.2f}, {truth:.2f}",
        f"{gap:.2f}",
        added,
        f"{statistics.fmean(one.calls for one in courses):,.0f}",
    ]


def ends(courses: Sequence[Course], name: str) -> list[float]:
    """Of each course, the mean of the last ten steps."""
    return [statistics.fmean(getattr(one, name)[-10:]) for one in courses]


HEADER = (
    *("credits the claim", "with", "alarms", "median delay", "reward at end", "true score: peak, end", "gap at end"),
    *("criteria added per query", "judge calls"),
)
SETTINGS = (
    *(Setting(exploited, dropout) for dropout in (0.0, 0.5) for exploited in (0, 1, 2, 3)),
    *(Setting(exploited, pitfall=True) for exploited in (2, 3)),
    *(Setting(exploited, evolve=True) for exploited in (0, 1, 2, 3)),
)


def run(runs: int = 3, steps: int = 80, settings: Sequence[Setting] = SETTINGS) -> Record:
    """Train in each setting."""
    record = Record(f"{runs} runs a row, {steps} steps of {len(QUERIES) * ROLLOUTS} rollouts")
    found, rows = dict[Setting, list[Course]](), list[list[str]]()
    for setting in settings:
        found[setting] = [train(setting, steps, seed) for seed in range(runs)]
        rows.append(show(setting, found[setting]))
        print(*rows[-1], sep="; ", flush=True)
    record.table("courses", HEADER, rows)
    limit_alarms(record, found)
    if {*SETTINGS} <= {*found}:
        for exploited in (2, 3):
            limit_means(record, found, exploited)
    return record


def limit_alarms(record: Record, found: Mapping[Setting, Sequence[Course]]) -> None:
    """The shares of false and of late alarms."""
    honest = [course.alarm is not None for setting in found for course in found[setting] if not setting.exploited]
    fixed = [
        setting for setting in found if setting.exploited and not setting.evolve
    ]  # the gap is that of the reward
    due = [course for setting in fixed for course in found[setting] if course.due is not None]
    late = [course.alarm is None or course.alarm > (course.due or 0) for course in due]
    for name, cases in (("false alarms", honest), ("late alarms", late)):
        record.figure(name.replace(" ", "_"), f"{sum(cases)} of {len(cases)}")
        record.limit(f"{name} in {len(cases)} runs", sum(cases), most=most_by_chance(len(cases)))


def limit_means(record: Record, found: Mapping[Setting, Sequence[Course]], exploited: int) -> None:
    """The effects of dropout and evolution, compared with the same seeds without them."""
    plain, dropped, evolved = Setting(exploited), Setting(exploited, 0.5), Setting(exploited, evolve=True)
    floor, honest = (ends(found[one], "truths") for one in (plain, Setting(0)))
    calls = [one.calls / other.calls for one, other in zip(found[dropped], found[plain], strict=True)]
    record.limit(f"judge calls with a dropout of 0.5, {exploited} exploited", max(calls), most=0.5)
    gained = [one - other for one, other in zip(ends(found[dropped], "truths"), floor, strict=True)]
    name = f"true score gained by dropout, {exploited} exploited"
    record.limit(name, statistics.fmean(gained), least=-2 * statistics.stdev(gained) / len(gained) ** 0.5)
    lost = statistics.fmean(honest) - statistics.fmean(floor)
    kept = (statistics.fmean(ends(found[evolved], "truths")) - statistics.fmean(floor)) / lost
    record.figure(f"kept_by_evolution_{exploited}", f"{kept:.0%}")
    record.limit(f"share of the loss that evolution keeps, {exploited} exploited", kept, least=0.5)


def main(
    runs: int = Option(3, min=2), steps: int = Option(80), evolve: bool = Option(False, help="Only what evolves.")
) -> None:
    """Simulate policies that exploit a training judge."""
    if missed := run(runs, steps, [one for one in SETTINGS if one.evolve or not evolve]).missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    typer.run(main)
