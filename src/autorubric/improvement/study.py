"""The whole improvement: baseline, search, the test set opened once, and the decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autorubric.improvement.acceptance import AcceptanceDecision, Pairs, compute_interval, decide_all, pool
from autorubric.improvement.changed_wording import Outcomes, Wording, WordingOutcome, build_original
from autorubric.improvement.labelled import LabelledRubric
from autorubric.improvement.measures import Comparator, Measure, fit_weights
from autorubric.improvement.refusals import LeakGuard, find_unlabelled_problem
from autorubric.improvement.samples import SampleSplit, UseKind
from autorubric.improvement.search import Note, Search, SearchResult, SearchRules, WordingJudge, WordingWriter
from autorubric.improvement.writing import Stopped
from autorubric.metrics.arrays import Floats
from autorubric.metrics.table import FAILED

WEIGHTS = "weights"
"""The name of the fitted weights among the candidates that are tested."""
_PASSING = frozenset(("rate_limit", "server", "network", "timeout"))
_LEFT_FOR_OTHERS = "others have a proposal or more disagreement"


@dataclass(frozen=True)
class Aims:
    """The aims of an improvement.

    Attributes:
        measure: the measure to improve.
        confidence: the family-wise confidence level of all candidates.
        places: the criteria to improve; None takes those with the most disagreement.
        most: the maximum number of criteria to improve.
        weights: whether weights are fitted.
        seed: the seed of the permutation test and of folds.
    """

    measure: Measure = "agreement"
    confidence: float = 0.95
    places: tuple[int, ...] | None = None
    most: int = 3
    weights: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Finalists:
    """The finalists of the test, fixed before it is opened.

    Attributes:
        wordings: at most one for each criterion.
        weights: the fitted weights; None if not requested, or if nothing changed.
    """

    wordings: tuple[Wording, ...] = ()
    weights: tuple[float, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"wordings": [wording.to_dict() for wording in self.wordings], "weights": self.weights}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Finalists:
        """Return the finalists of JSON values."""
        weights = record.get("weights")
        found = tuple(Wording.from_dict(wording) for wording in record["wordings"])
        return cls(found, None if weights is None else tuple(weights))


class UseRecorder:
    """Records the use of items before judges see them; this one records nothing."""

    def read_finalists(self) -> Finalists | None:
        """Return the finalists of an earlier session that opened the test set; they are final."""
        return None

    def record(self, use: UseKind, items: Sequence[int], finalists: Finalists | None = None) -> None:
        """Record durably that items are about to be used, and the finalists; a nested split has none yet."""


@dataclass
class Improvement:
    """The result of an improvement.

    Attributes:
        searched: the search result for each criterion.
        noise: the share of verdicts that changed when the original was graded twice, by criterion.
        retest: the difference between the two gradings of the original and its interval, by criterion.
        agreement: the measure of the original on the teaching set, by criterion.
        finalists: the tested candidates.
        decisions: the decision on each candidate.
        second: the gain of each candidate under the second judge.
        skipped: criteria that were not improved, with the reason.
        failed: the number of failed judgments of each candidate on the test items; they count as wrong.
    """

    searched: list[SearchResult] = field(default_factory=list)
    noise: dict[str, float] = field(default_factory=dict)
    retest: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    agreement: dict[str, float] = field(default_factory=dict)
    finalists: Finalists = field(default_factory=Finalists)
    decisions: dict[str, AcceptanceDecision] = field(default_factory=dict)
    second: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)

    @property
    def accepted(self) -> list[Wording]:
        """The wordings that replace the original."""
        return [wording for wording in self.finalists.wordings if self.decisions[wording.name].accepted]


@dataclass
class Study:
    """An improvement in progress.

    Attributes:
        labelled: rubric and labels.
        split: who teaches, chooses and tests.
        judging: asks the judges.
        writing: writes candidates; None for proposals alone.
        guard: what candidates may not contain.
        aims: what counts.
        rules: how many candidates, how long.
        second: a second judge, only for the test set.
        proposals: candidates from elsewhere.
        uses: records that the test set was opened.
        note: collects events of the log.
    """

    labelled: LabelledRubric
    split: SampleSplit
    judging: WordingJudge
    writing: WordingWriter | None
    guard: LeakGuard
    aims: Aims = field(default_factory=Aims)
    rules: SearchRules = field(default_factory=SearchRules)
    second: WordingJudge | None = None
    proposals: Sequence[Wording] = ()
    uses: UseRecorder = field(default_factory=UseRecorder)
    note: Note = lambda kind, **values: None
    _outcomes: dict[int, dict[int, WordingOutcome]] = field(default_factory=dict)
    _new: dict[str, Outcomes] = field(default_factory=dict)

    async def run(self) -> Improvement:
        """Find candidates, test them once, and decide."""
        found = Improvement()
        places = await self._grade_baseline(found)
        await self._measure_noise(found, places)
        await self._search(found, places)
        opened = self.uses.read_finalists()
        if opened is not None and not self.split.is_nested:
            found.finalists = opened
        if not self.split.is_nested and (found.finalists.wordings or found.finalists.weights):
            self.uses.record("test", self.split.test, found.finalists)
        await self._test(found)
        return found

    async def _grade_baseline(self, found: Improvement) -> list[int]:
        """Grade the original on the items that teach and choose, and choose the criteria to work on.

        Items count as used only after the grading, so a wrong key or address uses none.
        """
        learning = [*self.split.teach, *self.split.choose]
        wanted = range(len(self.labelled.rubric)) if self.aims.places is None else self.aims.places
        usable = []
        for place in wanted:
            name = self.labelled.names[place]
            if self.labelled.has_labels and self.labelled.is_constant(place):
                found.skipped[name] = "its labels are constant"
            else:
                usable.append(place)
        await self._grade(usable, learning)
        ranked, proposed = [], {wording.place for wording in self.proposals}
        comparing = self._make_comparator()
        for place in usable:
            pairs = comparing.compare_wordings(place, self._outcomes[place], self._outcomes[place], self.split.teach)
            found.agreement[self.labelled.names[place]] = pairs.after
            ranked.append((place not in proposed, pairs.after, place))
        chosen = [place for _, _, place in sorted(ranked)]
        if self.aims.places is None:
            for place in chosen[self.aims.most :]:
                found.skipped[self.labelled.names[place]] = _LEFT_FOR_OTHERS
            chosen = chosen[: self.aims.most]
        self.uses.record("learn", learning)
        return chosen

    async def _grade(self, places: Sequence[int], items: Sequence[int]) -> None:
        """Grade the original on these criteria; on all of them, and on every item, where scores are needed."""
        whole = self.aims.weights or self.aims.measure == "score_error"

        async def grade_one(place: int) -> None:
            known = self._outcomes.setdefault(place, {})
            wanted = items if whole else self.labelled.select_known(place, items)
            missing = [item for item in wanted if item not in known]
            known |= await self.judging.judge(build_original(self.labelled.rubric, place), missing)

        async with asyncio.TaskGroup() as group:
            for place in range(len(self.labelled.rubric)) if whole else places:
                group.create_task(grade_one(place))

    async def _measure_noise(self, found: Improvement, places: Sequence[int]) -> None:
        """Grade the original again; in a nested split this opens the test items."""
        items = self.split.choose or self.split.test
        if self.split.is_nested:
            self.uses.record("test", items)
            await self._grade(places, items)
        comparing = self._make_comparator()
        for place in places:
            name, first = self.labelled.names[place], self._outcomes[place]
            known = self.labelled.select_known(place, items)
            again = await self.judging.judge(build_original(self.labelled.rubric, place), known, retest=True)
            both = [item for item in items if item in first and item in again]
            changed = sum(first[item].code != again[item].code for item in both)
            found.noise[name] = changed / len(both) if both else float("nan")
            pairs = comparing.compare_wordings(place, first, again, both)
            interval = compute_interval(pairs, self.aims.confidence)
            if interval is not None:
                found.retest[name] = pairs.difference, interval.low, interval.high

    def _make_comparator(self) -> Comparator:
        base = np.full(self.labelled.truth.shape, np.nan)
        for place, outcomes in self._outcomes.items():
            for item, outcome in outcomes.items():
                if outcome.value is not None:
                    base[item, place] = outcome.value
        return Comparator(self.labelled, self.aims.measure, base)

    async def _search(self, found: Improvement, places: Sequence[int]) -> None:
        comparing = self._make_comparator()
        search = Search(comparing, self.judging, self.writing, self.split, self.guard, self.rules, self.note)
        given = {place: [wording for wording in self.proposals if wording.place == place] for place in places}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(search.run(place, self._outcomes[place], given[place])) for place in places]
        found.searched = [task.result() for task in tasks]
        self._skip_unwritten(found)
        wordings = tuple(searched.finalist for searched in found.searched if searched.finalist is not None)
        found.finalists = Finalists(wordings, self._fit_weights())

    def _skip_unwritten(self, found: Improvement) -> None:
        """Leave criteria alone for which the writer proposes nothing.

        Raises:
            Stopped: the next session may get alternatives: the endpoint failed, or the writer proposed none at all.
        """
        is_empty = not any(searched.tried for searched in found.searched)
        for searched in found.searched:
            failure = searched.unwritten
            if failure is not None and (is_empty or failure.kind in _PASSING):
                advice = "the same command tries again" + ", or pass another --writer (Python: writer=)" * is_empty
                raise Stopped(replace(failure, message=f"{failure.message}, so nothing was decided; {advice}"))
            if failure is not None and not searched.tried:
                found.skipped[self.labelled.names[searched.place]] = failure.message

    def _fit_weights(self, items: Sequence[int] | None = None) -> tuple[float, ...] | None:
        """Return the weights fitted on the choosing set, or on these items; None if none differs."""
        if not self.aims.weights:
            return None
        rows = list(items if items is not None else (self.split.choose or self.split.test))
        old, comparing = self.labelled.weights, self._make_comparator()
        values, target = comparing.base[rows], self.labelled.target[rows]
        new = fit_weights(values, target, old, self.labelled.groups[rows], self.aims.seed)
        return None if np.array_equal(new, old) else tuple(new.tolist())

    async def _test(self, found: Improvement) -> None:
        tested: dict[str, Pairs] = {}
        unstable = set[str]()
        for searched in found.searched:
            if (nested := searched.nested) is not None:
                tested[nested.winner], self._new[nested.winner] = nested.pairs, searched.outcomes
                unstable |= set() if nested.is_stable else {nested.winner}
        if not self.split.is_nested:
            tested = await self._test_finalists(found.finalists)
        if found.finalists.weights is not None:
            tested[WEIGHTS] = await self._test_weights(found.finalists.weights)
        found.decisions = decide_all(tested, compute_test_confidence(self.aims, self.split), self.aims.seed)
        on_test = set(self.split.test)
        for name, outcomes in self._new.items():
            found.failed[name] = sum(outcome.code == FAILED for item, outcome in outcomes.items() if item in on_test)
        for name in unstable:
            _overrule(found.decisions, name, "another candidate won in most folds of the nested split")
        if not self.labelled.has_labels:
            self._overrule_changed_meaning(found)
        await self._ask_second_judge(found)

    def _overrule_changed_meaning(self, found: Improvement) -> None:
        for wording in found.accepted:
            old = {item: self._outcomes[wording.place][item] for item in self.split.test}
            if problem := find_unlabelled_problem(self.labelled.rubric, wording, old, self._new[wording.name]):
                _overrule(found.decisions, wording.name, problem)

    async def _test_finalists(self, finalists: Finalists) -> dict[str, Pairs]:
        await self._grade([wording.place for wording in finalists.wordings], self.split.test)
        comparing, found = self._make_comparator(), dict[str, Pairs]()
        for wording in finalists.wordings:
            known = self.labelled.select_known(wording.place, self.split.test)
            new = self._new[wording.name] = await self.judging.judge(wording, known)
            found[wording.name] = comparing.compare_wordings(
                wording.place, self._outcomes[wording.place], new, self.split.test
            )
        return found

    async def _test_weights(self, weights: Sequence[float]) -> Pairs:
        await self._grade(range(len(self.labelled.rubric)), self.split.test)
        comparing = self._make_comparator()
        if not self.split.is_nested:
            return comparing.compare_weights(np.array(weights), self.split.test)
        parts = []
        for fold in self.split.folds:
            left_out = set(fold)
            fitted = self._fit_weights([item for item in self.split.test if item not in left_out])
            own: Floats = self.labelled.weights if fitted is None else np.array(fitted)
            parts.append(comparing.compare_weights(own, fold))
        return pool([part for part in parts if len(part)])

    async def _ask_second_judge(self, found: Improvement) -> None:
        """Let the second judge grade what would be accepted; it must not agree less with the labels."""
        if self.second is None:
            return
        comparing = self._make_comparator()
        for wording in found.accepted:
            known = self.labelled.select_known(wording.place, self.split.test)
            old: Outcomes = await self.second.judge(build_original(self.labelled.rubric, wording.place), known)
            new = await self.second.judge(wording, known)
            gain = comparing.compare_wordings(wording.place, old, new, known).difference
            found.second[wording.name] = gain
            if not gain >= 0.0:
                _overrule(found.decisions, wording.name, f"the second judge agrees less: {gain:+.3f}")


def compute_test_confidence(aims: Aims, split: SampleSplit) -> float:
    """Return the confidence of the test; a nested split has half the error rate, because its folds share data.

    Example:
        >>> [compute_test_confidence(Aims(), SampleSplit((), (), (), folds)) for folds in (((),), ())]
        [0.975, 0.95]
    """
    return 1.0 - (1.0 - aims.confidence) / 2.0 if split.is_nested else aims.confidence


def _overrule(decisions: dict[str, AcceptanceDecision], name: str, reason: str) -> None:
    decision = decisions[name]
    if decision.accepted:
        decisions[name] = replace(decision, accepted=False, reason=reason)
