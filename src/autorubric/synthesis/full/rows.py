"""Criteria, verdicts and licences as the row fields hold them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from autorubric.synthesis.candidate import Candidate, Licence, Pool, Votes
from autorubric.synthesis.plan import Fields


def criterion_row(one: Candidate) -> dict[str, Any]:
    """A criterion as JSON values, without what has its default.

    Example:
        >>> criterion_row(Candidate("m1", "Dose", "Names the dose.", 9, parents=("a1",)))
        {'id': 'm1', 'title': 'Dose', 'description': 'Names the dose.', 'weight': 9, 'origin': 'merged',
        'round': 0, 'models': [], 'parents': ['a1']}
    """
    row = asdict(one) | {"models": list(one.models), "parents": list(one.parents)}
    return {key: value for key, value in row.items() if not (key in ("check", "rewritten") and not value)}


def criterion_in(row: Mapping[str, Any]) -> Candidate:
    """The criterion that a row holds.

    Example:
        >>> one = Candidate("m1", "Dose", "Names the dose.", 9, models=("openai/a",))
        >>> criterion_in(criterion_row(one)) == one
        True
    """
    return Candidate(**{**row, "models": tuple(row["models"]), "parents": tuple(row["parents"])})


def criteria_in(fields: Fields, names: Iterable[str]) -> tuple[Candidate, ...]:
    """The criteria that several fields of a row hold under `criteria`, in order.

    Example:
        >>> criteria_in({"merge": {"criteria": []}}, ["merge", "round_1"])
        ()
    """
    return tuple(criterion_in(row) for name in names for row in (fields.get(name) or {}).get("criteria", ()))


def holds_criteria(value: Any) -> bool:
    """Whether a field's value is a list of criteria with ids, as this method writes it.

    Example:
        >>> holds_criteria([{"title": "Dose", "description": "Names the dose.", "weight": 9}])
        False
    """
    return isinstance(value, list) and all(isinstance(row, Mapping) and "id" in row for row in value)


def pool_in(fields: Fields, judges: Sequence[str], verdicts: Iterable[str]) -> Pool:
    """The pool of a row with the verdicts of several fields; a criterion in two of them has those of the later.

    Example:
        >>> fields = {"pool": {"slots": ["a"]}, "response_a": "4 g.",
        ...     "merged_verdicts": {"votes": {"m1": [[True]]}}}
        >>> pool_in(fields, ["judge_a"], ["merged_verdicts"]).votes
        {'m1': ((True,),)}
    """
    votes: dict[str, Votes] = {}
    for name in verdicts:
        held = fields.get(name) or {}
        votes |= {one: tuple(map(tuple, rows)) for one, rows in held.get("votes", {}).items()}
    return Pool(tuple(responses_in(fields).values()), tuple(judges), votes)


def responses_in(fields: Fields) -> dict[str, str]:
    """The responses of a row's pool by slot letter.

    Example:
        >>> responses_in({"pool": {"slots": ["b"]}, "response_a": "", "response_b": "4 g."})
        {'b': '4 g.'}
    """
    held = fields.get("pool") or {"slots": []}
    return {slot: fields[f"response_{slot}"] for slot in held["slots"]}


def licences_in(fields: Fields, name: str) -> dict[str, Licence]:
    """The licences that a field holds, by criterion id; none where the field is empty.

    Example:
        >>> licences_in({"licences": {"m1": {"need": "implicit"}}}, "licences")["m1"].need
        'implicit'
    """
    return {one: Licence(**said) for one, said in (fields.get(name) or {}).items()}
