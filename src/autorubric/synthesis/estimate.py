"""What a run would ask and cost, before anything is spent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any

from autorubric.llm.limits import started
from autorubric.llm.model import Model
from autorubric.llm.request import Request, Usage
from autorubric.synthesis.answering import StageAnswerer
from autorubric.synthesis.example import REPLY_TOKENS, example_fields
from autorubric.synthesis.plan import AnyStage, Derivation, Inquiry, Plan, Stage
from autorubric.synthesis.queries import Query
from autorubric.synthesis.runner import Row, run_plan

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

    def __add__(self, other: SlotEstimate) -> SlotEstimate:
        return SlotEstimate(
            self.slot,
            self.model,
            self.calls + other.calls,
            self.usage + other.usage,
            _sum(self.cost, other.cost),
            _sum(self.ceiling_tokens, other.ceiling_tokens),
            _sum(self.ceiling_cost, other.ceiling_cost),
        )


@dataclass(frozen=True, slots=True)
class Needed:
    """The calls that a run still has to make.

    Attributes:
        fixed: calls that are made in any case, by (stage, slot).
        more: calls that are made under a condition only, by (condition, stage, slot).
    """

    fixed: Counter[tuple[str, str]] = field(default_factory=Counter)
    more: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def by_condition(self) -> dict[str, int]:
        """How many calls each condition adds, in the order of the stages."""
        found: Counter[str] = Counter()
        for (condition, _, _), calls in self.more.items():
            found[condition] += calls
        return dict(found)


async def calls_to_make(plan: Plan, queries: Iterable[Query], answer: StageAnswerer) -> Needed:
    """How many calls each stage still needs: those that nothing on record answers.

    `answer` must ask through an executor that was stopped, so that it finds but never calls.
    """
    needed, seen = Needed(), set[bytes]()
    single = sum(stage.step == 2 for stage in plan.stages) == 1

    def count(row: Row) -> None:
        # Rows that ask the same share their calls.
        mark = _fingerprint(plan, row)
        if mark in seen:
            return
        seen.add(mark)
        for stage in plan.stages:
            passes_through = single and stage.name == "merged_rubrics"
            if row.outcomes[stage.name].failure is not None and not passes_through:
                _count(needed, plan, stage, row, answer)

    await run_plan(plan, queries, answer, window=64, finished=count)
    return needed


def calls_a_query(plan: Plan, models: Mapping[str, Model], query: Query) -> Needed:
    """The calls of one query from nothing, the conditional ones with their conditions.

    Example:
        >>> from autorubric.prompts import package_prompts
        >>> from autorubric.synthesis.stages import basic_plan
        >>> query = Query(0, "q", {"question": "Why?"})
        >>> calls_a_query(basic_plan(package_prompts()), {}, query).fixed.total()
        7
    """
    needed = Needed()
    for stage in plan.stages:
        _count_example(needed, plan, stage, query, models)
    return needed


def estimates(
    plan: Plan,
    queries: Iterable[Query],
    models: Mapping[str, Model],
    needed: Needed,
    measured: Callable[[str], float | None] = lambda role: None,
) -> list[SlotEstimate]:
    """Calls, tokens and cost of every slot, scaled up from the first rows of the input.

    Args:
        plan: the stages.
        queries: the input; at most `SAMPLED_ROWS` of it are read.
        models: the model of every slot.
        needed: the calls to make, from `calls_to_make`; those under a condition are left out here.
        measured: the mean reply length of a role in tokens, where this directory has replies already.
    """
    lengths = {role: measured(role) or tokens for role, tokens in REPLY_TOKENS.items()}
    sample = list(islice(queries, SAMPLED_ROWS))
    # Of the full method, whose requests are many, a few rows say as much about lengths.
    sample = sample[:8] if any(isinstance(stage, Inquiry) for stage in plan.stages) else sample
    examples = [example_fields(query, plan, lengths) for query in sample]
    found: dict[str, SlotEstimate] = {}
    for stage in plan.stages:
        asked = [one for fields in examples for one in _requests(stage, fields, models)]
        for slot in stage.slots:
            requests = [request for name, request in asked if name == slot]
            made = _estimate(slot, requests, models[slot], needed.fixed[stage.name, slot], lengths)
            found[slot] = found[slot] + made if slot in found else made
    return list(found.values())


def _fingerprint(plan: Plan, row: Row) -> bytes:
    """What decides which calls a row needs, and which replies answer them."""
    unfinished = [stage.name for stage in plan.stages if row.outcomes[stage.name].failure is not None]
    names = sorted({name for stage in plan.stages for name in (stage.name, *stage.reads)})
    read = [row.query.fields.get(name) for name in names]
    return blake2b(json.dumps([unfinished, read], default=str).encode(), digest_size=16).digest()


def _count(needed: Needed, plan: Plan, stage: AnyStage, row: Row, answer: StageAnswerer) -> None:
    """Count what a stage that did not come to its end would still ask."""
    if isinstance(stage, Inquiry) and row.stopped(stage) is None:
        for slot, request in _distinct(stage.requests(row.fields, answer.models)):
            needed.fixed[stage.name, slot] += not answer.is_recorded(slot, request)
    else:
        _count_example(needed, plan, stage, row.query, answer.models)


def _count_example(needed: Needed, plan: Plan, stage: AnyStage, query: Query, models: Mapping[str, Model]) -> None:
    if isinstance(stage, Stage):
        needed.fixed[stage.name, stage.role] += 1
    elif isinstance(stage, Inquiry):
        for slot, _ in _distinct(stage.requests(example_fields(query, plan), models)):
            if stage.only_if:
                needed.more[stage.only_if, stage.name, slot] += 1
            else:
                needed.fixed[stage.name, slot] += 1


def _distinct(requests: Iterable[tuple[str, Request]]) -> list[tuple[str, Request]]:
    """Requests without those that ask the same: two equal responses of a pool are judged once."""
    return list({(slot, one.messages, one.draw): (slot, one) for slot, one in requests}.values())


def _requests(stage: AnyStage, fields: Mapping[str, Any], models: Mapping[str, Model]) -> list[tuple[str, Request]]:
    if isinstance(stage, Derivation):
        return []
    if isinstance(stage, Inquiry):
        return stage.requests(fields, models)
    built = stage.build(fields)
    return [(stage.role, built)] if isinstance(built, Request) else []


def _estimate(
    slot: str, asked: Sequence[Request], model: Model, calls: int, lengths: Mapping[str, float]
) -> SlotEstimate:
    if not asked or not calls:
        return SlotEstimate(slot, model.name, calls, Usage(), 0.0, 0, 0.0)
    ceilings = [model.ceiling(started(model, request)) for request in asked]
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
        slot,
        model.name,
        calls,
        usage,
        model.cost(usage),
        bound.total_tokens if bound else None,
        model.cost(bound) if bound else None,
    )


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other
