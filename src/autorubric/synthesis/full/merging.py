"""The merge: all candidate sets become one rubric, and every criterion is accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from autorubric.llm.executor import FollowUp
from autorubric.llm.limits import most_room
from autorubric.llm.model import Model
from autorubric.llm.request import Failure, Request
from autorubric.prompts import Prompt
from autorubric.synthesis.aggregation import (
    Account,
    Fate,
    account,
    fits,
    fold_order,
    merge_request,
    merge_room,
    pre_deduplicate,
    read_merge,
)
from autorubric.synthesis.aggregation.accounting import Merged
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.full.filters import criterion_fault
from autorubric.synthesis.full.rows import criterion_row, holds_criteria
from autorubric.synthesis.full.settings import FullSettings
from autorubric.synthesis.plan import Derivation, Fields, Inquiry, ModelAccess, Settled
from autorubric.synthesis.stages.asking import missing, query_in

Sets = Sequence[Sequence[Candidate]]


@dataclass(frozen=True, slots=True)
class Drafts:
    """The candidate sets of a row, and what was left out of them before any merge."""

    sets: list[list[Candidate]] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)


def drafts_in(fields: Fields, names: Mapping[str, str], settings: FullSettings) -> Drafts:
    """The criteria of the draft fields as sets; what is abnormal or unwanted is dropped with its reason.

    Args:
        fields: the row.
        names: the draft fields, and what the ids of their criteria begin with: `a` for `rubrics_a`.
        settings: the filters, and whether pitfalls are wanted.

    Example:
        >>> row = {"rubrics_a": [{"title": "Dose", "description": "Names the dose.", "weight": 0}]}
        >>> drafts_in(row, {"rubrics_a": "a"}, FullSettings()).fates[0].reason
        'weight 0'
    """
    drafts = Drafts()
    for name, prefix in names.items():
        model = str(fields.get(f"{name}_model") or "")
        kept: list[Candidate] = []
        for number, item in enumerate(fields.get(name) or (), 1):
            one = Candidate(f"{prefix}{number}", **_plain(item), models=(model,))
            fault = criterion_fault(one.description, one.weight, settings.filters)
            if one.pitfall and settings.pitfalls == "off":
                fault = fault or "pitfalls are off"
            if fault:
                drafts.fates.append(Fate(one.id, "dropped", "", fault))
            else:
                kept.append(one)
        drafts.sets.append(kept)
    return drafts


def merge_stage(template: Prompt, follow_up: FollowUp, names: Mapping[str, str], settings: FullSettings) -> Inquiry:
    """The stage that writes `merge`: the merged `criteria`, and the `fates` of all that went in.

    Repetitions to the letter go first, without a call. What is left is merged in one call where the reply fits the
    merge model and the criteria fit `merge_characters`, else two sets at a time; a single set stands as it is.
    """

    async def work(fields: Fields, access: ModelAccess) -> Settled | Failure:
        drafts = drafts_in(fields, names, settings)
        found = pre_deduplicate(drafts.sets)
        sets = [one for one in found.sets if one]
        if not sets:
            return missing("candidate rubrics")
        merging = _Merging(template, follow_up, query_in(fields), access)
        made = await _merged(merging, sets, settings, access.item)
        if isinstance(made, Failure):
            return made
        fates = _traced([*drafts.fates, *found.fates], made.fates)
        notes = tuple(f"a criterion was dropped: {fate.reason}" for fate in drafts.fates)
        value = {"criteria": list(map(criterion_row, made.criteria)), "fates": [asdict(fate) for fate in fates]}
        model = access.models["merge"].name if len(sets) > 1 else "passthrough"
        return Settled(value, model, (*notes, *made.notes))

    def requests(fields: Fields, models: Mapping[str, Model]) -> list[tuple[str, Request]]:
        sets = [one for one in pre_deduplicate(drafts_in(fields, names, settings).sets).sets if one]
        if len(sets) < 2:
            return []
        query = query_in(fields)
        if fits(sets, settings.merge_characters) and merge_room(sets) <= most_room(models["merge"]):
            return [("merge", merge_request(template, query, sets))]
        pairs = pairwise(sets)
        return [("merge", merge_request(template, query, pair)) for pair in pairs]

    reads = ("question", *names)
    return Inquiry("merge", 3, reads, ("merge",), work, requests, _is_merge)


def merged_stage() -> Derivation:
    """The stage that writes `merged_rubrics`, the seed's field, from `merge`."""

    def derive(fields: Fields) -> Settled | Failure:
        if not _is_merge(fields.get("merge")):
            return missing("merge")
        return Settled(fields["merge"]["criteria"], fields["merge_model"])

    return Derivation("merged_rubrics", 3, ("merge",), derive, holds_criteria, empty=[])


@dataclass(frozen=True, slots=True)
class _Merging:
    """What every merge call of a record shares."""

    template: Prompt
    follow_up: FollowUp
    query: Any
    access: ModelAccess

    def at_once(self, sets: Sets, most_characters: int) -> bool:
        """Whether all sets are merged in one call: the reply fits, or an earlier version asked for it and has it."""
        if not fits(sets, most_characters):
            return False
        model = self.access.models["merge"]
        request = merge_request(self.template, self.query, sets)
        return merge_room(sets) <= most_room(model) or self.access.is_recorded("merge", request)

    async def of(self, sets: Sets, prefix: str) -> Account | Failure:
        """The account of one merge call."""
        request = merge_request(self.template, self.query, sets)
        ask = self.access.ask_as("merge")
        answer = await ask(self.access.models["merge"], request, read_merge, self.follow_up)
        if isinstance(answer, Failure):
            return answer
        inputs = [one for some in sets for one in some]
        made = account(inputs, answer.value.merged, answer.value.dropped, prefix=prefix)
        return Account(made.criteria, made.fates, (*answer.notes, *made.notes))


async def _merged(merging: _Merging, sets: Sets, settings: FullSettings, item: str) -> Account | Failure:
    if len(sets) == 1:
        outputs = [Merged(one.title, one.description, one.weight, (one.id,)) for one in sets[0]]
        return account(sets[0], outputs)
    if merging.at_once(sets, settings.merge_characters):
        return await merging.of(sets, "m")
    fold = fold_order(len(sets), f"{settings.seed}|{item}")
    last = len(sets) + len(fold.merges) - 1

    async def slot(place: int) -> Account | Failure:
        if place < len(sets):
            return Account(tuple(sets[fold.order[place]]), ())
        parts = await asyncio.gather(*(slot(inner) for inner in fold.merges[place - len(sets)]))
        failed = next((part for part in parts if isinstance(part, Failure)), None)
        if failed is not None:
            return failed
        whole = [part for part in parts if isinstance(part, Account)]
        made = await merging.of([part.criteria for part in whole], "m" if place == last else f"f{place}.")
        if isinstance(made, Failure):
            return made
        earlier = [fate for part in whole for fate in part.fates]
        return Account(made.criteria, (*earlier, *made.fates), (*(n for p in whole for n in p.notes), *made.notes))

    return await slot(last)


def _traced(first: Sequence[Fate], later: Sequence[Fate]) -> list[Fate]:
    """What became of each criterion in the end, however many merges lay in between."""
    known = {fate.id: fate for fate in later}

    def end(fate: Fate) -> Fate:
        while (then := known.get(fate.into)) is not None:
            outcome = then.outcome if fate.outcome == "kept" or then.outcome == "dropped" else fate.outcome
            fate = Fate(fate.id, outcome, then.into, fate.reason or then.reason)
        return fate

    return [end(fate) for fate in first]


def _plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item[key] for key in ("title", "description", "weight")}


def _is_merge(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("criteria")) and holds_criteria(value["criteria"])
