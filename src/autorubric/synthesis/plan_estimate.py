"""Estimates of the calls, tokens and cost of a run before anything is spent, from its plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from autorubric.llm.executor import Executor
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.sharing import Amount
from autorubric.runs.blocks import Room
from autorubric.synthesis.method import build_plan
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.slots import find_refreshed_slots, find_shape
from autorubric.synthesis.stage_runner import Row, StageRunner, count_refreshes, run_plan
from autorubric.synthesis.stages import Call, Fields, Models, Plan, Stage, StageOutcome

if TYPE_CHECKING:
    from autorubric.synthesis.synthesis_run import Prepared

SAMPLED_ROWS = 200


@dataclass(frozen=True, slots=True)
class NeededCalls:
    """The calls that a run still needs.

    Attributes:
        fixed: unconditional calls, by (stage, slot).
        conditional: calls that depend on a condition, by (condition, stage, slot), in the order of the stages.
    """

    fixed: Counter[tuple[str, str]] = field(default_factory=Counter)
    conditional: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add_example(self, stages: Iterable[Stage], fields: Fields, runner: StageRunner, *, is_new: bool) -> None:
        """Count the calls of stages for an example row: all if `is_new`, else those without a recorded reply."""
        asking = (one for one in stages if one.slots)
        for stage, call in ((one, call) for one in asking for call in one.list_calls(fields, runner.models)):
            if not is_new and runner.is_recorded(call.slot, call.request):
                continue
            if stage.only_if:
                self.conditional[stage.only_if, stage.name, call.slot] += 1
            else:
                self.fixed[stage.name, call.slot] += 1


class JudgePrice(NamedTuple):
    """All judge calls of a run with one value of `judging`; `cost` is None if a price is unknown."""

    calls: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """The calls, tokens and cost that a run would need.

    Attributes:
        queries: usable input rows.
        slots: calls, tokens and cost of every slot; only their `most` covers calls under a condition.
        per_query: the calls for one query if nothing is recorded.
        needed: the calls that the run still has to make.
        judges: the judge calls of the whole run if nothing is recorded, for judging by `criterion` and by `rubric`,
            the chosen one first; empty in the basic profile.
    """

    queries: int
    slots: Mapping[str, ModelEstimate]
    per_query: NeededCalls
    needed: NeededCalls
    judges: Mapping[str, JudgePrice] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """The number of unconditional calls to make."""
        return sum(slot.calls for slot in self.slots.values())

    @property
    def cost(self) -> float | None:
        """Expected dollars; None if a model's price is unknown."""
        costs = [slot.cost for slot in self.slots.values()]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


async def estimate_run(prepared: Prepared, models: Models, ledger: Ledger) -> PlanEstimate:
    """Estimate what a run still needs; sends no request and records nothing."""
    executor = Executor(ledger)
    executor.stop("dry run")
    refreshes = count_refreshes(ledger, models, find_refreshed_slots(prepared.settings), keep=False)
    runner = StageRunner(executor, models, ledger, refreshes, follow_up=prepared.prompts.follow_up)
    measured = {total.role: total.usage.completion_tokens / total.calls for total in ledger.add_up() if total.calls}
    plan, queries, rows = prepared.plan, prepared.source, prepared.report.rows
    needed = await _count_needed(plan, queries, runner)
    per_query, example = NeededCalls(), _make_example(next(iter(queries)), plan, models, {})
    per_query.add_example(plan.stages, example, runner, is_new=True)
    sampled = {how: _sample_calls(one, queries, models, measured) for how, one in _build_plans(prepared).items()}
    slots = _estimate_slots(next(iter(sampled.values())), models, needed, measured)
    judges = {judging: price for judging, calls in sampled.items() if (price := _price_judges(calls, models, rows))}
    return PlanEstimate(rows, slots, per_query, needed, judges)


def compute_worst_case(plan: Plan, query: Query, models: Models) -> Amount:
    """Compute the maximum cost of a query if no request is repeated; zero if it is unbounded."""
    example, needed = _make_example(query, plan, models, {}), Amount()
    for stage in plan.stages:
        for call in stage.list_calls(example, models) if stage.slots else ():
            estimate = ModelEstimate(models[call.slot])
            estimate.add(call.request, stage.reply_tokens)
            if estimate.most is None:
                return Amount()
            cost = estimate.model.cost(estimate.most)
            needed = needed.plus(Amount.from_dollars(estimate.most.total_tokens, cost or 0.0))
    return needed


def _build_plans(prepared: Prepared) -> dict[str, Plan]:
    """Build the plan of a run and, for the full profile, its variant with the other `judging`, by that setting."""
    settings = prepared.settings
    if settings.profile != "full":
        return {"": prepared.plan}
    other = "rubric" if settings.full_profile.judging == "criterion" else "criterion"
    full = settings.full_profile.model_copy(update={"judging": other})
    plan = build_plan(prepared.prompts, find_shape(settings, prepared.report.responses), full)
    plan = plan.cut_after(settings.until) if settings.until else plan
    return {settings.full_profile.judging: prepared.plan, other: plan}


async def _count_needed(plan: Plan, queries: Iterable[Query], runner: StageRunner) -> NeededCalls:
    """Count the calls that each stage still needs, because no reply is recorded."""
    needed, seen = NeededCalls(), set[bytes]()
    not_reached: dict[bytes, NeededCalls] = {}  # stages that build no calls yet, by what decides their number

    def count(row: Row) -> None:
        unfinished = [stage for stage in plan.stages if stage.slots and row.outcomes[stage.name].failure is not None]
        mark = _hash_calls(plan, unfinished, row.query)
        if mark in seen:  # rows with the same requests share their calls
            return
        seen.add(mark)
        later: list[Stage] = []
        for stage in unfinished:
            calls = stage.list_calls(row.fields, runner.models) if row.unreached.isdisjoint(stage.reads) else ()
            if calls:
                asked = [call for call in calls if not runner.is_recorded(call.slot, call.request)]
                needed.fixed.update((stage.name, call.slot) for call in asked or calls[:1])
            else:
                later.append(stage)
        if not later:
            return
        reached = replace(row.query, fields=row.fields)
        mark = _hash_calls(plan, later, reached, besides="question")  # its words do not change their number
        if mark not in not_reached:
            example, not_reached[mark] = _make_example(reached, plan, runner.models, {}), NeededCalls()
            not_reached[mark].add_example(later, example, runner, is_new=False)
        needed.fixed.update(not_reached[mark].fixed)
        needed.conditional.update(not_reached[mark].conditional)

    await run_plan(plan, queries, runner, room=Room(64), finished=count)
    return needed


def _make_example(query: Query, plan: Plan, models: Models, measured: Mapping[str, float]) -> dict[str, Any]:
    """Make a query's row with example values of the expected lengths that satisfies every condition of the plan."""
    fields: dict[str, Any] = dict(query.fields)
    read = {name for stage in plan.stages for name in stage.reads}
    for stage in plan.stages:
        if stage.name not in read or (stage.name in fields and stage.finished(fields[stage.name])):
            continue
        fields[f"{stage.name}_model"] = ""
        if stage.example is not None:
            fields[stage.name] = stage.example(fields, measured.get(stage.role) or stage.reply_tokens)
        elif not stage.slots:
            made = stage.build(fields, models)
            fields[stage.name] = made.value if isinstance(made, StageOutcome) else None
    return fields


_Sampled: TypeAlias = list[tuple[Stage, list[Sequence[Call]]]]
"""The calls of each stage of a plan, for the first rows of the input."""


def _sample_calls(plan: Plan, queries: Iterable[Query], models: Models, measured: Mapping[str, float]) -> _Sampled:
    # The full profile has so many requests per row that a few rows are enough.
    sample = islice(queries, 8 if any(stage.work for stage in plan.stages) else SAMPLED_ROWS)
    examples = [_make_example(query, plan, models, measured) for query in sample]
    return [(stage, [stage.list_calls(row, models) for row in examples]) for stage in plan.stages if stage.slots]


def _estimate_slots(
    sampled: _Sampled, models: Models, needed: NeededCalls, measured: Mapping[str, float]
) -> dict[str, ModelEstimate]:
    """Calls, tokens and cost of every slot, scaled up from the first rows of the input."""
    found: dict[str, ModelEstimate] = {}
    for stage, rows in sampled:
        for slot in stage.slots:
            estimate = ModelEstimate(models[slot])
            for call in chain.from_iterable(rows):
                if call.slot == slot:
                    estimate.add(call.request, measured.get(stage.role) or stage.reply_tokens)
            made = estimate.scale(needed.fixed[stage.name, slot])
            if added := needed.conditional[stage.only_if, stage.name, slot]:
                made += ModelEstimate(models[slot], most=estimate.scale(added).most)
            found[slot] = found[slot] + made if slot in found else made
    return found


def _price_judges(sampled: _Sampled, models: Models, rows: int) -> JudgePrice | None:
    """Return the judge calls of all queries, scaled up from the first rows; None if nothing is judged."""
    costs: list[float | None] = []
    for stage, calls in sampled:
        for call in chain.from_iterable(calls) if stage.role == "judge" else ():
            estimate = ModelEstimate(models[call.slot])
            estimate.add(call.request, stage.reply_tokens)
            costs.append(estimate.cost)
    if not costs:
        return None
    known = [cost for cost in costs if cost is not None]
    scale = rows / len(sampled[0][1])
    return JudgePrice(round(len(costs) * scale), sum(known) * scale if len(known) == len(costs) else None)


def _hash_calls(plan: Plan, unfinished: Iterable[Stage], query: Query, besides: str = "") -> bytes:
    """Hash everything that decides which calls unfinished stages need and which replies fit, except `besides`."""
    names = sorted({name for stage in plan.stages for name in (stage.name, *stage.reads)} - {besides})
    read = [[stage.name for stage in unfinished], [query.fields.get(name) for name in names]]
    return blake2b(json.dumps(read, default=str).encode(), digest_size=16).digest()
