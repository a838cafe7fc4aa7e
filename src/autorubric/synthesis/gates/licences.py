"""The licence judgment: one question about all criteria of a query, and how several judgments are put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from autorubric.llm.reading.structured import read_json
from autorubric.llm.request import Answer, Message, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.room import room_for
from autorubric.prompts.gating import GatePrompts
from autorubric.prompts.library import load_schema
from autorubric.synthesis.candidate import Candidate, Licence

_NEEDS = ("explicit", "implicit", "none")
_SURFACES = ("phrase", "heading", "count", "layout", "none", "")
_TRUTHS: dict[object, bool] = {True: True, False: False, "true": True, "false": False, "yes": True, "no": False}


def licence_request(
    prompts: GatePrompts,
    query: str | Sequence[Mapping[str, Any]],
    candidates: Sequence[Candidate],
    draw: int = 0,
) -> Request:
    """The question whether the query licenses each criterion; one call for all of them, no response shown.

    Example:
        >>> from autorubric.prompts.gating import package_gate_prompts
        >>> dose = Candidate("m1", "Dose", "States the largest daily dose.", 9)
        >>> licence_request(package_gate_prompts(), "How much ibuprofen may I take?", [dose]).role
        'licence'
    """
    criteria = [{"id": one.id, "requirement": one.description, "pitfall": one.pitfall} for one in candidates]
    messages = tuple(Message(role, text) for role, text in prompts.licence.render(query=query, criteria=criteria))
    schema, room = ReplySchema("licences", load_schema("licence")), room_for(entries=len(candidates))
    constrained = not prompts.licence.wants_list
    return Request(messages, "licence", schema, draw, room=room, constrained=constrained)


def read_licences(candidates: Sequence[Candidate], reply: Reply) -> Answer[dict[str, Licence]] | Unreadable:
    """The licences in a reply by criterion id, with a note for each criterion that is left without one.

    A criterion whose entry is missing, given twice in two ways, or unusable gets no licence; it stays undecided.

    Example:
        >>> said = '{"licences": [{"criterion_id": "m1", "reason": "Asked.", "need": "implicit", "quote": "",'
        >>> said += ' "surface": "none", "surface_asked": true, "answerable": true, "same_as": ""}]}'
        >>> read_licences([Candidate("m1", "Dose", "States the dose.", 9)], Reply(said)).value["m1"].need
        'implicit'
    """
    found = read_json(reply, "array", ("licences",), named="criterion_id")
    if isinstance(found, Unreadable):
        return found
    ids = [one.id for one in candidates]
    said: dict[str, list[Licence | str]] = {}
    for entry in found.value:
        if isinstance(entry, Mapping):
            fields = {str(key).strip().lower(): value for key, value in entry.items()}
            said.setdefault(str(fields.get("criterion_id", "")).strip(), []).append(_licence(fields, ids))
    licences, problems = dict[str, Licence](), list[str]()
    for one in ids:
        entries = said.get(one, ["has no entry"])
        first = entries[0]
        if isinstance(first, str):
            problems.append(f"{one}: {first}")
        elif any(entry != first for entry in entries[1:]):
            problems.append(f"{one}: has two entries that differ")
        else:
            licences[one] = first
    if ids and not licences:
        return Unreadable("unreadable", f"the reply has no usable entry; {problems[0]}")
    return Answer(licences, reply, (*found.notes, *problems))


def agreed_licences(draws: Sequence[Mapping[str, Licence]]) -> dict[str, Licence]:
    """One licence a criterion out of several judgments, each point settled by most of them.

    A tie goes the criterion's way: it takes more than half of the judgments to say that a criterion is not
    licensed, or has an unasked surface form, or cannot be answered, or demands what another one does.

    Example:
        >>> yes, no = Licence("implicit"), Licence("none")
        >>> agreed_licences([{"m1": yes}, {"m1": no}])["m1"].need
        'implicit'
        >>> agreed_licences([{"m1": yes}, {"m1": no}, {"m1": no}])["m1"].need
        'none'
    """
    ids = dict.fromkeys(one for draw in draws for one in draw)
    return {one: _agreed([draw[one] for draw in draws if one in draw]) for one in ids}


def _agreed(said: Sequence[Licence]) -> Licence:
    half = len(said) / 2
    refused = [one for one in said if one.need == "none"]
    granted = [one for one in said if one.need != "none"]
    deciding = refused if len(refused) > half else granted
    need = Counter(one.need for one in deciding).most_common(1)[0][0]
    unasked = [one for one in said if one.surface and not one.surface_asked]
    forms = unasked if len(unasked) > half else [one for one in said if not (one.surface and not one.surface_asked)]
    same = Counter(one.same_as for one in said if one.same_as).most_common(1)
    return Licence(
        need=need,
        quote=next((one.quote for one in deciding if one.need == need and one.quote), ""),
        surface=_most([one.surface for one in forms]),
        surface_asked=len(unasked) <= half,
        answerable=sum(not one.answerable for one in said) <= half,
        reason=next(one.reason for one in deciding if one.need == need),
        same_as=same[0][0] if same and same[0][1] > half else "",
        draws=sum(one.draws for one in said),
    )


T = TypeVar("T")


def _most(values: Sequence[T]) -> T:
    return Counter(values).most_common(1)[0][0]


def _licence(fields: Mapping[str, Any], ids: Sequence[str]) -> Licence | str:
    """The licence in an entry, or what makes the entry unusable."""
    # A null is no word: as text it would read as the word for no need.
    need, surface = (str(fields.get(name) or "").strip().lower() for name in ("need", "surface"))
    asked, answerable = (_truth(fields.get(name)) for name in ("surface_asked", "answerable"))
    if need not in _NEEDS:
        return f"need is {fields.get('need')!r:.60}; expected {', '.join(_NEEDS)}"
    if surface not in _SURFACES:
        return f"surface is {fields.get('surface')!r:.60}; expected {', '.join(_SURFACES[:-1])}"
    if asked is None or answerable is None:
        return "surface_asked and answerable have to be true or false"
    same_as = str(fields.get("same_as") or "").strip()
    return Licence(
        need=cast(Literal["explicit", "implicit", "none"], need),
        quote=str(fields.get("quote") or "").strip(),
        surface=cast(Literal["", "phrase", "heading", "count", "layout"], "" if surface == "none" else surface),
        surface_asked=asked,
        answerable=answerable,
        reason=str(fields.get("reason") or "").strip(),
        same_as=same_as if same_as in ids and same_as != str(fields.get("criterion_id")).strip() else "",
    )


def _truth(value: object) -> bool | None:
    if isinstance(value, str):
        value = value.strip().lower()
    return _TRUTHS.get(value) if isinstance(value, bool | str) else None
