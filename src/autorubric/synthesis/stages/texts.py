"""Reference and responses: plain answers to the query."""

from __future__ import annotations

from autorubric.llm.reading.structured import read_text
from autorubric.llm.request import Answer, Reply, Request, Unreadable
from autorubric.prompts import PromptSet
from autorubric.synthesis.plan import Fields, Stage
from autorubric.synthesis.stages.asking import has_text, query_in, request_from


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
        return request_from(template, {"query": query_in(fields)}, role=role, draw=draw)

    return Stage(name, slot, step, ("question",), build, _read, has_text, empty="")


def _read(reply: Reply) -> Answer[str] | Unreadable:
    # Versions that recorded no limit took a text that was cut off as it was; what rests on it stays valid.
    return read_text(reply, whole=reply.limit is not None)
