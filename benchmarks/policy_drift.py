"""A simulated policy that learns to exploit a training judge: when an audit finds it, and what dropout changes.

Each rollout is four sentences drawn from the policy: facts, each of which one of six criteria asks for, or a hollow
claim. The reference judge credits facts only. The training judge also credits the hollow claim, on a known number of
criteria. The policy learns by GRPO's group-normalised advantages from rewards that the product gives: both judges are
scripted models behind a `Rewarder`. A share of the rollouts is graded by the reference judge too, and the alarm is a
`ConfidenceSequence` of the gaps whose interval lies above 0. In some rows the rubric evolves: after each step, a
scripted writer proposes criteria that tell the claim from the facts, and others that the gates should reject. Run as
`python -m benchmarks.policy_drift`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
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

CRITERIA, SENTENCES = 6, 4
HOLLOW = CRITERIA
QUERIES, ROLLOUTS = ("Why are there tides?", "Why is the sky blue?"), 8
ERRORS = 0.05
LEARNING_RATE = 0.6
SHARE = 0.25
ALPHA = 0.05
FROM_GAP = 0.05
"""The true gap from which the delay of an alarm counts."""

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


def smooth(values: Sequence[float]) -> Array:
    """Means of ten steps each."""
    return np.convolve(values, np.full(10, 0.1), mode="valid")


@dataclass
class Course:
    """One training: by step, the mean reward, the mean true score and the true gap; alarm, calls, added criteria."""

    rewards: list[float] = field(default_factory=list)
    truths: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    alarm: int | None = None
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
    found = ConfidenceSequence(ALPHA, -1.0, 1.0)
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
            samples = training.evolution.place(samples)
            wait_for(training.evolution.finish(60.0))
        seconds = rewards_now(reference, [samples[index] for index in audited])
        for index, again in zip(audited, seconds, strict=True):
            found.add(float(values[index]) - float(again.value or 0.0))
        if course.alarm is None and found.interval().low > 0:
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


def show(setting: Setting, courses: Sequence[Course]) -> str:
    """A row of the table."""
    late = [max(0, one.alarm - one.begins) for one in courses if one.alarm is not None and one.begins is not None]
    delay = f"{statistics.median(late):.0f}" if late else "–"
    ends = [statistics.fmean(statistics.fmean(getattr(one, name)[-10:]) for one in courses) for name in NAMES]
    peak = statistics.fmean(max(smooth(one.truths)) for one in courses)
    alarms = sum(one.alarm is not None for one in courses)
    calls = statistics.fmean(one.calls for one in courses)
    added = f"+{statistics.fmean(one.added for one in courses) / len(QUERIES):.1f}"
    return (
        f"{setting.exploited} of {CRITERIA}     {setting.dropout:<8} {'yes' if setting.pitfall else 'no':<8}"
        f"{added if setting.evolve else 'no':<7}"
        f"{alarms:>3} of {len(courses):<3}{delay:>7}{ends[0]:>9.2f}{peak:>8.2f}{ends[1]:>8.2f}"
        f"{ends[2]:>8.2f}{calls:>9,.0f}"
    )


NAMES = ("rewards", "truths", "gaps")
SETTINGS = (
    *(Setting(exploited, dropout) for dropout in (0.0, 0.5) for exploited in (0, 1, 2, 3)),
    *(Setting(exploited, pitfall=True) for exploited in (2, 3)),
    *(Setting(exploited, evolve=True) for exploited in (0, 1, 2, 3)),
)


def run(runs: int = 5, steps: int = 80, settings: Sequence[Setting] = SETTINGS) -> None:
    """Print a row for each setting."""
    print("exploit    dropout  pitfall evolve  alarms  delay   reward    true    true     gap    judge")
    print("                                           (steps)  at end    peak  at end  at end    calls")
    for setting in settings:
        print(show(setting, [train(setting, steps, seed) for seed in range(runs)]), flush=True)


def main(
    runs: int = Option(5), steps: int = Option(80), evolve: bool = Option(False, help="Only the rows that evolve.")
) -> None:
    """Simulate policies that exploit a training judge."""
    run(runs, steps, [one for one in SETTINGS if one.evolve or not evolve])


if __name__ == "__main__":
    typer.run(main)
