"""The records of rewards in a run's ledger, unique even after a restart; `autorubric drift` reads them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from autorubric.core.criterion import name_criteria
from autorubric.core.report import AnyCriterionReport, Report
from autorubric.core.rubric import Rubric
from autorubric.errors import warn
from autorubric.files.strict_json import encode_json
from autorubric.graders.demands import Compound, is_compound
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import ENDS_RUN, FailureKind
from autorubric.training.rewards import Reward, RewardFailed, RewardRule, is_gate

if TYPE_CHECKING:
    from autorubric.training.rewarder import Sample

_log = logging.getLogger("autorubric.training")

_MOST_IN_PASS = 65_536
Key: TypeAlias = tuple[str, str, int | None]
"""Identifies a reward to audit or repeat once: digests of group and submission, and the step if it is known."""


class Replays:
    """Counts each rollout once, however often a restarted service or trainer requests it.

    Equal rollouts of one step all count. A restart begins a new *pass*, in which an equal rollout counts only if the
    pass has more of them than every earlier pass. The trainer is taken to have resumed if a known rollout comes again
    after one of a later step.

    Args:
        earlier: the rollouts that earlier sessions counted; each may contain its step.

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
        """Return whether to count this rollout, and remember it."""
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


REWARD, RUBRIC, AUDIT, REPEAT = "reward", "rubric", "second", "repeat"
"""Kinds of observations: a reward, a rubric at its first use, an audit, and a repeated judgment."""

EVALUATION = "evaluation"
"""The kind of a reward that is not used for training."""

UNANSWERED = "unanswered"
"""The kind of the observation with the time since which the audit's judge has not answered."""

QUEUED = "queued"
"""The kind that holds the key of a reward when its audit is queued."""

_MOST_RUBRICS = 4096


@dataclass(frozen=True, slots=True)
class Repeat:
    """A submission that the training judge graded twice, as the ledger keeps it."""

    group: str
    answer: str
    step: int | None
    first: float
    again: float | None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class RewardRecord:
    """A reward as the ledger keeps it."""

    rubric: str  # the digest of the rubric
    group: str  # the digest of query and rubric: rollouts of one query are a group
    answer: str  # the digest of the submission
    characters: int
    reward: float | None
    failure: str | None  # the kind of failure, if the reward is missing
    values: Sequence[float | None]  # of each criterion; None if it was not judged or not assessed
    failed: Sequence[int] = ()  # indices of criteria whose judgment failed
    seconds: float = 0.0  # from the request to the reward
    step: int | None = None  # the training step, if the trainer sends it
    dropped: Sequence[int] = ()  # indices of criteria that were not judged
    version: int | None = None  # the version of a rubric that evolves
    compound: float | None = None  # the share of the points that comes from criteria with several demands

    @property
    def key(self) -> Key:
        """The identity of the submission in the run."""
        return self.group, self.answer, self.step

    @property
    def rollouts(self) -> tuple[str, str, int | None]:
        """The identity of the group that a trainer compares: the rollouts of one query and rubric in one step."""
        return self.rubric, self.group, self.step


def count_rewards(folder: Path) -> Counter[str | None]:
    """Count the rewards in the ledger of a folder by failure; None for rewards that were given."""
    from autorubric.llm.records.ledger_view import ledger_view

    with ledger_view(folder) as view:
        count = view.count_observations(REWARD)
        found = Counter[str | None](record["failure"] for _, record in view.list_observations(REWARD))
    damaged = count - found.total()  # of a run that goes on, the list may be longer
    return found + Counter({"the record of the reward is damaged": damaged})  # without counts below 1


_FIELDS = tuple(spec.name for spec in fields(RewardRecord))


def describe_rubric(rubric: Rubric) -> dict[str, Any]:
    """Return the record of a rubric: its digest, and the name, requirement and weight of each criterion."""
    criteria = [
        {"name": name, "requirement": criterion.requirement, "weight": criterion.weight}
        for name, criterion in zip(name_criteria(list(rubric)), rubric, strict=True)
    ]
    return {"rubric": digest(criteria), "criteria": criteria}


class Observer:
    """Records rewards in a ledger, each once; `graded` is how criteria with several demands were graded."""

    def __init__(self, ledger: Ledger, graded: Compound = "as_is", rule: RewardRule | None = None) -> None:
        self._ledger, self._graded, self._rule = ledger, graded, rule or RewardRule()
        self._noted: set[str] = set()
        self._gates = {note["rubric"]: note.get("gates") for _, note in ledger.list_observations(RUBRIC)}
        self._replays = Replays(
            (row["group"], row["answer"], row.get("step"), row["failure"])
            for kind in (REWARD, EVALUATION)
            for _, row in ledger.list_observations(kind)
        )

    def record_rubric(self, rubric: Rubric) -> str:
        """Return the digest of a rubric; record the rubric at its first use."""
        name = digest_rubric(rubric)
        if name not in self._noted:
            self._noted.add(name)
            several = [index for index, criterion in enumerate(rubric) if is_compound(criterion)]
            named = zip(name_criteria(list(rubric)), rubric, strict=True)
            gates = [name for name, each in named if is_gate(each, name, self._rule)]
            if self._gates.get(name, gates) not in (None, gates):
                warn(
                    f"the gates of a rubric were {self._gates[name]} in an earlier session and are {gates} now: the "
                    "recorded rewards follow two rules; use another run_dir to keep them apart"
                )
            own = {"graded": self._graded, "gates": gates}
            self._ledger.observe(RUBRIC, {**describe_rubric(rubric), "several": several, **own})
        return name

    def record_reward(
        self, sample: Sample, reward: Reward, failed: Sequence[int] = (), seconds: float = 0.0
    ) -> RewardRecord:
        """Return the record of a reward; store it in the ledger unless it was given before a restart.

        Args:
            sample: the rewarded sample.
            reward: the reward.
            failed: the indices of the criteria whose judgment failed.
            seconds: from the request to the reward.
        """
        rubric = self.record_rubric(sample.rubric)
        record = RewardRecord(
            rubric,
            digest_group(sample.query, rubric),
            digest(sample.submission),
            len(sample.submission),
            reward.value if reward.failure is None else None,
            None if reward.failure is None else parse_failure_kind(reward.failure),
            tuple(reward.criteria.values()),
            tuple(failed),
            round(seconds, 4),
            sample.step,
            [index for index, name in enumerate(reward.criteria) if name in reward.dropped] if reward.dropped else (),
            sample.version,
            reward.compound,
        )
        # Not `asdict`, which makes deep copies, because this runs for every reward.
        if self._replays.is_new((record.group, record.answer, record.step, record.failure), record.step):
            kind = REWARD if is_training(sample.split) else EVALUATION
            self._ledger.observe(kind, {name: getattr(record, name) for name in _FIELDS})
        return record


def is_training(split: str | None) -> bool:
    """Return whether rewards of a split are used for training; drift, audits and evolution leave out the others."""
    return not split or split.strip().casefold().startswith("train")


@lru_cache(maxsize=_MOST_RUBRICS)
def digest_rubric(rubric: Rubric) -> str:
    """Return the digest of a rubric in the records of rewards."""
    return str(describe_rubric(rubric)["rubric"])


def digest_group(query: Any, rubric: Rubric | str) -> str:
    """Return the digest of a query and its rubric, which may be given by its digest."""
    return digest([query, rubric if isinstance(rubric, str) else digest_rubric(rubric)])


def find_failed_indices(report: Report, kept: Sequence[int]) -> list[int]:
    """Return the indices of the criteria whose judgment failed; `kept` has the indices of the report's criteria."""
    entries: Sequence[AnyCriterionReport] = report.report or ()
    return [index for index, entry in zip(kept, entries, strict=False) if entry.is_error]


_KINDS = frozenset({*get_args(FailureKind), "check", "unknown"})


def parse_failure_kind(failure: str) -> str:
    """Return the kind of failure in the message of a reward.

    Example:
        >>> parse_failure_kind("criterion 'Tone': timeout: no answer in 60 s")
        'timeout'
    """
    pieces = ["budget" if piece.startswith("budget of ") else piece for piece in failure.split(": ")]
    return next((piece for piece in pieces if piece in _KINDS), "unassessed")


_LASTING = ENDS_RUN - {"stopped"}
"""Kinds of failures that last until someone changes the settings, pays or starts the server."""


class FailureLog:
    """Logs why rewards are missing, at the first, second, fourth, eighth … failure of a kind."""

    def __init__(self, rule: RewardRule) -> None:
        self._gets = {"raise": "an error", "neutral": rule.neutral}.get(rule.on_failure, rule.on_failure)
        self._has_answered = False
        self.counts: Counter[str] = Counter()

    def check(self, rewards: Sequence[Reward]) -> None:
        """Log an error if a call of several samples has no reward.

        Raises:
            RewardFailed: no call has had a reward yet, and the judge cannot give one (wrong key, no such model, no
                credit, no server), so a training would have no signal.
        """
        failures = [reward.failure for reward in rewards if reward.failure is not None]
        self._has_answered |= len(failures) < len(rewards)
        if len(failures) < len(rewards) or not failures:
            return
        lasting = [failure for failure in failures if parse_failure_kind(failure) in _LASTING]
        if not self._has_answered and lasting:
            raise RewardFailed(f"no reward, and the judge cannot give one: {lasting[0]}")
        if len(failures) > 1:
            _log.error("no reward for any of %d samples; the first: %s", len(failures), failures[0])

    def note(self, failure: str) -> None:
        """Count a failure of its kind; log it if the count is a power of two."""
        kind = parse_failure_kind(failure)
        self.counts[kind] += 1
        count = self.counts[kind]
        if count & (count - 1) == 0:
            _log.warning("no reward (%d of this kind so far; the trainer gets %s): %s", count, self._gets, failure)


def digest(value: Any) -> str:
    """Return the digest of a JSON value, as 16 hexadecimal digits."""
    return blake2b(encode_json(value), digest_size=8).hexdigest()
