"""One merge request over any number of sets, and the reader of its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from autorubric.llm.reading.structured import read_json
from autorubric.llm.request import Answer, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.room import room_for
from autorubric.prompts import Prompt, load_schema
from autorubric.synthesis.aggregation.accounting import DroppedSource, Merged
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.items import weight_in
from autorubric.synthesis.stages.asking import request_from


@dataclass(frozen=True, slots=True)
class MergeReply:
    """What a merge reply holds: the merged criteria, and those it leaves out."""

    merged: tuple[Merged, ...]
    dropped: tuple[DroppedSource, ...]


def merge_request(template: Prompt, query: Any, sets: Sequence[Sequence[Candidate]], *, draw: int = 0) -> Request:
    """The request that merges all sets at once; each criterion goes with its id.

    Args:
        template: the packaged `merge_sets`, or a user's own.
        query: the text, or the messages of a conversation.
        sets: the candidate rubrics, pitfalls and others apart.
        draw: the draw index.

    Example:
        >>> from autorubric.prompts.template import Template
        >>> sets = [[Candidate("a1", "Dose", "Names the dose.", 5)], [Candidate("b1", "", "Names 4 g.", 9)]]
        >>> request = merge_request(Template.from_package("merge_sets"), "How much?", sets)
        >>> request.role, [f'"id": "{name}"' in request.messages[1].content for name in ("a1", "b1", "c1")]
        ('merge', [True, True, False])
    """
    pitfalls = any(criterion.pitfall for one in sets for criterion in one)
    inputs = {
        "query": query,
        "sets": [[_shown(criterion) for criterion in one] for one in sets],
        "pitfalls": pitfalls,
    }
    return request_from(template, inputs, role="merge", draw=draw, schema=merge_schema(), room=merge_room(sets))


def merge_room(sets: Sequence[Sequence[Candidate]]) -> int:
    """The completion tokens that a merge of these sets can take: every criterion may stay as it is.

    Example:
        >>> merge_room([[Candidate("a1", "Dose", "Names the dose.", 5)], [Candidate("b1", "", "Names 4 g.", 9)]])
        2136
    """
    return room_for(copied=[criterion.description for one in sets for criterion in one])


@cache
def merge_schema() -> ReplySchema:
    """The shape of a merge reply.

    Example:
        >>> sorted(merge_schema().body["required"])
        ['criteria', 'dropped']
    """
    return ReplySchema("merge_sets", load_schema("merge_sets"))


def read_merge(reply: Reply) -> Answer[MergeReply] | Unreadable:
    """The merged criteria of a reply and what it dropped; entries that are none are noted, not guessed at.

    Example:
        >>> text = '{"criteria": [{"sources": ["a1", "b1"], "title": "Dose", "description": "Names it."}]}'
        >>> read_merge(Reply(text)).value.merged[0].sources
        ('a1', 'b1')
        >>> read_merge(Reply('{"criteria": []}')).message
        'the reply holds no criterion'
    """
    answer = read_json(reply, "object", ("criteria",))
    if isinstance(answer, Unreadable) or not isinstance(answer.value.get("criteria"), list):
        # A bare list names nothing as dropped; what its entries do not name is found by its words or put back.
        bare = read_json(reply, "array", ("criteria",), named="title")
        if isinstance(bare, Unreadable):
            return answer if isinstance(answer, Unreadable) else bare
        answer = Answer({"criteria": bare.value}, reply, bare.notes)
    notes = list(answer.notes)
    merged = tuple(_each(answer.value.get("criteria"), _merged, "criterion", notes))
    if not merged:
        return Unreadable("unreadable", "the reply holds no criterion")
    dropped = tuple(_each(answer.value.get("dropped"), _dropped, "dropped", notes))
    return Answer(MergeReply(merged, dropped), reply, tuple(notes))


def _shown(criterion: Candidate) -> dict[str, Any]:
    return {
        "id": criterion.id,
        "title": criterion.title,
        "description": criterion.description,
        "weight": criterion.weight,
    }


def _each(entries: Any, read: Any, noun: str, notes: list[str]) -> list[Any]:
    found = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [], 1):
        value = read(entry) if isinstance(entry, Mapping) else None
        if value is None:
            notes.append(f"{noun} {number} was passed over: {entry!r:.60}")
        else:
            found.append(value)
    return found


def _merged(entry: Mapping[str, Any]) -> Merged | None:
    description, weight = entry.get("description"), weight_in(entry.get("weight"))
    if not isinstance(description, str) or not description.strip():
        return None
    title = entry.get("title")
    return Merged(
        title.strip() if isinstance(title, str) else "",
        description.strip(),
        -1 if weight is not None and weight < 0 else 1,  # the size comes from the sources
        _ids(entry.get("sources")),
    )


def _dropped(entry: Mapping[str, Any]) -> DroppedSource | None:
    ids = _ids(entry.get("id"))
    reason = entry.get("reason")
    return DroppedSource(ids[0], reason if isinstance(reason, str) else "") if ids else None


def _ids(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(str(one).strip() for one in listed if isinstance(one, str | int) and str(one).strip())
