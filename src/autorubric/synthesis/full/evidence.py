"""What is known about the criteria of a row, gathered from its fields for the gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.full.rows import criteria_in, licences_in, pool_in, responses_in
from autorubric.synthesis.gates import GateContext, GateDecision, GateSettings, decide, fates
from autorubric.synthesis.plan import Fields
from autorubric.synthesis.stages.asking import query_in


@dataclass(frozen=True, slots=True)
class EvidenceFields:
    """The fields that a stage bases its decisions on.

    Attributes:
        judges: who gave each row of verdicts; one judge's draws share its name.
        criteria: the fields that hold criteria, the merged ones first.
        verdicts: the fields that hold verdicts.
        licences: the field that holds licences; empty where no gate asks for any.
    """

    judges: tuple[str, ...]
    criteria: tuple[str, ...]
    verdicts: tuple[str, ...]
    licences: str

    @property
    def reads(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.criteria, *self.verdicts, *([self.licences] if self.licences else []))

    def context(self, fields: Fields) -> GateContext:
        """What the gates are shown of a row; rewritten criteria stand in the place of the old ones."""
        return GateContext(
            query_in(fields),
            in_place(criteria_in(fields, self.criteria)),
            pool_in(fields, self.judges, self.verdicts),
            licences_in(fields, self.licences),
        )

    def decisions(self, fields: Fields, settings: GateSettings) -> list[GateDecision]:
        """What the gates say of a row's criteria."""
        return decide(self.context(fields), settings)

    def standing(self, fields: Fields, settings: GateSettings) -> tuple[Candidate, ...]:
        """The criteria of a row that no gate rejects."""
        settled = fates(self.decisions(fields, settings))
        return tuple(
            one
            for one in self.context(fields).candidates
            if one.id not in settled or settled[one.id].outcome != "rejected"
        )


def in_place(criteria: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Criteria with each rewritten one where the wording stood that it replaces.

    Example:
        >>> old, other = Candidate("m1", "", "Is good.", 5), Candidate("m2", "", "Is kind.", 3)
        >>> new = Candidate("m1.r", "", "Names 4 g.", 5, parents=("m1",), rewritten=True)
        >>> [one.id for one in in_place([old, other, new])]
        ['m1.r', 'm2']
    """
    newer = {one.parents[0]: one for one in criteria if one.rewritten}
    return tuple(newer.get(one.id, one) for one in criteria if not one.rewritten)


def slots_in(fields: Fields) -> list[str]:
    """The slot letters of a row's pool, in order.

    Example:
        >>> slots_in({"pool": {"slots": ["b"]}, "response_b": "4 g."})
        ['b']
    """
    return list(responses_in(fields))
