"""Targets that read what models and endpoints reply."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.graders.judge import JudgeInput, ShownOptions
from autorubric.graders.judge_replies import read_said
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.improvement.changed_wording import Wording
from autorubric.improvement.search import Commission
from autorubric.improvement.writing import read_alternatives
from autorubric.llm.http.retry import classify_response
from autorubric.llm.http.transport import HttpReply
from autorubric.llm.http.wire import read_reply
from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.llm.structured import read_json
from autorubric.synthesis.accounting import build_account
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gated import read_rewrites
from autorubric.synthesis.items import read_additions, read_rubric
from autorubric.synthesis.relevance import combine_relevance, read_relevance
from autorubric.synthesis.rubric_merge import read_merge
from autorubric.testing import ScriptedModel
from fuzz.target import Target, of_reply

_BINARY = Criterion(requirement="Names a cause")
_SCALE = Criterion(
    requirement="How many causes?",
    options=[{"label": "None", "value": 0}, {"label": "Some", "value": 0.5}, {"label": "All", "value": 1}],
)
_CASE = JudgeInput("Coal and steam.", (_BINARY, _SCALE, _BINARY))
_SHOWN = ShownOptions(_SCALE, (2, 0, 1))
_SOURCES = (
    Candidate("a1", "Dose", "Names the largest dose of 3,2 g a day.", 9),
    Candidate("a2", "Age", "Asks how old the child is.", 5),
    Candidate("b1", "Amount", "Gives the largest dose of 3.2 g.", 7),
    Candidate("b2", "Made up", "Invents a study.", -6),
    Candidate("b3", "字数", "回答不超过三百字。", 3),
)

_ENTRY = {"explanation": "It names one, “coal”.", "criterion_status": "MET", "quotes": ["Coal and steam"]}
_ITEM = {"title": "Dose", "description": "Names the largest dose.", "weight": 9}
_LICENCE = {"reason": "Asked.", "need": "implicit", "quote": "dose", "surface": "none", "surface_asked": True}
_LICENCES = {
    "licences": [{"criterion_id": one.id, **_LICENCE, "answerable": True, "same_as": ""} for one in _SOURCES]
}
_REWRITES = {
    "rewrites": [{"criterion_id": "a2", "split": "Age?", "title": "Age", "description": "Asks for the age."}]
}
_MERGED = [{"sources": ["a1", "b1"], "title": "Dose", "description": "Names 3.2 g a day.", "weight": 9}]
_MERGE = {"criteria": _MERGED, "dropped": [{"id": "a2", "reason": "Not asked."}]}
_JUDGMENTS = {
    "judgments": [
        {"criterion_id": "c0", "explanation": "Yes.", "criterion_status": "MET"},
        {"criterion_id": "c1", "explanation": "Two.", "selected_option": 2},
        {"criterion_id": "C2", "explanation": "No.", "criterion_status": "not met"},
    ]
}
_COMMISSION = Commission(Wording("Cause", 0, ("Names a cause.",)), [], [], 4, 1)
_ALTERNATIVES = {
    "alternatives": [
        {"reason": "Vague.", "kind": "split", "requirement": "Names a cause.", "second": "Says how it acts."},
        {"kind": "check", "requirement": "Is brief.", "check": "word_count", "parameters": '{"at_most": 9}'},
    ]
}
_COMPLETION = {
    "id": "c1",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "MET"}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}, "cost": 0.1},
}
_FAULT = {"error": {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}}


def _as_models_write(*values: Any) -> list[str]:
    """Each value as JSON, in a fence after a thought, in Python's spelling, cut short, and in an envelope."""
    texts = []
    for value in values:
        plain = json.dumps(value, ensure_ascii=False)
        fenced = (
            f"<think>Let me see: {{a}}</think>\nHere it is [1]:\n```json\n{json.dumps(value, indent=1)}\n```\nDone."
        )
        texts += [plain, fenced, repr(value), plain[: len(plain) * 3 // 4], json.dumps({"arguments": plain})]
        texts.append(plain.replace('"}', '",}').replace(": ", "："))
    return texts


def _whole_rubric(reply: Reply) -> Answer[Any] | Unreadable:
    return RubricJudge(ScriptedModel({})).read(_CASE, (0, 1, 2), reply)


def _account(found: Any) -> object:
    made = build_account(_SOURCES, found.merged, found.dropped)
    if {fate.id for fate in made.fates} != {one.id for one in _SOURCES}:
        raise AssertionError("a criterion was lost in a merge")
    return {"kept": [asdict(one) for one in made.criteria], "fates": [one._asdict() for one in made.fates]}


def _licences(found: Any) -> object:
    return {one: asdict(licence) for one, licence in combine_relevance([found, {}, found]).items()}


def _endpoint(data: bytes) -> None:
    """A body under every status that means something, its own beginning as the header of a wait."""
    for status in (200, 302, 400, 401, 404, 413, 422, 429, 500, 529):
        reply = HttpReply(status, data, {"Retry-After": data[:20].decode("latin-1")})
        if classify_response(reply) is None:
            read_reply(data, 0.1)


def _verdict(found: Any) -> object:
    return [str(found.verdict), found.option, found.explanation, list(found.quotes), list(found.flags)]


TARGETS: dict[str, Target] = {
    "reply-json": of_reply(
        lambda reply: read_json(reply, "object", ("criteria",)),
        lambda reply: read_json(reply, "array", ("criteria", "judgments")),
        seeds=_as_models_write(_ENTRY, [_ITEM], _MERGE),
        plain=lambda value: value,
    ),
    "reply-judge": of_reply(
        read_said,
        lambda reply: read_said(reply, _SHOWN),
        seeds=[*_as_models_write(_ENTRY, {"explanation": "Two.", "selected_option": "Option 2: Some"}), "Not met."],
        plain=_verdict,
    ),
    "reply-rubric-judge": of_reply(
        _whole_rubric,
        seeds=_as_models_write(_JUDGMENTS),
        plain=lambda value: {str(index): str(judgment) for index, judgment in value.items()},
    ),
    "reply-items": of_reply(
        read_rubric,
        lambda reply: read_additions(reply, -10),
        seeds=_as_models_write(
            {"criteria": [_ITEM, {**_ITEM, "weight": "8/10"}]}, [{"标准": "说明剂量", "分值": "7分"}]
        ),
        plain=lambda value: value,
    ),
    "reply-merge": of_reply(read_merge, seeds=_as_models_write(_MERGE, _MERGED), plain=_account),
    "reply-licences": of_reply(
        lambda reply: read_relevance(_SOURCES, reply), seeds=_as_models_write(_LICENCES), plain=_licences
    ),
    "reply-alternatives": of_reply(
        lambda reply: read_alternatives(reply, _COMMISSION, "m"),
        seeds=_as_models_write(_ALTERNATIVES),
        plain=lambda value: [one.to_dict() for one in value],
    ),
    "reply-rewrites": of_reply(
        lambda reply: read_rewrites(_SOURCES, reply),
        seeds=_as_models_write(_REWRITES),
        plain=lambda value: {one: asdict(rewritten) for one, rewritten in value.items()},
    ),
    "endpoint": Target(_endpoint, tuple(json.dumps(one).encode() for one in (_COMPLETION, _FAULT))),
}
"""By name; each begins with replies in the shapes that models give them."""
