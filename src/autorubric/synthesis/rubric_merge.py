"""The merge: candidate rubrics become one; in the full profile every criterion is accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from autorubric.llm.limits import compute_most_room, estimate_room
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable
from autorubric.llm.structured import read_json
from autorubric.prompts import Prompt
from autorubric.synthesis.accounting import Account, DroppedSource, Fate, Merged, build_account, deduplicate_sets
from autorubric.synthesis.candidate import Candidate, dump_criterion, is_criteria_list, make_example_criteria
from autorubric.synthesis.drafts import find_criterion_fault, make_example_items
from autorubric.synthesis.items import parse_weight, read_rubric
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.stages import (
    PASSTHROUGH,
    Call,
    Fields,
    Models,
    Stage,
    StageOutcome,
    fail_missing,
    has_items,
    query_in,
)
from autorubric.synthesis.templates import build_request

if TYPE_CHECKING:
    from autorubric.synthesis.stage_runner import RecordAccess

Sets: TypeAlias = Sequence[Sequence[Candidate]]
EXAMPLE_CRITERIA = 12
"""Number of merged criteria that an estimate assumes."""

_REPLY_TOKENS = 1500
_FRAME = 60  # characters of keys, quotes and weight around a criterion as JSON


def build_plain_merge_stage(template: Prompt, letters: Sequence[str]) -> Stage:
    """Return the stage that writes `merged_rubrics` in the basic profile.

    The first candidate rubric is required. If it is the only one, it is the merged rubric, made by `passthrough`.
    """
    names = tuple(f"rubrics_{letter}" for letter in letters)

    def build(fields: Fields, models: Models) -> list[Call] | StageOutcome:
        sets = [fields[name] for name in names if has_items(fields.get(name))]
        if not has_items(fields.get(names[0])):
            return fail_missing(names[0])
        if len(sets) == 1:
            return StageOutcome(sets[0], PASSTHROUGH)
        room = estimate_room(copied=[str(item.get("description")) for items in sets for item in items])
        inputs = {"query": query_in(fields), "sets": sets}
        return [Call("merge", build_request(template, "merge", inputs, "rubric_items", room=room), read_rubric)]

    return Stage(
        "merged_rubrics",
        3,
        ("question", *names),
        build,
        slots=("merge",),
        role="merge",
        reply_tokens=_REPLY_TOKENS,
        example=lambda fields, tokens: make_example_items(tokens),
        finished=has_items,
        empty=[],
    )


def build_merge_stage(template: Prompt, names: Mapping[str, str], settings: FullSettings) -> Stage:
    """Build the stage that writes `merge`: the merged `criteria`, and the `fates` of all input criteria.

    Exact repetitions are removed first, without a call. The rest is merged in one call if the reply fits the merge
    model's limit and the criteria fit `merge_characters`, else two sets at a time; a single set is not changed.
    """

    def build(fields: Fields, models: Models) -> list[Call]:
        sets = [one for one in deduplicate_sets(filter_drafts(fields, names, settings)[0]).sets if one]
        if len(sets) < 2:
            return []
        whole = can_fit(sets, settings.merge_characters) and compute_merge_room(sets) <= compute_most_room(
            models["merge"]
        )
        groups: list[Sets] = [sets] if whole else list(pairwise(sets))
        return [Call("merge", build_merge_request(template, query_in(fields), group), read_merge) for group in groups]

    async def work(fields: Fields, access: RecordAccess) -> StageOutcome:
        drafts, dropped = filter_drafts(fields, names, settings)
        found = deduplicate_sets(drafts)
        sets = [one for one in found.sets if one]
        if not sets:
            return fail_missing("candidate rubrics")
        made = await _RecordMerger(template, query_in(fields), settings, access).merge(sets)
        if isinstance(made, Failure):
            return StageOutcome(failure=made)
        fates = _trace_fates([*dropped, *found.fates], made.fates)
        notes = tuple(f"a criterion was dropped: {fate.reason}" for fate in dropped)
        value = {"criteria": list(map(dump_criterion, made.criteria)), "fates": [fate._asdict() for fate in fates]}
        return StageOutcome(value, "" if len(sets) > 1 else PASSTHROUGH, notes=(*notes, *made.notes))

    return Stage(
        "merge",
        3,
        ("question", *names),
        build,
        slots=("merge",),
        role="merge",
        reply_tokens=_REPLY_TOKENS,
        example=lambda fields, tokens: {"criteria": make_example_criteria("m", EXAMPLE_CRITERIA), "fates": []},
        finished=_is_merge,
        work=work,
    )


def build_merged_stage() -> Stage:
    """Return the stage that writes `merged_rubrics`, the seed's field, from `merge`."""

    def build(fields: Fields, models: Models) -> StageOutcome:
        if not _is_merge(fields.get("merge")):
            return fail_missing("merge")
        return StageOutcome(fields["merge"]["criteria"], fields.get("merge_model", ""))

    return Stage("merged_rubrics", 3, ("merge",), build, finished=is_criteria_list, empty=[])


def _is_merge(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("criteria")) and is_criteria_list(value["criteria"])


def filter_drafts(
    fields: Fields, names: Mapping[str, str], settings: FullSettings
) -> tuple[list[list[Candidate]], list[Fate]]:
    """Return the criteria of the draft fields as sets, and the fates of those dropped by filters and settings."""
    sets, dropped = list[list[Candidate]](), list[Fate]()
    for name, prefix in names.items():
        model = str(fields.get(f"{name}_model") or "")
        sets.append([])
        for number, item in enumerate(fields.get(name) or (), 1):
            values = {key: item[key] for key in ("title", "description", "weight")}
            candidate = Candidate(f"{prefix}{number}", **values, models=(model,))
            fault = find_criterion_fault(candidate.description, candidate.weight, settings.filters)
            if candidate.pitfall and settings.pitfalls == "off":
                fault = fault or "pitfalls are off"
            if fault:
                dropped.append(Fate(candidate.id, "dropped", "", fault))
            else:
                sets[-1].append(candidate)
    return sets, dropped


@dataclass(frozen=True, slots=True)
class _RecordMerger:
    """Merges the candidate sets of a record."""

    template: Prompt
    query: Any
    settings: FullSettings
    access: RecordAccess

    async def merge(self, sets: Sets) -> Account | Failure:
        """Merge all sets, in as few calls as their size permits."""
        if len(sets) == 1:
            outputs = [
                Merged(candidate.title, candidate.description, candidate.weight, (candidate.id,))
                for candidate in sets[0]
            ]
            return build_account(sets[0], outputs)
        if self._can_merge_at_once(sets):
            return await self._merge_once(sets, "m")
        return await self._fold(sets)

    def _can_merge_at_once(self, sets: Sets) -> bool:
        """Return whether one call can merge all sets: the reply fits, or an earlier version recorded that call."""
        if not can_fit(sets, self.settings.merge_characters):
            return False
        runner = self.access.runner
        request = build_merge_request(self.template, self.query, sets)
        is_short = compute_merge_room(sets) <= compute_most_room(runner.models["merge"])
        return is_short or runner.is_recorded("merge", request)

    async def _merge_once(self, sets: Sets, prefix: str) -> Account | Failure:
        request = build_merge_request(self.template, self.query, sets)
        answer = await self.access.ask(Call("merge", request, read_merge))
        if isinstance(answer, Failure):
            return answer
        inputs = [candidate for some in sets for candidate in some]
        made = build_account(inputs, answer.value.merged, answer.value.dropped, prefix=prefix)
        return made._replace(notes=(*answer.notes, *made.notes))

    async def _fold(self, sets: Sets) -> Account | Failure:
        """Merge all sets two at a time in the fewest rounds, in an order drawn for the record."""
        level = [Account(tuple(some), ()) for some in sets]
        Random(f"fold|{self.settings.seed}|{self.access.item}").shuffle(level)
        place = len(level)
        while len(level) > 1:
            # The odd set goes first in the next round; otherwise it would be merged once while others are merged
            # three times.
            odd = [level.pop()] if len(level) % 2 else []
            pairs = list(zip(level[::2], level[1::2], strict=True))
            names = [f"f{place + number}." if odd or len(pairs) > 1 else "m" for number in range(len(pairs))]
            made = await asyncio.gather(*map(self._merge_pair, pairs, names))
            place += len(pairs)
            level = [*odd, *(one for one in made if isinstance(one, Account))]
            if failed := [one for one in made if isinstance(one, Failure)]:
                return failed[0]
        return level[0]

    async def _merge_pair(self, pair: Sequence[Account], prefix: str) -> Account | Failure:
        made = await self._merge_once([part.criteria for part in pair], prefix)
        if isinstance(made, Failure):
            return made
        fates = [fate for part in pair for fate in part.fates]
        notes = [note for part in pair for note in part.notes]
        return Account(made.criteria, (*fates, *made.fates), (*notes, *made.notes))


def _trace_fates(first: Sequence[Fate], later: Sequence[Fate]) -> list[Fate]:
    """Trace the fate of each criterion through all merges; ids with a point belong to intermediate merges."""
    known = {fate.id: fate for fate in later}

    def follow(fate: Fate) -> Fate:
        then = known.get(fate.into)
        while then is not None:
            outcome = then.outcome if fate.outcome == "kept" or then.outcome == "dropped" else fate.outcome
            fate = Fate(fate.id, outcome, then.into, fate.reason or then.reason)
            # The ids of the thirteenth set are like those of the result (m1).
            then = known.get(then.into) if "." in then.into else None
        return fate

    return [follow(fate) for fate in first]


def can_fit(sets: Sets, most_characters: int) -> bool:
    """Return whether the criteria of all sets fit one merge request of at most `most_characters`."""
    lengths = (
        len(candidate.id) + len(candidate.title) + len(candidate.description) + _FRAME
        for some in sets
        for candidate in some
    )
    return sum(lengths) <= most_characters


def compute_merge_room(sets: Sets) -> int:
    """Compute the completion tokens that a merge of these sets can need, if every criterion is kept."""
    return estimate_room(copied=[criterion.description for criteria in sets for criterion in criteria])


class MergeReply(NamedTuple):
    """The merged criteria of a reply, and the ones that it drops."""

    merged: tuple[Merged, ...]
    dropped: tuple[DroppedSource, ...]


def build_merge_request(template: Prompt, query: Any, sets: Sets) -> Request:
    """Return the request that merges all sets at once; each criterion goes with its id."""
    names = ("id", "title", "description", "weight")
    inputs = {
        "query": query,
        "sets": [[{name: getattr(criterion, name) for name in names} for criterion in criteria] for criteria in sets],
        "pitfalls": any(criterion.pitfall for criteria in sets for criterion in criteria),
    }
    return build_request(template, "merge", inputs, "merge_sets", room=compute_merge_room(sets))


def read_merge(reply: Reply) -> Answer[MergeReply] | Unreadable:
    """Read the merged and the dropped criteria in a reply; unusable entries are noted."""
    answer = read_json(reply, "object", ("criteria",))
    if isinstance(answer, Unreadable) or not isinstance(answer.value.get("criteria"), list):
        # A bare list drops nothing; a criterion that its entries do not name is matched by its words or restored.
        bare = read_json(reply, "array", ("criteria",), named="title")
        if isinstance(bare, Unreadable):
            return answer if isinstance(answer, Unreadable) else bare
        answer = Answer({"criteria": bare.value}, reply, bare.notes)
    notes = list(answer.notes)
    merged = tuple(_read_each(answer.value.get("criteria"), _read_merged, "criterion", notes))
    if not merged:
        return Unreadable("unreadable", "the reply holds no criterion")
    dropped = tuple(_read_each(answer.value.get("dropped"), _read_dropped, "dropped", notes))
    return Answer(MergeReply(merged, dropped), reply, tuple(notes))


def _read_each(entries: Any, read: Any, noun: str, notes: list[str]) -> list[Any]:
    found = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [], 1):
        value = read(entry) if isinstance(entry, Mapping) else None
        if value is None:
            notes.append(f"{noun} {number} was ignored: {str(entry)[:60]!r}")
        else:
            found.append(value)
    return found


def _read_merged(entry: Mapping[str, Any]) -> Merged | None:
    description, weight = entry.get("description"), parse_weight(entry.get("weight"))
    if not isinstance(description, str) or not description.strip():
        return None
    title = entry.get("title")
    return Merged(
        title.strip() if isinstance(title, str) else "",
        description.strip(),
        -1 if weight is not None and weight < 0 else 1,  # the size comes from the sources
        _read_ids(entry.get("sources")),
    )


def _read_dropped(entry: Mapping[str, Any]) -> DroppedSource | None:
    ids = _read_ids(entry.get("id"))
    reason = entry.get("reason")
    return DroppedSource(ids[0], reason if isinstance(reason, str) else "") if ids else None


def _read_ids(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(str(name).strip() for name in listed if isinstance(name, str | int) and str(name).strip())
