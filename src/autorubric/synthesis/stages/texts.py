"""Reference and responses: plain answers to the query."""

from __future__ import annotations

from autorubric.llm.request import Answer, Reply, Request, Unreadable
from autorubric.prompts import PromptSet
from autorubric.synthesis.plan import Fields, Stage
from autorubric.synthesis.stages.asking import has_text, request_from


def reference_stage(prompts: PromptSet) -> Stage:
    """The stage that writes `reference`, the answer that anchors the rubric."""
    return _answer_stage(prompts, name="reference", slot="reference", role="reference", step=0, draw=0)


def response_stage(prompts: PromptSet, letter: str, *, draw: int) -> Stage:
    """The stage that writes `response_<letter>`, one of the answers that evolution compares."""
    slot = f"response_{letter}"
    return _answer_stage(prompts, name=slot, slot=slot, role="response", step=1, draw=draw)


def _answer_stage(prompts: PromptSet, *, name: str, slot: str, role: str, step: int, draw: int) -> Stage:
    template = prompts.reference

    def build(fields: Fields) -> Request:
        return request_from(template, {"query": fields["question"].strip()}, role=role, draw=draw)

    return Stage(name, slot, step, ("question",), build, read_text, has_text, empty="")


def read_text(reply: Reply) -> Answer[str] | Unreadable:
    """The reply's text; a text cut off by the token limit is kept, with a note.

    Example:
        >>> read_text(Reply("Paris.")).value
        'Paris.'
        >>> read_text(Reply("")).kind
        'empty'
    """
    if reply.refusal or reply.finish_reason == "content_filter":
        return Unreadable("refusal", reply.refusal or "stopped by the endpoint's content filter", again=False)
    if not reply.text.strip():
        cause = "the token limit was spent before any text" if reply.finish_reason == "length" else "no text"
        return Unreadable("empty", cause)
    notes = ("cut off by the token limit",) if reply.finish_reason == "length" else ()
    return Answer(reply.text, reply, notes)
