"""Criteria with several demands, split into one criterion for each demand; every part has to pass the gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autorubric.core.criterion import Criterion, criterion_names
from autorubric.core.rubric import Rubric
from autorubric.graders.demands import is_compound
from autorubric.improvement.wording import IMPROVED, Wording
from autorubric.linting.demands import find_second_demand
from autorubric.synthesis.candidate import Candidate, Pool, Relevance
from autorubric.synthesis.gates import GateContext, GateDecision, decide, find_final_decisions
from autorubric.synthesis.thresholds import GateName, GateSettings
from autorubric.training.reward import GATE_TAG

PERSISTENT_TAG = "persistent"
"""A criterion with this tag never changes."""

_GATES: tuple[GateName, ...] = ("answerable", "licensed", "surface", "redundant")
"""Not `separates`: what all rollouts meet was demanded before, and stays."""


@dataclass(frozen=True, slots=True)
class Split:
    """A criterion taken apart.

    Attributes:
        place: its index in the rubric.
        name: what rewards call it.
        parts: what stands in its place: the weight is shared, everything else stays.
        ids: of the parts as the gates know them.
    """

    place: int
    name: str
    parts: tuple[Criterion, ...]
    ids: tuple[str, ...]


def find_divisible(rubric: Rubric, persistent: Sequence[str] = ()) -> list[int]:
    """The places of criteria with several demands, without those that never change.

    Example:
        >>> both = {"requirement": "States the dose and warns about liver damage."}
        >>> rubric = Rubric.from_dict([both, {**both, "name": "Fixed"}, {"requirement": "Is brief."}])
        >>> find_divisible(rubric, ["Fixed"])
        [0]
    """
    names = criterion_names(list(rubric))
    return [
        place
        for place, (name, one) in enumerate(zip(names, rubric, strict=True))
        if is_compound(one)
        and not ({PERSISTENT_TAG, GATE_TAG} & set(one.tags or ()) or {name, one.id} & {*persistent})
    ]


def make_split(rubric: Rubric, place: int, demands: Sequence[str], author: str) -> Split:
    """A criterion in parts that share its weight, each with its provenance, as `improve` records it.

    Example:
        >>> rubric = Rubric.from_dict([{"name": "Dose", "weight": 6, "requirement": "States A and warns of B."}])
        >>> [(one.name, one.weight) for one in make_split(rubric, 0, ["States A.", "Warns of B."], "m").parts]
        [('Dose (1)', 3.0), ('Dose (2)', 3.0)]
    """
    old, name = rubric[place], criterion_names(list(rubric))[place]
    second = find_second_demand(old.requirement)
    record = {
        "was": old.model_dump(mode="json", exclude_defaults=True),
        "kind": "split",
        "author": author,
        "reason": f"it has several demands (the second at {second!r})",
        "against": "gates",
    }
    made = Wording(name, place, tuple(demands), "split").criteria(rubric)
    parts = tuple(one.model_copy(update={"metadata": {**one.metadata, IMPROVED: record}}) for one in made)
    return Split(place, name, parts, tuple(f"e{place + 1}.{number}" for number in range(1, len(parts) + 1)))


def gate_rows(rubric: Rubric, splits: Sequence[Split]) -> list[Candidate]:
    """What the gates look at: the criteria that stay, and the parts of the others."""
    largest = max(abs(one.weight) for one in rubric) or 1.0
    by_place = {split.place: split for split in splits}
    rows = list[Candidate]()
    for place, one in enumerate(rubric):
        split = by_place.get(place)
        if split is None:
            rows.append(_row(f"m{place + 1}", one, largest))
        else:
            rows += [_row(name, part, largest) for name, part in zip(split.ids, split.parts, strict=True)]
    return rows


def _row(name: str, one: Criterion, largest: float) -> Candidate:
    size = min(10, max(1, round(abs(one.weight) / largest * 10)))
    return Candidate(name, one.name or "", one.requirement, -size if one.weight < 0 else size)


def judge_splits(
    query: Any, rows: Sequence[Candidate], splits: Sequence[Split], relevance: Mapping[str, Relevance],
    settings: GateSettings,
) -> tuple[list[Split], list[dict[str, str]], dict[str, Any]]:  # fmt: skip
    """The splits whose parts all pass; why the others do not; and the figures of the gates by part."""
    context = GateContext("" if query is None else query, tuple(rows), Pool((), ("judge",), {}), relevance)
    decisions = decide(context, settings.model_copy(update={"order": _GATES}))
    final = find_final_decisions(decisions)
    passed, rejected, evidence = list[Split](), list[dict[str, str]](), dict[str, Any]()
    for split in splits:
        refused = [
            {"criterion": split.name, "description": part.requirement, "gate": reason[0], "reason": reason[1]}
            for name, part in zip(split.ids, split.parts, strict=True)
            if (reason := _refusal(name, part, final, relevance)) is not None
        ]
        rejected += refused
        if refused:
            continue
        passed.append(split)
        for name, part in zip(split.ids, split.parts, strict=True):
            own = [one for one in decisions if one.candidate == name]
            evidence[str(part.name)] = {one.gate: {"outcome": one.outcome, **one.figures} for one in own}
    return passed, rejected, evidence


def _refusal(
    name: str, part: Criterion, final: Mapping[str, GateDecision], relevance: Mapping[str, Relevance]
) -> tuple[str, str] | None:
    """The gate that a part fails, and why; None if it passes."""
    if second := find_second_demand(part.requirement):
        return "several-demands", f"it still has several demands (the second at {second!r})"
    last = final.get(name)
    if last is not None and last.outcome == "rejected":
        return last.gate, last.reason
    return None if name in relevance else ("licensed", "no relevance judgment can be read")


def split_rubric(rubric: Rubric, splits: Sequence[Split]) -> Rubric:
    """The rubric with parts instead of what was split; all criteria keep the names that rewards show."""
    by_place, criteria = {split.place: split for split in splits}, list[Criterion]()
    for place, (name, one) in enumerate(zip(criterion_names(list(rubric)), rubric, strict=True)):
        split = by_place.get(place)
        criteria += split.parts if split else [one if one.name else one.model_copy(update={"name": name})]
    return Rubric(criteria, guidelines=rubric.guidelines, metadata=rubric.metadata)
