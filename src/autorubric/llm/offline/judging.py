"""A verdict from counts, formats and shared words: a stand-in for a judge that reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from autorubric.llm.offline.bank import bank
from autorubric.llm.offline.constraints import find_constraints, holds
from autorubric.llm.offline.criteria import constraint_words
from autorubric.llm.offline.tables import words
from autorubric.llm.offline.words import language_of, terms

_ENOUGH = 0.5


def judge(requirement: str, submission: str) -> dict[str, str]:
    """A verdict on one criterion with its explanation first, as a judge is asked to reply.

    Demands that can be counted or matched decide on their own; otherwise the submission has to hold half of
    the requirement's content words. A requirement without any is not assessed.

    Example:
        >>> judge("Contains at most 3 words.", "One two three four.")["criterion_status"]
        'UNMET'
        >>> judge("Names the boiling point of water.", "Water boils at 100 degrees: its boiling point.")
        {'explanation': '3 of 3 content words of the requirement occur in the submission.',
        'criterion_status': 'MET'}
    """
    say: Mapping[str, Any] = bank(language_of(requirement))["judge"]
    if not submission.strip():
        return _verdict(say["empty"], "UNMET")
    checks = [(c, holds(c, submission)) for c in find_constraints(requirement)]
    decided = [(constraint, kept) for constraint, kept in checks if kept is not None]
    if decided:
        said = [
            say["check"].format(v=constraint_words(constraint), result=say["held" if kept else "broken"])
            for constraint, kept in decided
        ]
        return _verdict(" ".join(said), "MET" if all(kept for _, kept in decided) else "UNMET")
    quoted = re.findall(r"[\"“「](.{2,60}?)[\"”」]", requirement)
    if quoted and not all(part.lower() in submission.lower() for part in quoted):
        return _verdict(say["check"].format(v=", ".join(quoted), result=say["broken"]), "UNMET")
    wanted = terms(requirement) - _rubric_words()
    if not wanted:
        return _verdict(say["unclear"], "CANNOT_ASSESS")
    found = len(wanted & terms(submission))
    explanation = say["lexical"].format(found=found, all=len(wanted))
    return _verdict(explanation, "MET" if found >= _ENOUGH * len(wanted) else "UNMET")


def choose(requirement: str, submission: str, values: Sequence[float | None]) -> dict[str, Any]:
    """The number of an option, from 1, with its explanation first.

    A submission that `judge` finds to meet the requirement gets the option that is worth most, one that does
    not the one that is worth least, and where it cannot say the one without a worth, if there is one.

    Example:
        >>> choose("Names the boiling point of water.", "It is tall.", [1.0, 0.0, None])["selected_option"]
        2
    """
    found = judge(requirement, submission)
    scored = [place for place, value in enumerate(values) if value is not None]
    without = [place for place, value in enumerate(values) if value is None]
    if found["criterion_status"] == "CANNOT_ASSESS" and without:
        place = without[0]
    else:
        best = max if found["criterion_status"] == "MET" else min
        place = best(scored or [0], key=lambda place: values[place] or 0.0)
    return {"explanation": found["explanation"], "selected_option": place + 1}


def _verdict(explanation: str, status: str) -> dict[str, str]:
    return {"explanation": explanation, "criterion_status": status}


@cache
def _rubric_words() -> frozenset[str]:
    return terms(" ".join(words("rubric_words")))
