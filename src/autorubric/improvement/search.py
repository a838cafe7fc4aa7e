"""Candidates for one criterion: written from errors, refused or graded, and dropped early if they lose."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from autorubric.improvement.changed_wording import Outcomes, Wording, WordingOutcome, build_original
from autorubric.improvement.measures import Comparator, NestedResult, cross_fit, list_categories
from autorubric.improvement.refusals import LeakGuard, find_refusal, fold_texts
from autorubric.improvement.samples import SampleSplit
from autorubric.llm.request import Failure

Note = Callable[..., None]
"""Receives an event of the log: its kind, then its values by name."""

SHOWN_ERRORS = 8
"""Number of errors that the writer sees for one criterion, with half as many correct verdicts."""


class WordingJudge(Protocol):
    """Judges items under a wording."""

    async def judge(
        self, wording: Wording, items: Sequence[int], *, retest: bool = False
    ) -> dict[int, WordingOutcome]:
        """Return the outcome of each item; `retest` asks a second time, independently of the first."""
        ...


@dataclass(frozen=True)
class WriterItem:
    """An item that the writer sees.

    Attributes:
        item: the item's index.
        label: the human label; empty without labels.
        verdict: the judge's verdict.
        reason: the reason.
        votes: each judge's verdict, if there are no labels.
    """

    item: int
    label: str
    verdict: str
    reason: str
    votes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Commission:
    """A task for the writer.

    Attributes:
        wording: the version to revise.
        errors: items on which judge and label disagree.
        right: items on which they agree.
        count: the number of candidates to write.
        number: the number of the round, from 1.
        failed: texts of earlier candidates that did not help.
    """

    wording: Wording
    errors: Sequence[WriterItem]
    right: Sequence[WriterItem]
    count: int
    number: int
    failed: Sequence[str] = ()


class WordingWriter(Protocol):
    """Writes candidates."""

    def write(self, commission: Commission) -> Awaitable[list[Wording] | Failure]:
        """Return the candidates, or the failure."""
        ...


@dataclass
class WordingTrial:
    """A candidate and its outcome.

    Attributes:
        wording: the candidate.
        fate: `graded`, and finally `refused`, `dropped` or `tested`.
        reason: the reason.
        gains: the gain over the original on each set that it was graded on, by the set's name.
    """

    wording: Wording
    fate: str = "graded"
    reason: str = ""
    gains: dict[str, float] = field(default_factory=dict)

    def conclude(self, finalist: Wording | None) -> None:
        """Set the final fate of a candidate that was graded to the end."""
        if self.fate == "graded":
            self.fate = "tested" if self.wording == finalist else "dropped"
            self.reason = "" if self.fate == "tested" else "another version, or the original, did better"

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        gains = {name: None if math.isnan(gain) else gain for name, gain in self.gains.items()}
        return {**self.wording.to_dict(), "fate": self.fate, "why": self.reason, "gains": gains}


@dataclass
class SearchResult:
    """The result of the search for a criterion.

    Attributes:
        place: the criterion.
        tried: every candidate.
        finalist: the candidate to test; None if none is better on the choosing set.
        unwritten: why the writer proposed nothing.
        nested: in a nested split, the evidence of all folds for the finalist.
        outcomes: in a nested split, the finalist's outcomes.
    """

    place: int
    tried: list[WordingTrial]
    finalist: Wording | None = None
    unwritten: Failure | None = None
    nested: NestedResult | None = None
    outcomes: Outcomes = field(default_factory=dict)


@dataclass(frozen=True)
class SearchRules:
    """The number of candidates and of rounds.

    Attributes:
        candidates: the number of candidates for each criterion and round.
        rounds: the number of rounds of writing; one in a nested split, as later rounds would know the deciding items.
    """

    candidates: int = 4
    rounds: int = 2


@dataclass
class Search:
    """The search for a better wording of one criterion.

    Attributes:
        comparing: how wordings are compared.
        judging: asks the judges.
        writing: writes candidates; None for proposals alone.
        split: the teaching, choosing and test sets.
        guard: the texts that candidates may not contain.
        rules: the numbers of candidates and rounds.
        note: receives events of the log.
    """

    comparing: Comparator
    judging: WordingJudge
    writing: WordingWriter | None
    split: SampleSplit
    guard: LeakGuard
    rules: SearchRules = field(default_factory=SearchRules)
    note: Note = lambda kind, **values: None

    async def run(self, place: int, baseline: Outcomes, proposals: Iterable[Wording] = ()) -> SearchResult:
        """Find the best candidate for a criterion, among those of the writer and the proposals.

        Args:
            place: of the criterion.
            baseline: outcomes of the original on the teaching and choosing items; in a nested split, on all.
            proposals: candidates from elsewhere, tried in the first round.
        """
        first = build_original(self.comparing.labelled.rubric, place)
        found, incumbent, outcomes = SearchResult(place, []), first, dict(baseline)
        best_gain, given = 0.0, list(proposals)
        for number in range(1, (1 if self.split.is_nested else self.rules.rounds) + 1):
            commission = self._build_task(incumbent, outcomes, number, found.tried)
            if self.writing is not None and commission.errors:
                written = await self.writing.write(commission)
                if isinstance(written, Failure):
                    found.unwritten = written
                else:
                    given += written
            fresh, given = self._admit_candidates(found, given), []
            if not fresh:
                break
            graded = await self._grade(place, baseline, fresh)
            if self.split.is_nested:
                self._cross_fit(found, baseline, graded)
                break
            ahead = max(fresh, key=lambda trial: _find_gain(trial.gains, "choose"))
            if _find_gain(ahead.gains, "choose") <= best_gain:
                break
            best_gain, incumbent = ahead.gains["choose"], ahead.wording
            outcomes, found.finalist = graded[incumbent.name], incumbent
        for trial in found.tried:
            trial.conclude(found.finalist)
        return found

    def _build_task(
        self, wording: Wording, outcomes: Outcomes, number: int, tried: Sequence[WordingTrial]
    ) -> Commission:
        teach = self.comparing.labelled.select_known(wording.place, self.split.teach)
        cases = [self._build_case(wording.place, item, outcomes[item]) for item in teach]
        wrong = [case for case in cases if not self._is_right(case, outcomes)]
        right = [case for case in cases if self._is_right(case, outcomes)]
        failed = [" / ".join(trial.wording.requirements) for trial in tried if trial.fate == "dropped"]
        return Commission(
            wording,
            _mix_labels(wrong, SHOWN_ERRORS),
            _mix_labels(right, SHOWN_ERRORS // 2),
            self.rules.candidates,
            number,
            failed[-SHOWN_ERRORS:],
        )

    def _build_case(self, place: int, item: int, outcome: WordingOutcome) -> WriterItem:
        names = list_categories(self.comparing.labelled.rubric[place])
        label = int(self.comparing.labelled.truth[item, place])
        verdict = names[outcome.code] if outcome.code >= 0 else "no verdict"
        votes = tuple(names[code] if code >= 0 else "no verdict" for code in outcome.votes)
        return WriterItem(item, names[label] if label >= 0 else "", verdict, outcome.reason, votes)

    def _is_right(self, case: WriterItem, outcomes: Outcomes) -> bool:
        if self.comparing.labelled.has_labels:
            return case.label == case.verdict
        return len(set(outcomes[case.item].votes)) == 1

    def _admit_candidates(self, found: SearchResult, candidates: Sequence[Wording]) -> list[WordingTrial]:
        """Return the candidates that are not refused; the others are kept with the reason."""
        old = self.comparing.labelled.rubric[found.place]
        fresh = []
        for wording in candidates:
            taken = {fold_texts([old.requirement])}
            taken |= {fold_texts(trial.wording.requirements) for trial in found.tried if trial.wording.check is None}
            reason = find_refusal(wording, old, self.guard, taken)
            trial = WordingTrial(wording, "refused" if reason else "graded", reason)
            found.tried.append(trial)
            if not reason:
                fresh.append(trial)
        return fresh

    async def _grade(
        self, place: int, baseline: Outcomes, fresh: Sequence[WordingTrial]
    ) -> dict[str, dict[int, WordingOutcome]]:
        """Grade candidates step by step on more items; the worse ones are dropped after each step."""
        outcomes = {trial.wording.name: dict[int, WordingOutcome]() for trial in fresh}
        running = list(fresh)
        choose = self.split.choose
        later = [("test", self.split.test)] if self.split.is_nested else [("half", choose[::2]), ("choose", choose)]
        sets = [("teach", self.split.teach), *later]
        steps = [(name, self.comparing.labelled.select_known(place, items)) for name, items in sets]
        for number, (name, items) in enumerate(steps):
            for trial in running:
                known = outcomes[trial.wording.name]
                known |= await self.judging.judge(trial.wording, [item for item in items if item not in known])
                trial.gains[name] = self.comparing.compare_wordings(place, baseline, known, items).difference
            if number + 1 < len(steps):
                running = self._select_survivors(running, name)
        return {trial.wording.name: outcomes[trial.wording.name] for trial in running}

    def _select_survivors(self, running: Sequence[WordingTrial], name: str) -> list[WordingTrial]:
        ranked = sorted(running, key=lambda trial: -_find_gain(trial.gains, name))
        kept = ranked[: max(math.ceil(len(ranked) * _KEPT), 1)]
        for trial in ranked[len(kept) :]:
            others = "another one" if len(kept) == 1 else f"{len(kept)} others"
            trial.fate, trial.reason = "dropped", f"{others} did better on the {_SETS[name]}"
        return kept

    def _cross_fit(self, found: SearchResult, baseline: Outcomes, graded: Mapping[str, Outcomes]) -> None:
        known = [self.comparing.labelled.select_known(found.place, fold) for fold in self.split.folds]
        nested = cross_fit(self.comparing, found.place, baseline, graded, [fold for fold in known if fold])
        if nested is not None:
            found.nested, found.outcomes = nested, graded[nested.winner]
            found.finalist = next(trial.wording for trial in found.tried if trial.wording.name == nested.winner)


_KEPT = 0.5
"""The share of candidates that stays after each step."""
_SETS = {"teach": "teaching set", "half": "first half of the choosing set", "choose": "choosing set"}


def _find_gain(gains: Mapping[str, float], name: str) -> float:
    gain = gains.get(name, -math.inf)
    return -math.inf if math.isnan(gain) else gain


def _mix_labels(cases: Sequence[WriterItem], most: int) -> list[WriterItem]:
    """Return the first cases up to a maximum, taking each label in turn."""
    by_label = dict[str, list[WriterItem]]()
    for case in cases:
        by_label.setdefault(case.label, []).append(case)
    found = list[WriterItem]()
    rows = list(by_label.values())
    for rank in range(max(map(len, rows), default=0)):
        found += [row[rank] for row in rows if rank < len(row)]
    return found[:most]
