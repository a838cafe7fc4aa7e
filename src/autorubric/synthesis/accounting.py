"""The account of a merge: which criteria are equal, and what became of each input criterion."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from autorubric.core.wording import find_numbers, narrow
from autorubric.synthesis.candidate import Candidate

# Marks that change the meaning of a number or a name, with placeholders for some; other punctuation separates words.
_MEANING = frozenset("%‰#&@*/\\§†′\x01\x02\x03\x04")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[.,:’'](?=\d)")
_BARE_POINT = re.compile(r"(?<![\w.])\.(?=\d)")
_NOT = re.compile(r"!(?=[\w=])")
_QUOTED_MARK = re.compile(r"(?<=[\"'“„‘`「『(«])[^\w\s]{1,3}(?=[\"'”“’`」』)»])")
_SIGN = re.compile(r"(?<![\w)])[-−–](?=\d)|(?<=[<>=≤≥±~])\s*[-−–](?=\d)")
_QUANTITY = re.compile(r"(?<![\w.])(\d[\d.,:/]*)\s*([^\W\d_]{1,3})(?![^\W\d_])")
_WIDE = r"\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_BESIDE_WIDE = re.compile(rf"\s+(?=[{_WIDE}])|(?<=[{_WIDE}])\s+")


def build_sameness_key(text: str) -> str:
    """Return a text without case, space and punctuation; texts with equal keys make the same demand.

    Numbers keep their points, signs and percent marks. Units of up to three letters after a number keep their case
    (mg is not Mg). Up to three marks in quotes become their names. Only marks and spaces are dropped, so that no
    negation is lost. Full-width forms equal the narrow ones; superscripts stay.

    Example:
        >>> build_sameness_key("Follow up  every 3 months.") == build_sameness_key("follow up every ３ months")
        True
        >>> build_sameness_key("Follow up every 3 months") == build_sameness_key("Follow up every 6 months")
        False
        >>> build_sameness_key("提到剂量，并说明频率。") == build_sameness_key("提到剂量, 并说明频率")
        True
    """
    text = _BARE_POINT.sub("0.", narrow(text))
    text = _QUOTED_MARK.sub(lambda marks: " ".join(unicodedata.name(one, one) for one in marks[0]), text)
    units = " ".join(unit for _, unit in _QUANTITY.findall(text) if not unit.islower())
    text = _NOT.sub("\x04", _SIGN.sub("\x01", text.casefold()))
    text = _BETWEEN_DIGITS.sub(lambda mark: "\x02" if mark[0] in ".:" else "\x03", text)
    text = re.sub(r"(?<![\w.])(\d+)(?=[^\W\d_])", r"\1 ", text)
    kept = "".join(c if c in _MEANING or unicodedata.category(c)[0] in "LMNS" else " " for c in text)
    key = _BESIDE_WIDE.sub("", " ".join(kept.split()))
    return f"{key}|{units}" if units else key


def find_lost_numbers(source: str, merged: str) -> frozenset[str]:
    """Return the numbers that a merged wording lacks; "one" counts as an article."""
    return find_numbers(source) - find_numbers(merged)


class Fate(NamedTuple):
    """What became of one input criterion of a merge.

    Attributes:
        id: the id of the input criterion.
        outcome: `kept` alone, `merged` with others, `restored` if the merge had lost it, or `dropped`.
        into: the id of the resulting criterion; empty if it was dropped.
        reason: the reason why it was dropped, restored or merged.
    """

    id: str
    outcome: Literal["kept", "merged", "restored", "dropped"]
    into: str = ""
    reason: str = ""


class Deduplicated(NamedTuple):
    """Candidate rubrics without repetitions, one set per input set, and the fate of each criterion in order."""

    sets: tuple[tuple[Candidate, ...], ...]
    fates: tuple[Fate, ...]

    @property
    def criteria(self) -> tuple[Candidate, ...]:
        """All remaining criteria."""
        return tuple(criterion for criteria in self.sets for criterion in criteria)


def deduplicate_sets(sets: Sequence[Sequence[Candidate]]) -> Deduplicated:
    """Return the sets with each demand once, ignoring case, space and punctuation.

    Of equal criteria, the one with the highest weight stays (for pitfalls: the largest deduction), at the position of
    the first, with the others as parents. Pitfalls are compared only with pitfalls.

    Example:
        >>> a = Candidate("a1", "Dose", "Names the dose.", 5)
        >>> b = Candidate("b1", "The dose", "names the dose", 9)
        >>> found = deduplicate_sets([[a], [b]])
        >>> [c.id for c in found.criteria], [(f.id, f.outcome, f.into) for f in found.fates]
        (['b1'], [('a1', 'merged', 'b1'), ('b1', 'kept', 'b1')])
    """
    inputs = [criterion for criteria in sets for criterion in criteria]
    _check_ids(inputs)
    groups: dict[tuple[bool, str], list[Candidate]] = {}
    for criterion in inputs:
        # Texts that consist only of marks have an empty key, and must not count as equal.
        key = build_sameness_key(criterion.description) or f"\x00{criterion.description}"
        groups.setdefault((criterion.pitfall, key), []).append(criterion)
    joined = {group[0].id: _merge_group(group) for group in groups.values()}
    left = tuple(tuple(joined[candidate.id] for candidate in some if candidate.id in joined) for some in sets)
    into = {candidate.id: joined[group[0].id].id for group in groups.values() for candidate in group}
    kept = set(into.values())
    fates = [
        Fate(criterion.id, "kept", criterion.id)
        if criterion.id in kept
        else Fate(criterion.id, "merged", into[criterion.id], "the same words")
        for criterion in inputs
    ]
    return Deduplicated(left, tuple(fates))


def _check_ids(inputs: Sequence[Candidate]) -> None:
    ids = [criterion.id for criterion in inputs]
    if len(set(ids)) < len(ids):
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        raise ValueError(f"two criteria that go into a merge have the same id: {', '.join(repeated)}")


def _merge_group(group: Sequence[Candidate]) -> Candidate:
    """Return the criterion of a group with the highest weight, with the models and parents of all."""
    winner = _find_heaviest(group)
    others = [candidate.id for candidate in group if candidate.id != winner.id]
    return replace(
        winner,
        models=_merge_names(winner.models, *(candidate.models for candidate in group)),
        parents=_merge_names(winner.parents, others, *(candidate.parents for candidate in group)),
    )


def _find_heaviest(group: Sequence[Candidate]) -> Candidate:
    """Return the criterion with the largest absolute weight; of equals the first."""
    return max(group, key=lambda criterion: abs(criterion.weight))


def _merge_names(*names: Iterable[str]) -> tuple[str, ...]:
    """Return all names once, in order of first appearance."""
    return tuple(dict.fromkeys(name for some in names for name in some))


class Merged(NamedTuple):
    """One criterion of a merge reply, with the ids of its sources according to the reply."""

    title: str
    description: str
    weight: int
    sources: tuple[str, ...] = ()


class DroppedSource(NamedTuple):
    """A criterion that a merge reply leaves out, and why."""

    id: str
    reason: str


class Account(NamedTuple):
    """A merged rubric, and the fate of every input criterion.

    Attributes:
        criteria: the merged rubric, with ids `m1`, `m2`, … and the source criteria as parents.
        fates: the fate of every input criterion, in order.
        notes: what was changed or ignored in the reply.
    """

    criteria: tuple[Candidate, ...]
    fates: tuple[Fate, ...]
    notes: tuple[str, ...] = ()


def build_account(
    inputs: Sequence[Candidate], merged: Sequence[Merged], dropped: Sequence[DroppedSource] = (), *, prefix: str = "m"
) -> Account:
    """Build the merged rubric, in which no criterion is lost silently.

    An input criterion goes to the output that names it, else to one with the same words, else it is restored
    unchanged. It is also restored if the output has the other sign or lacks one of its numbers, or if it was dropped
    without a reason. The weight is the highest of the sources, with their sign, whatever the reply says. An output
    without a source would add a demand, so it is left out with a note.

    Args:
        inputs: all criteria of all sets, ids unique.
        merged: the outputs of the reply.
        dropped: the criteria that the reply leaves out.
        prefix: the prefix of the resulting ids, for merges that are merged again.

    Example:
        >>> sets = [Candidate("a1", "Dose", "Names the dose.", 5), Candidate("b1", "Amount", "Gives the amount.", 9)]
        >>> found = build_account(sets, [Merged("Dose", "Names the dose.", 5, ("a1",))])
        >>> [(c.id, c.description, c.weight) for c in found.criteria]
        [('m1', 'Names the dose.', 5), ('m2', 'Gives the amount.', 9)]
        >>> found.fates[1].outcome
        'restored'
    """
    claims = _Claims(inputs)
    named = [claims.claim_named(output) for output in merged]
    # In a second pass, so that no output claims by its words a criterion that a later output names.
    groups = [[*group, *claims.claim_same_words(output, group)] for output, group in zip(merged, named, strict=True)]
    criteria: list[Candidate] = []
    for output, group in zip(merged, groups, strict=True):
        if not group:
            claims.notes.append("a merged criterion has no source of its own and was left out")
            continue
        criteria.append(_build_criterion(f"{prefix}{len(criteria) + 1}", output.title, output.description, group))
        outcome: Literal["kept", "merged"] = "kept" if len(group) == 1 else "merged"
        claims.fates |= {candidate.id: Fate(candidate.id, outcome, criteria[-1].id) for candidate in group}
    claims.drop(dropped)
    for criterion in inputs:
        if criterion.id not in claims.fates:
            criteria.append(
                _build_criterion(f"{prefix}{len(criteria) + 1}", criterion.title, criterion.description, [criterion])
            )
            reason = claims.refused.get(criterion.id, "the reply names it nowhere")
            claims.fates[criterion.id] = Fate(criterion.id, "restored", criteria[-1].id, reason)
    return Account(tuple(criteria), tuple(claims.fates[criterion.id] for criterion in inputs), tuple(claims.notes))


class _Claims:
    """The input criteria that no output has claimed yet."""

    def __init__(self, inputs: Sequence[Candidate]) -> None:
        _check_ids(inputs)
        self.free = {criterion.id: criterion for criterion in inputs}
        self.known = frozenset(self.free)
        self.refused: dict[str, str] = {}
        self.fates: dict[str, Fate] = {}
        self.notes: list[str] = []

    def claim_named(self, output: Merged) -> list[Candidate]:
        """Return the unclaimed criteria that an output names and may claim: of one sign, with no number lost."""
        strangers = [source for source in output.sources if source not in self.known]
        self.notes += (f"a merged criterion names an unknown id, {source!r}" for source in strangers)
        sources = [self.free[source] for source in dict.fromkeys(output.sources) if source in self.free]
        signs = {source.pitfall for source in sources}
        # The sign in the reply counts if a source has it.
        pitfall = output.weight < 0 if len(signs) == 2 else True in signs
        taken = []
        for source in sources:
            lost = find_lost_numbers(source.description, output.description)
            if source.pitfall is not pitfall:
                self.refused[source.id] = "it was merged with criteria of the other sign"
            elif lost:
                self.refused[source.id] = f"the merged wording lacks its {', '.join(sorted(lost))}"
            else:
                taken.append(self.free.pop(source.id))
        return taken

    def claim_same_words(self, output: Merged, named: Sequence[Candidate]) -> list[Candidate]:
        """Return the unclaimed criteria whose words an output repeats, with the sign of those it names."""
        pitfall = named[0].pitfall if named else output.weight < 0
        free = [
            candidate
            for candidate in self.free.values()
            if candidate.id not in self.refused and candidate.pitfall is pitfall
        ]
        key = build_sameness_key(output.description)
        return [self.free.pop(candidate.id) for candidate in free if build_sameness_key(candidate.description) == key]

    def drop(self, dropped: Sequence[DroppedSource]) -> None:
        """Record the criteria that the reply drops with a reason."""
        for entry in dropped:
            if entry.id not in self.known:
                self.notes.append(f"the reply drops the unknown id {entry.id!r}")
            elif entry.id in self.fates:
                self.notes.append(f"the reply drops {entry.id!r}, but the result contains it")
            elif entry.reason.strip():
                self.fates[entry.id] = Fate(entry.id, "dropped", "", entry.reason.strip())
            else:
                self.refused.setdefault(entry.id, "it was dropped without a reason")


def _build_criterion(id: str, title: str, description: str, group: Sequence[Candidate]) -> Candidate:
    first = _find_heaviest(group)
    return Candidate(
        id,
        title or first.title,
        description,
        first.weight,
        models=_merge_names(*(source.models for source in group)),
        parents=_merge_names([source.id for source in group], *(source.parents for source in group)),
    )
