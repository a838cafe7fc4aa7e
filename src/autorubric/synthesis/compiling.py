"""Criteria that become checks: recognized by their words, accepted if check and judges agree."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from autorubric.checks import CheckFailure, run_check, validate_check
from autorubric.errors import InputError, MissingPackageError
from autorubric.synthesis.candidate import Candidate, Pool
from autorubric.synthesis.check_wordings import READERS
from autorubric.synthesis.thresholds import CompileSettings

_LONGEST = 300  # characters: longer texts ask for more than a count or a phrase


class RecognizedCheck(NamedTuple):
    """The check that a wording corresponds to.

    Attributes:
        name: the name of the check.
        parameters: the parameters of the check.
        kind: the kind of wording: length, format, keyword, language or number.
    """

    name: str
    parameters: Mapping[str, Any]
    kind: str


def recognize_check(text: str, query: str = "") -> RecognizedCheck | None:
    """Return the check that can decide a criterion; None if its words need a judge.

    The check passes if what the words describe is present, whatever the sign of the weight.

    Args:
        text: the words of the criterion.
        query: the query of the submission, for "in the language of the question".

    Example:
        >>> recognize_check("The response is no more than 200 words long.")
        RecognizedCheck(name='word_count', parameters={'at_most': 200}, kind='length')
        >>> recognize_check("回答不超过三句话。").parameters
        {'at_most': 3}
        >>> recognize_check("Has at most 200 words and names the dose.") is None
        True
    """
    wording = " ".join(text.split()).rstrip(" .。!！;；")
    if len(wording) > _LONGEST:
        return None
    for kind, read in READERS:
        found = read(wording, query)
        if found is None:
            continue
        name, parameters = found
        try:
            return RecognizedCheck(name, validate_check(name, parameters), kind)
        except MissingPackageError:
            raise
        except InputError:
            continue
    return None


class Comparison(NamedTuple):
    """The verdicts of the judges (by majority) and the check on one response of the pool; None if there is none."""

    response: int
    judged: bool | None
    checked: bool | None
    reason: str


@dataclass(frozen=True, slots=True)
class CheckProposal:
    """A check for a criterion, its results on the pool, and whether it was accepted.

    Attributes:
        criterion: id of the criterion.
        check: name and parameters, in the form that a criterion has.
        kind: the kind of wording: length, format, keyword, language or number.
        comparisons: one for each response of the pool.
        accepted: whether the check replaces the judges for the criterion.
        decision: the reason.
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
        return tuple(
            comparison
            for comparison in _select_decided(self.comparisons)
            if comparison.judged is not comparison.checked
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the proposal as JSON values, for the ledger's views and `final_full`."""
        row = asdict(self) | {
            "check": dict(self.check),
            "decided": len(_select_decided(self.comparisons)),
            "disagreements": [comparison._asdict() for comparison in self.disagreements],
        }
        del row["comparisons"]
        return row


_DEFAULTS = CompileSettings()


def propose_checks(
    query: str, candidates: Sequence[Candidate], pool: Pool, settings: CompileSettings = _DEFAULTS
) -> list[CheckProposal]:
    """Propose a check for each criterion whose wording matches one, tested on the pool; no request is sent.

    A criterion that already has a check gets no proposal. A response that the judges could not decide does not count.

    Args:
        query: the query of the responses.
        candidates: the criteria.
        pool: the responses and the judges' verdicts on them.
        settings: the conditions for accepting a check.

    Example:
        >>> short = Candidate("m1", "Length", "Has at most 3 words.", 5)
        >>> votes = {"m1": ((True, False, True, False),)}
        >>> pool = Pool(("a b", "a b c d", "a", "a b c d e"), ("j1",), votes)
        >>> [(one.check["name"], one.accepted) for one in propose_checks("Why?", [short], pool)]
        [('word_count', True)]
    """
    found = []
    for candidate in candidates:
        recognised = None if candidate.check is not None else recognize_check(candidate.description, query)
        if recognised is not None:
            check = {"name": recognised.name, "parameters": dict(recognised.parameters)}
            comparisons = _compare_on_pool(recognised, candidate.id, pool)
            accepted, decision = _decide_acceptance(comparisons, settings)
            found.append(CheckProposal(candidate.id, check, recognised.kind, comparisons, accepted, decision))
    return found


def apply_proposals(candidates: Sequence[Candidate], found: Sequence[CheckProposal]) -> list[Candidate]:
    """Return the criteria, with their check where a proposal was accepted.

    Example:
        >>> one = Candidate("m1", "Length", "Has at most 3 words.", 5)
        >>> check = {"name": "word_count", "parameters": {"at_most": 3}}
        >>> apply_proposals([one], [CheckProposal("m1", check, "length", (), True, "agree")])[0].check["name"]
        'word_count'
    """
    checks = {proposal.criterion: proposal.check for proposal in found if proposal.accepted}
    return [
        replace(candidate, check=checks[candidate.id]) if candidate.id in checks else candidate
        for candidate in candidates
    ]


def _compare_on_pool(check: RecognizedCheck, criterion: str, pool: Pool) -> tuple[Comparison, ...]:
    judged = pool.find_majority(criterion) if criterion in pool.votes else (None,) * len(pool.responses)
    rows = []
    for place, (response, verdict) in enumerate(zip(pool.responses, judged, strict=True)):
        outcome = run_check(check.name, check.parameters, response)
        passed = None if isinstance(outcome, CheckFailure) else outcome.passed
        rows.append(Comparison(place, verdict, passed, outcome.reason))
    return tuple(rows)


def _select_decided(comparisons: Sequence[Comparison]) -> list[Comparison]:
    return [
        comparison for comparison in comparisons if comparison.judged is not None and comparison.checked is not None
    ]


def _decide_acceptance(comparisons: Sequence[Comparison], settings: CompileSettings) -> tuple[bool, str]:
    decided = _select_decided(comparisons)
    agreed = sum(comparison.judged is comparison.checked for comparison in decided)
    counts = f"judges and check agree on {agreed} of {len(decided)} responses that both decided"
    if len(decided) < settings.min_decided:
        return False, f"{counts}; at least {settings.min_decided} are needed"
    if agreed / len(decided) < settings.min_agreement:
        return False, f"{counts}; a share of {settings.min_agreement:g} is needed"
    if settings.both_verdicts and len({comparison.judged for comparison in decided}) < 2:
        verdict = "met" if decided[0].judged else "unmet"
        return False, f"{counts}, but all of them are {verdict}: nothing shows that it can distinguish them"
    return True, counts
