"""What a run would ask and cost, before anything is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autorubric.llm.model import Model
from autorubric.llm.request import Request, Usage
from autorubric.synthesis.answering import StageAnswerer
from autorubric.synthesis.plan import Plan, Stage
from autorubric.synthesis.queries import Query
from autorubric.synthesis.runner import Row, run_plan

REPLY_TOKENS = {"reference": 750, "response": 750, "rubric": 1050, "merge": 1500, "augment": 350}
"""Assumed length of a reply by role, in tokens, where this directory has no replies yet to measure."""

CHARS_A_TOKEN = 4
SAMPLED_ROWS = 200


@dataclass(frozen=True, slots=True)
class SlotEstimate:
    """What one slot would take.

    Attributes:
        slot: the slot, such as `rubric_a`.
        model: who plays it.
        calls: calls still to make, if none has to be asked again.
        usage: expected tokens of those calls.
        cost: their expected price; None where the model's price is unknown.
        ceiling_tokens: the most tokens they can take; None where nothing bounds them.
        ceiling_cost: the most they can cost.
    """

    slot: str
    model: str
    calls: int
    usage: Usage
    cost: float | None
    ceiling_tokens: int | None
    ceiling_cost: float | None


async def calls_to_make(plan: Plan, queries: Iterable[Query], answer: StageAnswerer) -> Counter[str]:
    """How many calls each stage still needs: those that nothing on record answers.

    `answer` must ask through an executor that was stopped, so that it finds but never calls.
    """
    counts: Counter[str] = Counter()
    single = sum(stage.step == 2 for stage in plan.stages) == 1

    def count(row: Row) -> None:
        for stage in plan.stages:
            passes_through = single and stage.name == "merged_rubrics"
            if row.outcomes[stage.name].failure is not None and not passes_through:
                counts[stage.name] += 1

    await run_plan(plan, queries, answer, window=64, finished=count)
    return counts


def estimates(
    plan: Plan,
    queries: Iterable[Query],
    models: Mapping[str, Model],
    calls: Mapping[str, int],
    measured: Callable[[str], float | None] = lambda role: None,
) -> list[SlotEstimate]:
    """Calls, tokens and cost of every slot, scaled up from the first rows of the input.

    Args:
        plan: the stages.
        queries: the input; at most `SAMPLED_ROWS` of it are read.
        models: the model of every slot.
        calls: calls to make by stage, from `calls_to_make`.
        measured: the mean reply length of a role in tokens, where this directory has replies already.
    """
    sample = list(islice(queries, SAMPLED_ROWS))
    lengths = {role: measured(role) or tokens for role, tokens in REPLY_TOKENS.items()}
    return [_estimate(stage, sample, models[stage.role], calls[stage.name], lengths) for stage in plan.stages]


def _estimate(
    stage: Stage, sample: list[Query], model: Model, calls: int, lengths: Mapping[str, float]
) -> SlotEstimate:
    asked = [built for q in sample if isinstance(built := stage.build(_filled(q, lengths)), Request)]
    if not asked or not calls:
        return SlotEstimate(stage.role, model.name, calls, Usage(), 0.0, 0, 0.0)
    ceilings = [model.ceiling(request) for request in asked]
    prompt = sum(len(m.content) for request in asked for m in request.messages) / CHARS_A_TOKEN / len(asked)
    reply = lengths[asked[0].role]
    known = [c for c in ceilings if c is not None]
    most = max((c.completion_tokens for c in known), default=None)
    reply = min(reply, most) if most else reply
    usage = Usage(round(prompt * calls), round(reply * calls))
    bound = None
    if len(known) == len(ceilings):
        bound = Usage(round(sum(c.prompt_tokens for c in known) / len(known) * calls), (most or 0) * calls)
    return SlotEstimate(
        stage.role,
        model.name,
        calls,
        usage,
        model.cost(usage),
        bound.total_tokens if bound else None,
        model.cost(bound) if bound else None,
    )


def _filled(query: Query, lengths: Mapping[str, float]) -> dict[str, Any]:
    """A row as it may look when its later stages are built, with texts of the expected lengths."""

    def text(role: str) -> str:
        return "word " * int(lengths[role] * CHARS_A_TOKEN / 5)

    def items(role: str) -> list[dict[str, Any]]:
        count = max(1, int(lengths[role] / 50))
        return [{"title": "Title of it", "description": "word " * 30, "weight": 5}] * count

    fields: dict[str, Any] = {"question": query.fields["question"], "reference": text("reference")}
    for letter in "abcdefghijklmnopqrstuvwxyz":
        fields[f"response_{letter}"] = text("response")
        fields[f"rubrics_{letter}"] = items("rubric")
    fields["merged_rubrics"] = items("merge")
    return fields
