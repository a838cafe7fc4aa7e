"""Refusal of candidates that quote, name labels or change the scale; without labels, also for lint and meaning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autorubric.checks.check_registry import validate_check
from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.core.wording import UNSPACED, WORD
from autorubric.errors import AutorubricError
from autorubric.improvement.changed_wording import Outcomes, Wording
from autorubric.linting import lint_rubric

QUOTED_WORDS = 6
"""This many consecutive words of a submission (twice as many Chinese, Japanese or Thai characters) are a quote."""
LONGEST = 1500
"""Maximum characters of a requirement."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_LABELS = re.compile(
    r"\bground[ _-]?truth\b|\b(?:human|expert|gold|reference)[ -](?:label|verdict|rater|annotator|grader|score)s?\b|"
    r"\bannotators?\b|\blabell?ed (?:(?:it|them) )?(?:so|as|met|unmet)\b|"
    r"\b(?:always|never) (?:mark|judge|answer|return|choose)\b|\bthe verdict (?:must|should|has to|is)\b|"
    r"\b(?:people|humans|raters|graders) (?:have )?(?:labell?ed|marked|rated|graded|scored|assigned)\b|"
    r"\bteaching (?:set|example)s?\b|标注|人工标签|真实标签|(?-i:\b(?:UN)?MET\b|\bCANNOT_ASSESS\b)",
    re.IGNORECASE,
)


def _tokenize(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def _list_runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the sequences of tokens in a text that count as a quotation if they occur elsewhere."""
    tokens = _tokenize(text)
    for start, token in enumerate(tokens):
        size = QUOTED_WORDS * (2 if _UNSPACED.match(token) else 1)
        if start + size <= len(tokens):
            yield tuple(tokens[start : start + size])


@dataclass(frozen=True)
class LeakGuard:
    """Texts that no candidate may contain.

    Attributes:
        submissions: the runs of words of all labelled submissions that the task and the rubric do not have.
        ids: ids of items.
    """

    submissions: frozenset[tuple[str, ...]]
    ids: frozenset[str] = field(default=frozenset())

    @classmethod
    def from_texts(
        cls, submissions: Iterable[str], known: Iterable[str], ids: Iterable[str | None] = ()
    ) -> LeakGuard:
        """Build the guard for these submissions.

        Args:
            submissions: their texts.
            known: texts from which a criterion may quote: prompts, references and the rubric.
            ids: of the items; short ones, and those of letters or digits alone, are too common to count.
        """
        allowed = {run for text in dict.fromkeys(known) for run in _list_runs(text)}
        runs = {run for text in submissions for run in _list_runs(text)}
        telling = {
            name for name in ids if name and len(name) > 3 and re.search(r"\d", name) and re.search(r"\D", name)
        }
        return cls(frozenset(runs - allowed), frozenset(telling))

    def find_quotation(self, text: str) -> str:
        """Return the first sequence of words in a text that occurs in a submission; empty if there is none.

        Example:
            >>> guard = LeakGuard.from_texts(["It was a dark and stormy night in May."], [])
            >>> guard.find_quotation("Mentions that it was a dark and stormy night.")
            'it was a dark and stormy'
        """
        return next((" ".join(run) for run in _list_runs(text) if run in self.submissions), "")


def find_refusal(wording: Wording, old: Criterion, guard: LeakGuard, taken: Collection[tuple[str, ...]] = ()) -> str:
    """Return why a candidate is refused; empty if it is not.

    Args:
        wording: the candidate.
        old: the criterion that it would replace.
        guard: the texts that it may not contain.
        taken: texts of the original and of earlier candidates, folded by `fold_texts`.
    """
    reason = _find_form_problem(wording, old, taken)
    if reason:
        return reason
    whole = "\n".join(wording.requirements)
    if passage := guard.find_quotation(whole) or _find_check_quotation(wording, guard):
        return f"it quotes a submission: {passage!r}"
    if (found := _LABELS.search(whole)) and found[0].casefold() not in old.requirement.casefold():
        return f"it names labels or dictates a verdict: {found[0]!r}"
    if named := next((name for name in sorted(guard.ids) if name in whole and name not in old.requirement), ""):
        return f"it names an item: {named!r}"
    return _find_check_problem(wording)


def _find_check_quotation(wording: Wording, guard: LeakGuard) -> str:
    """Return a quotation in a check's parameters, because such a check would recognize the item."""
    parameters = (wording.check or {}).get("parameters") or {}
    return next(filter(None, map(guard.find_quotation, _list_texts(parameters))), "")


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _list_texts(list(value.values()))
    elif isinstance(value, list):
        for entry in value:
            yield from _list_texts(entry)


def _find_form_problem(wording: Wording, old: Criterion, taken: Collection[tuple[str, ...]]) -> str:
    texts = wording.requirements
    if not texts or not all(text.strip() for text in texts):
        return "it has no text"
    if max(map(len, texts)) > LONGEST:
        return f"it is longer than {LONGEST:,} characters"
    if wording.check is None and fold_texts(texts) in taken:
        return "it is the same as the original or an earlier candidate"
    if old.options is not None and wording.kind in ("split", "check"):
        return f"a {wording.kind} would change the scale of a criterion with options"
    return ""


def fold_texts(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts without case, punctuation and spacing, to find repetitions.

    Example:
        >>> fold_texts(["Names a cause."]) == fold_texts(["names a  cause"])
        True
    """
    return tuple(" ".join(_tokenize(text)) for text in texts)


def _find_check_problem(wording: Wording) -> str:
    if wording.kind != "check":
        return ""
    check = wording.check or {}
    try:
        validate_check(str(check.get("name", "")), check.get("parameters") or {})
    except AutorubricError as error:
        return f"its check cannot run: {error}"
    return ""


LARGEST_SHARE = 0.95
"""If more items get the same verdict, judges agree for that reason alone, and the criterion is uninformative."""
LEAST_KEPT = 0.8
"""The share of the original's unanimous verdicts that the new wording must keep."""


def find_unlabelled_problem(rubric: Rubric, wording: Wording, old: Outcomes, new: Outcomes) -> str:
    """Return why a wording with higher panel agreement is not accepted; empty if it is."""
    if worse := _list_new_findings(rubric, wording):
        return f"lint finds what the original does not have: {', '.join(worse)}"
    before, after = _compute_largest_share(old), _compute_largest_share(new)
    if after > LARGEST_SHARE >= before:
        return f"{after:.0%} of the items get one verdict under it, {before:.0%} under the original"
    sure = [
        item
        for item, outcome in old.items()
        if item in new and outcome.votes and len(set(outcome.votes)) == 1 and outcome.code >= 0
    ]
    kept = sum(new[item].code == old[item].code for item in sure)
    if kept < LEAST_KEPT * len(sure):
        return f"it changes the meaning: of {len(sure)} unanimous verdicts {len(sure) - kept} are different under it"
    return ""


def _list_new_findings(rubric: Rubric, wording: Wording) -> list[str]:
    """List the rules whose warnings and errors lint finds only in the new wording."""
    found = [
        {finding.rule for finding in lint_rubric(list(criteria)) if finding.criterion and finding.severity != "note"}
        for criteria in ([rubric[wording.place]], wording.to_criteria(rubric))
    ]
    return sorted(found[1] - found[0])


def _compute_largest_share(outcomes: Outcomes) -> float:
    codes = Counter[int](outcome.code for outcome in outcomes.values())
    return max(codes.values()) / len(outcomes) if outcomes else 1.0
