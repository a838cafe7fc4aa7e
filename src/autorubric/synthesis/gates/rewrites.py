"""The one rewrite of criteria that judges split on, with their disagreement as feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autorubric.llm.reading.structured import read_json
from autorubric.llm.request import Answer, Message, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.room import room_for
from autorubric.prompts.gating import GatePrompts
from autorubric.prompts.library import load_schema
from autorubric.synthesis.candidate import Candidate, Pool

MOST_ANSWERS = 3
"""The most responses that the rewriter is shown for one criterion."""

Reasons = Mapping[str, Sequence[Sequence[str | None]]]
"""Why judges said what they said: by criterion id, shaped like `Pool.votes`."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A criterion that judges split on.

    Attributes:
        candidate: the criterion.
        splits: numbers of responses, each with what the judges said: verdict and reason.
    """

    candidate: Candidate
    splits: tuple[tuple[int, tuple[tuple[bool, str], ...]], ...]


def disputes_in(candidates: Sequence[Candidate], pool: Pool, reasons: Reasons | None = None) -> list[Dispute]:
    """What the judges disagreed on, for each of these criteria; at most three responses each.

    Example:
        >>> tone = Candidate("e1.1", "Tone", "Has a good tone.", 4)
        >>> pool = Pool(("Hi!", "Dear all,"), ("j1", "j2"), {"e1.1": ((True, True), (True, False))})
        >>> disputes_in([tone], pool)[0].splits
        ((1, ((True, ''), (False, ''))),)
    """
    reasons = reasons or {}
    return [Dispute(one, _splits(one.id, pool, reasons.get(one.id))[:MOST_ANSWERS]) for one in candidates]


def rewrite_request(
    prompts: GatePrompts,
    query: str | Sequence[Mapping[str, Any]],
    disputes: Sequence[Dispute],
    responses: Sequence[str],
) -> Request:
    """The question for wordings that have one reading; one call for all disputed criteria of a query.

    Example:
        >>> from autorubric.prompts.gating import package_gate_prompts
        >>> tone = Candidate("e1.1", "Tone", "Has a good tone.", 4)
        >>> dispute = Dispute(tone, ((0, ((True, "Warm."), (False, "Stiff."))),))
        >>> rewrite_request(package_gate_prompts(), "Write to Ann.", [dispute], ["Dear Ann,"]).role
        'rewrite'
    """
    shown = sorted({number for dispute in disputes for number, _ in dispute.splits})
    place = {number: index for index, number in enumerate(shown, 1)}
    inputs = {
        "query": query,
        "answers": [responses[number] for number in shown],
        "disputes": [_as_inputs(dispute, place) for dispute in disputes],
    }
    messages = tuple(Message(role, text) for role, text in prompts.rewrite.render(**inputs))
    schema, room = ReplySchema("rewrites", load_schema("rewrite")), room_for(entries=len(disputes))
    constrained = not prompts.rewrite.wants_list
    return Request(messages, "rewrite", schema, room=room, constrained=constrained)


def read_rewrites(candidates: Sequence[Candidate], reply: Reply) -> Answer[dict[str, Candidate]] | Unreadable:
    """The rewritten criteria by the ids of those they replace; one left out could not be rewritten.

    Each keeps weight, origin and round, has the old id with `.r` behind it, and the old one for its parent.

    Example:
        >>> said = '{"rewrites": [{"criterion_id": "e1.1", "split": "Warm or polite?", "title": "Greeting",'
        >>> said += ' "description": "Greets Ann by name."}]}'
        >>> read_rewrites([Candidate("e1.1", "Tone", "Has a good tone.", 4)], Reply(said)).value["e1.1"].id
        'e1.1.r'
    """
    found = read_json(reply, "array", ("rewrites",), named="criterion_id")
    if isinstance(found, Unreadable):
        return found
    said: dict[str, list[tuple[str, str]]] = {one.id: [] for one in candidates}
    for entry in found.value:
        one = str(entry.get("criterion_id", "")).strip() if isinstance(entry, Mapping) else ""
        if one in said:
            said[one].append((_text_in(entry, "title"), _text_in(entry, "description")))
    if candidates and not any(said.values()):
        return Unreadable("unreadable", f"the reply has no entry for criterion {candidates[0].id}")
    rewrites, notes = dict[str, Candidate](), list[str]()
    for old in candidates:
        wordings = dict.fromkeys(said[old.id])
        title, description = next(iter(wordings), ("", ""))
        if len(wordings) > 1:
            notes.append(f"{old.id}: not rewritten: has two entries that differ")
        elif description and description != old.description:
            rewrites[old.id] = rewritten(old, title, description)
        else:
            notes.append(f"{old.id}: not rewritten")
    return Answer(rewrites, reply, (*found.notes, *notes))


def rewritten(old: Candidate, title: str, description: str) -> Candidate:
    """A criterion in another wording.

    Example:
        >>> rewritten(Candidate("m2", "Tone", "Has a good tone.", 4), "", "Greets Ann by name.").parents
        ('m2',)
    """
    return replace(
        old,
        id=f"{old.id}.r",
        title=title or old.title,
        description=description,
        parents=(old.id,),
        check=None,
        rewritten=True,
    )


def _text_in(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def _splits(
    candidate: str, pool: Pool, reasons: Sequence[Sequence[str | None]] | None
) -> tuple[tuple[int, tuple[tuple[bool, str], ...]], ...]:
    votes = pool.votes.get(candidate, ())
    splits = []
    for number in range(len(pool.responses)):
        column = [row[number] for row in votes]
        if True in column and False in column:
            said = tuple(
                (vote, (reasons[judge][number] or "") if reasons is not None else "")
                for judge, vote in enumerate(column)
                if vote is not None
            )
            splits.append((number, said))
    return tuple(splits)


def _as_inputs(dispute: Dispute, place: Mapping[int, int]) -> dict[str, Any]:
    return {
        "id": dispute.candidate.id,
        "requirement": dispute.candidate.description,
        "pitfall": dispute.candidate.pitfall,
        "splits": [
            {
                "answer": place[number],
                "said": [{"verdict": "MET" if vote else "UNMET", "reason": reason} for vote, reason in said],
            }
            for number, said in dispute.splits
        ],
    }
