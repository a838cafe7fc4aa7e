"""The account of a merge: each criterion that went in is in the result, or it is said where it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autorubric.synthesis.aggregation.deduplicating import Fate, heaviest, ordered_union
from autorubric.synthesis.aggregation.sameness import lost_numbers, sameness_key
from autorubric.synthesis.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Merged:
    """One criterion of a merge reply, with the ids of those it says it was made of."""

    title: str
    description: str
    weight: int
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DroppedSource:
    """A criterion that a merge reply leaves out, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Account:
    """A merged rubric and what became of every criterion it was made of.

    Attributes:
        criteria: the merged rubric; ids `m1`, `m2`, …, parents are the criteria each was made of.
        fates: one for every criterion that went in, in their order.
        notes: what in the reply was not taken as it stood.
    """

    criteria: tuple[Candidate, ...]
    fates: tuple[Fate, ...]
    notes: tuple[str, ...] = ()


def account(
    inputs: Sequence[Candidate],
    merged: Sequence[Merged],
    dropped: Sequence[DroppedSource] = (),
    *,
    prefix: str = "m",
) -> Account:
    """The merged rubric with nothing lost unseen.

    A criterion goes where the reply names it; where no output names it, where its words are found; and where they
    are not, it is put back as it was. It is also put back where an output of the other sign, or one that lacks one
    of its numbers, claims it, and where it was dropped without a reason. The weight is the highest of the sources'
    and their sign, whatever the reply says. An output that no source stands behind adds a demand that nobody made,
    and is left out with a note.

    Args:
        inputs: all criteria of all sets, ids unique.
        merged: the outputs of the reply.
        dropped: the criteria that the reply leaves out.
        prefix: of the ids of the result, where merges are merged again.

    Example:
        >>> sets = [Candidate("a1", "Dose", "Names the dose.", 5), Candidate("b1", "Amount", "Gives the amount.", 9)]
        >>> found = account(sets, [Merged("Dose", "Names the dose.", 5, ("a1",))])
        >>> [(c.id, c.description, c.weight) for c in found.criteria]
        [('m1', 'Names the dose.', 5), ('m2', 'Gives the amount.', 9)]
        >>> found.fates[1].outcome
        'restored'
    """
    claims = _Claims(inputs)
    named = [claims.named(output) for output in merged]
    # Only now, so that no output takes by its words what a later one names.
    groups = [[*group, *claims.found_by_words(output, group)] for output, group in zip(merged, named, strict=True)]
    criteria: list[Candidate] = []
    for output, group in zip(merged, groups, strict=True):
        if group:
            criteria.append(_made(f"{prefix}{len(criteria) + 1}", output, group))
            claims.settle(criteria[-1].id, group)
        else:
            claims.notes.append(f"{output.description!r:.80} has no source of its own and was left out")
    claims.drop(dropped)
    for criterion in inputs:
        if criterion.id not in claims.fates:
            criteria.append(_restored(f"{prefix}{len(criteria) + 1}", criterion))
            reason = claims.refused.get(criterion.id, "the reply names it nowhere")
            claims.fates[criterion.id] = Fate(criterion.id, "restored", criteria[-1].id, reason)
    return Account(tuple(criteria), tuple(claims.fates[criterion.id] for criterion in inputs), tuple(claims.notes))


class _Claims:
    """Which criteria are still free, while outputs claim theirs one after the other."""

    def __init__(self, inputs: Sequence[Candidate]) -> None:
        self.free = {criterion.id: criterion for criterion in inputs}
        if len(self.free) != len(inputs):
            raise ValueError("two criteria that go into a merge have the same id")
        self.known = frozenset(self.free)
        self.refused: dict[str, str] = {}
        self.fates: dict[str, Fate] = {}
        self.notes: list[str] = []

    def named(self, output: Merged) -> list[Candidate]:
        """The free criteria that an output names and may have: of one sign, no number lost."""
        strangers = [source for source in output.sources if source not in self.known]
        self.notes += (f"{output.description!r:.80} names {source!r}, which there is not" for source in strangers)
        sources = [self.free[source] for source in dict.fromkeys(output.sources) if source in self.free]
        if not sources:
            return []
        pitfall = _is_pitfall(output, sources)
        taken = []
        for source in sources:
            lost = lost_numbers(source.description, output.description)
            if source.pitfall is not pitfall:
                self.refused[source.id] = "it was merged with criteria of the other sign"
            elif lost:
                self.refused[source.id] = f"the merged wording lacks its {', '.join(sorted(lost))}"
            else:
                taken.append(self.free.pop(source.id))
        return taken

    def found_by_words(self, output: Merged, named: Sequence[Candidate]) -> list[Candidate]:
        """The free criteria whose words an output repeats, of the sign of those it names."""
        pitfall = named[0].pitfall if named else output.weight < 0
        key = sameness_key(output.description)
        found = [
            source
            for source in self.free.values()
            if source.id not in self.refused and source.pitfall is pitfall and sameness_key(source.description) == key
        ]
        for source in found:
            del self.free[source.id]
        return found

    def settle(self, into: str, group: Sequence[Candidate]) -> None:
        """Note that these criteria go on in that one."""
        for source in group:
            self.fates[source.id] = Fate(source.id, "kept" if len(group) == 1 else "merged", into)

    def drop(self, dropped: Sequence[DroppedSource]) -> None:
        """Note what the reply leaves out with a reason."""
        for entry in dropped:
            if entry.id not in self.known:
                self.notes.append(f"{entry.id!r} is said to be dropped, but there is no such criterion")
            elif entry.id in self.fates:
                self.notes.append(f"{entry.id!r} is said to be dropped, but the result carries it")
            elif entry.reason.strip():
                self.fates[entry.id] = Fate(entry.id, "dropped", "", entry.reason.strip())
            else:
                self.refused.setdefault(entry.id, "it was dropped without a reason")


def _is_pitfall(output: Merged, sources: Sequence[Candidate]) -> bool:
    """The sign of a merged criterion: what the reply says where a source has it, else what the sources have."""
    signs = {source.pitfall for source in sources}
    return output.weight < 0 if len(signs) == 2 else signs.pop()


def _made(id: str, output: Merged, group: Sequence[Candidate]) -> Candidate:
    first = heaviest(group)
    return Candidate(
        id,
        output.title or first.title,
        output.description,
        first.weight,
        models=ordered_union(source.models for source in group),
        parents=ordered_union([[source.id for source in group], *(source.parents for source in group)]),
    )


def _restored(id: str, source: Candidate) -> Candidate:
    parents = ordered_union([[source.id], source.parents])
    return Candidate(id, source.title, source.description, source.weight, models=source.models, parents=parents)
