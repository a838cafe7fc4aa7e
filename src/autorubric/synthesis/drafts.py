"""The drafts of a record: reference, responses, the pool, and candidate rubrics."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from autorubric.llm.limits import MOST_CRITERIA, estimate_room
from autorubric.llm.request import Answer, Failure, Reply, Unreadable
from autorubric.llm.structured import read_text
from autorubric.prompts import PromptSet
from autorubric.synthesis.items import Item, read_additions, read_rubric
from autorubric.synthesis.stages import (
    Call,
    Fields,
    Models,
    Stage,
    StageOutcome,
    fail_missing,
    has_items,
    has_text,
    is_list,
    query_in,
)
from autorubric.synthesis.templates import build_request
from autorubric.synthesis.thresholds import Filters

_FENCE = re.compile(r"^\s*(```|~~~)", re.MULTILINE)
_LEAST_LOOP = 12  # characters: shorter lines, such as table rules and braces, are often repeated in sound texts


def build_answer_stage(prompts: PromptSet, name: str, role: str, *, step: int, draw: int) -> Stage:
    """Build the stage that writes an answer to the query: reference, response, or a rubric model's own answer."""
    mark = name.rpartition("_")[2] if "_" in name else ""

    def build(fields: Fields, models: Models) -> list[Call]:
        request = build_request(prompts.reference, role, {"query": query_in(fields)}, draw=draw)
        return [Call(name, request, read_answer)]

    return Stage(
        name,
        step,
        ("question",),
        build,
        slots=(name,),
        role=role,
        reply_tokens=750,
        example=lambda fields, tokens: f"{mark} " + "word " * int(tokens * 4 / 5),
        finished=has_text,
        empty="",
    )


def read_answer(reply: Reply) -> Answer[str] | Unreadable:
    """Return the text of an answer."""
    # Versions that recorded no limit accepted truncated texts; values derived from these stay valid.
    return read_text(reply, whole=reply.limit is not None)


def build_criteria_stage(prompts: PromptSet, name: str, ground: str, *, draw: int, lowest: int) -> Stage:
    """Return the stage that writes criteria as {title, description, weight} from a grounding answer.

    `rubrics_<letter>` has weights of at least `lowest`; `pitfalls_<letter>` has faults with weights from -10 to -1.
    """
    pitfalls = name.startswith("pitfalls")
    slot = f"rubric_{name.rpartition('_')[2]}"
    template, role, schema = (
        (prompts.pitfalls, "pitfall", "pitfall_items") if pitfalls else (prompts.rubric, "rubric", "rubric_items")
    )

    read = read_pitfalls if pitfalls else partial(read_rubric, lowest=lowest)

    def build(fields: Fields, models: Models) -> list[Call] | StageOutcome:
        if not has_text(fields.get(ground)):
            return fail_missing(ground)
        inputs = {"query": query_in(fields), "reference": fields[ground]}
        room = estimate_room(entries=MOST_CRITERIA)
        return [Call(slot, build_request(template, role, inputs, schema, draw=draw, room=room), read)]

    return Stage(
        name,
        2,
        ("question", ground),
        build,
        slots=(slot,),
        role=role,
        reply_tokens=500 if pitfalls else 1050,
        example=lambda fields, tokens: make_example_items(tokens, -5 if pitfalls else 5, name),
        finished=is_list if pitfalls else has_items,
        empty=[],
    )


def make_example_items(tokens: float, weight: int = 5, name: str = "") -> list[dict[str, Any]]:
    """Make example criteria of about `tokens` tokens, for estimates; another `name` gives other criteria."""
    count = max(1, int(tokens / 50))
    texts = (f"{name} {n} " + "word " * 30 for n in range(count))
    return [{"title": "Title of it", "description": text, "weight": weight} for text in texts]


def read_pitfalls(reply: Reply) -> Answer[list[Item]] | Unreadable:
    """Read the faults in a reply; the sign of a positive weight is changed."""
    answer = read_additions(reply, -10)
    if isinstance(answer, Unreadable):
        return answer
    unsigned = sum(item["weight"] > 0 for item in answer.value)
    items: list[Item] = [{**item, "weight": -abs(item["weight"])} for item in answer.value]
    notes = ("pitfalls had positive weights",) if unsigned else ()
    return Answer(items, reply, (*answer.notes, *notes))


def build_pool_stage(names: Sequence[str], filters: Filters) -> Stage:
    """Build the stage that writes `pool`: the slots of the responses that stay, and left-out slots with reasons."""

    def build(fields: Fields, models: Models) -> StageOutcome:
        texts = {name.removeprefix("response_"): str(fields.get(name) or "") for name in names}
        faults = {letter: find_response_fault(text, filters) for letter, text in texts.items() if has_text(text)}
        slots = [letter for letter, fault in faults.items() if fault is None]
        left_out = [{"slot": letter, "reason": fault} for letter, fault in faults.items() if fault]
        if not slots:
            return StageOutcome(failure=Failure("missing_input", "missing responses: none can be graded"))
        notes = tuple(f"a response left the pool: {entry['reason']}" for entry in left_out)
        return StageOutcome({"slots": slots, "left_out": left_out}, "filters", notes=notes)

    return Stage(
        "pool", 1, tuple(names), build, finished=lambda value: isinstance(value, dict) and bool(value.get("slots"))
    )


def find_response_fault(text: str, filters: Filters) -> str | None:
    """Return why a response is removed from the pool; None if it may stay."""
    length = len(text.strip())
    if length < filters.response_least_characters:
        return f"shorter than {filters.response_least_characters} characters"
    if length > filters.response_most_characters:
        return f"longer than {filters.response_most_characters} characters"
    if filters.response_closed_fences and len(_FENCE.findall(text)) % 2:
        return "a code fence is never closed"
    lines = Counter(line.strip() for line in text.splitlines() if len(line.strip()) >= _LEAST_LOOP)
    if lines and max(lines.values()) > filters.response_most_repeats:
        return f"one line is repeated more than {filters.response_most_repeats} times"
    return None


def find_criterion_fault(description: str, weight: int, filters: Filters) -> str | None:
    """Return why a criterion is dropped; None if it may stay."""
    text = description.strip()
    if not weight:
        return "weight 0"
    if len(text) < filters.criterion_least_characters:
        return f"shorter than {filters.criterion_least_characters} characters"
    if len(text) > filters.criterion_most_characters:
        return f"longer than {filters.criterion_most_characters} characters"
    if filters.criterion_plain_text and ("```" in text or text.startswith(('{"', "[{"))):
        return "not plain text"
    return None
