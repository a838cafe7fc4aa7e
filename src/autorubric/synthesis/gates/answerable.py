"""The gate of answerability: the submission alone shows whether the criterion is met."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gates.decision import Decision, GateContext
from autorubric.synthesis.gates.settings import GateSettings

_UNSEEN = re.compile(
    r"\b(?:the|a) reference (?:answer|response|solution|text)\b"
    r"|\b(?:than|as|like) the (?:other|first|second|previous) (?:answer|response|submission)s?\b"
    r"|\b(?:other|both|all) (?:answers|responses|submissions)\b"
    r"|\bresponse [AB12]\b"
    r"|(?:参考|标准)(?:答案|回答)|(?:其他|另一个|别的|两个)(?:回答|答案|回复)",
    re.IGNORECASE,
)


def answerable(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[Decision]:
    """A rejection for criteria that need more than the query and one submission to be decided.

    Besides the licence judges, a criterion's own words tell: one that speaks of a reference answer or of other
    responses asks for what no grader sees, unless the query speaks of them too.

    Example:
        >>> from autorubric.synthesis.candidate import Pool
        >>> one = Candidate("e1.1", "Depth", "Goes deeper than the other response.", 5, "evolved", 1)
        >>> answerable([one], GateContext("Why?", (one,), Pool((), ())), GateSettings())[0].outcome
        'rejected'
    """
    return [_decision(one, context) for one in candidates]


def _decision(one: Candidate, context: GateContext) -> Decision:
    unseen = _UNSEEN.search(one.description)
    if unseen and not _UNSEEN.search(context.query_text):
        reason = f"it speaks of {unseen.group()!r}, which a grader does not see"
        return Decision(one.id, "answerable", "rejected", {"words": unseen.group()}, reason)
    licence = context.licence_of(one)
    if licence is None:
        return Decision(one.id, "answerable", "undecided", {}, "no licence judgment")
    if not licence.answerable:
        reason = licence.reason or "the submission alone does not show whether it is met"
        return Decision(one.id, "answerable", "rejected", {"draws": licence.draws}, reason)
    return Decision(one.id, "answerable", "kept", {"draws": licence.draws})
