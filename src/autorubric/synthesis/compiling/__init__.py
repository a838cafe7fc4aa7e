"""Criteria that a check decides as well as a judge does: recognised by their words, accepted where it agrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autorubric.checks import CheckFailure, run_check, validate_check
from autorubric.errors import InputError, MissingPackageError
from autorubric.synthesis.candidate import Candidate, Pool
from autorubric.synthesis.compiling.layouts import (
    keyword_check,
    language_check,
    layout_check,
    repetition_check,
    typography_check,
)
from autorubric.synthesis.compiling.quantities import Found, count_check, number_check
from autorubric.synthesis.thresholds import CompileSettings

__all__ = ["Comparison", "CompileSettings", "Proposal", "Recognised", "compiled", "proposals", "recognise"]

_READERS: tuple[tuple[str, Callable[[str, str], Found]], ...] = (
    ("length", count_check),
    ("format", layout_check),
    ("format", typography_check),
    ("keyword", repetition_check),
    ("keyword", keyword_check),
    ("language", language_check),
    ("number", number_check),
)
_LONGEST = 300  # characters: what is longer asks for more than a count or a phrase


@dataclass(frozen=True, slots=True)
class Recognised:
    """The check that a wording names.

    Attributes:
        name: of the check.
        parameters: valid for it.
        kind: of the wording: length, format, keyword, language or number.
    """

    name: str
    parameters: Mapping[str, Any]
    kind: str


def recognise(text: str, query: str = "") -> Recognised | None:
    """The check that decides a criterion, or None where its words need a judge.

    The check passes where what the words describe is there, whatever the sign of the criterion's weight.

    Args:
        text: the words of the criterion.
        query: what the submission answers, for "in the language of the question".

    Example:
        >>> recognise("The response is no more than 200 words long.")
        Recognised(name='word_count', parameters={'at_most': 200}, kind='length')
        >>> recognise("回答不超过三句话。").parameters
        {'at_most': 3}
        >>> recognise("Has at most 200 words and names the dose.") is None
        True
    """
    wording = " ".join(text.split()).rstrip(" .。!！;；")
    if len(wording) > _LONGEST:
        return None
    for kind, read in _READERS:
        found = read(wording, query)
        if found is None:
            continue
        name, parameters = found
        try:
            return Recognised(name, validate_check(name, parameters), kind)
        except MissingPackageError:
            raise
        except InputError:
            continue
    return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What judges and check say of one response.

    Attributes:
        response: its place in the pool, from 0.
        judged: the verdict of most judges, None on a tie or where there is none.
        checked: what the check says, None where it cannot decide.
        reason: the check's.
    """

    response: int
    judged: bool | None
    checked: bool | None
    reason: str

    @property
    def decided(self) -> bool:
        """Whether both have a verdict."""
        return self.judged is not None and self.checked is not None

    @property
    def disagrees(self) -> bool:
        """Whether both have one, and not the same."""
        return self.decided and self.judged is not self.checked


@dataclass(frozen=True, slots=True)
class Proposal:
    """A check for a criterion, how it did on the pool, and what came of it.

    Attributes:
        criterion: id of the criterion.
        check: name and parameters, as a criterion carries them.
        kind: of the wording: length, format, keyword, language or number.
        comparisons: one for each response of the pool.
        accepted: whether the criterion becomes the check.
        decision: why, or why not.
    """

    criterion: str
    check: Mapping[str, Any]
    kind: str
    comparisons: tuple[Comparison, ...]
    accepted: bool
    decision: str

    @property
    def disagreements(self) -> tuple[Comparison, ...]:
        """The responses on which judges and check differ."""
        return tuple(one for one in self.comparisons if one.disagrees)

    def record(self) -> dict[str, Any]:
        """The proposal as JSON values, for the ledger's views and `final_full`."""
        return {
            "criterion": self.criterion,
            "check": dict(self.check),
            "kind": self.kind,
            "accepted": self.accepted,
            "decision": self.decision,
            "decided": sum(one.decided for one in self.comparisons),
            "disagreements": [
                {"response": one.response, "judged": one.judged, "checked": one.checked, "reason": one.reason}
                for one in self.disagreements
            ],
        }


_DEFAULTS = CompileSettings()


def proposals(
    query: str, candidates: Sequence[Candidate], pool: Pool, settings: CompileSettings = _DEFAULTS
) -> list[Proposal]:
    """A proposal for each criterion whose words name a check, tried on the pool; no model is asked.

    A criterion that has a check already gets none. What the judges could not decide counts neither way.

    Args:
        query: what the responses answer.
        candidates: the criteria.
        pool: the responses and the judges' verdicts on them.
        settings: when a check is taken.

    Example:
        >>> short = Candidate("m1", "Length", "Has at most 3 words.", 5)
        >>> votes = {"m1": ((True, False, True, False),)}
        >>> pool = Pool(("a b", "a b c d", "a", "a b c d e"), ("j1",), votes)
        >>> [(one.check["name"], one.accepted) for one in proposals("Why?", [short], pool)]
        [('word_count', True)]
    """
    found = []
    for candidate in candidates:
        recognised = None if candidate.check is not None else recognise(candidate.description, query)
        if recognised is None:
            continue
        check = {"name": recognised.name, "parameters": dict(recognised.parameters)}
        comparisons = _compared(check, candidate.id, pool)
        accepted, decision = _decision(comparisons, settings)
        found.append(Proposal(candidate.id, check, recognised.kind, comparisons, accepted, decision))
    return found


def compiled(candidates: Sequence[Candidate], found: Sequence[Proposal]) -> list[Candidate]:
    """The criteria, those with an accepted proposal now decided by their check.

    Example:
        >>> one = Candidate("m1", "Length", "Has at most 3 words.", 5)
        >>> check = {"name": "word_count", "parameters": {"at_most": 3}}
        >>> compiled([one], [Proposal("m1", check, "length", (), True, "agree")])[0].check["name"]
        'word_count'
    """
    taken = {one.criterion: one.check for one in found if one.accepted}
    return [replace(one, check=taken[one.id]) if one.id in taken else one for one in candidates]


def _compared(check: Mapping[str, Any], criterion: str, pool: Pool) -> tuple[Comparison, ...]:
    judged = pool.majority(criterion) if criterion in pool.votes else (None,) * len(pool.responses)
    rows = []
    for place, (response, verdict) in enumerate(zip(pool.responses, judged, strict=True)):
        outcome = run_check(check["name"], check["parameters"], response)
        if isinstance(outcome, CheckFailure):
            rows.append(Comparison(place, verdict, None, outcome.reason))
        else:
            rows.append(Comparison(place, verdict, outcome.passed, outcome.reason))
    return tuple(rows)


def _decision(comparisons: Sequence[Comparison], settings: CompileSettings) -> tuple[bool, str]:
    decided = [one for one in comparisons if one.decided]
    agreed = sum(not one.disagrees for one in decided)
    said = f"judges and check agree on {agreed} of {len(decided)} responses that both decided"
    if len(decided) < settings.min_decided:
        return False, f"{said}; at least {settings.min_decided} are needed"
    if agreed / len(decided) < settings.min_agreement:
        return False, f"{said}; a share of {settings.min_agreement:g} is needed"
    if settings.both_verdicts and len({one.judged for one in decided}) < 2:
        verdict = "met" if decided[0].judged else "unmet"
        return False, f"{said}, but all of them are {verdict}: nothing shows that it can tell them apart"
    return True, said
