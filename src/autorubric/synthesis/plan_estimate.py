"""The calls, tokens and cost of a run before anything is spent, from the plan itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from autorubric.llm.executor import Executor
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.records.ledger import Ledger
from autorubric.synthesis.method import build_plan
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.slots import find_shape, refreshed_slots
from autorubric.synthesis.stage_runner import Row, StageRunner, count_refreshes, run_plan
from autorubric.synthesis.stages import Models, Outcome, Plan, Stage

if TYPE_CHECKING:
    from autorubric.synthesis.synthesis_run import Prepared

SAMPLED_ROWS = 200


@dataclass(frozen=True, slots=True)
class NeededCalls:
    """The calls that a run still has to make.

    Attributes:
        fixed: calls that are made in any case, by (stage, slot).
        conditional: how many calls each condition adds, in the order of the stages.
    """

    fixed: Counter[tuple[str, str]] = field(default_factory=Counter)
    conditional: Counter[str] = field(default_factory=Counter)

    def add_example(self, stage: Stage, fields: Mapping[str, Any], models: Models) -> None:
        """Count the calls of a stage for an example row."""
        for call in stage.calls(fields, models):
            if stage.only_if:
                self.conditional[stage.only_if] += 1
            else:
                self.fixed[stage.name, call.slot] += 1


class JudgePrice(NamedTuple):
    """What all judge calls of a run take with one way of judging; `cost` is None if a price is unknown."""

    calls: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would send and cost.

    Attributes:
        queries: usable input rows.
        slots: calls, tokens and cost of every slot.
        per_query: the calls of one query when nothing is recorded.
        needed: the calls that the run still has to make.
        judges: the judge calls of the whole run with either way of judging, nothing recorded: `criterion` and
            `rubric`, the chosen one first; empty in the basic profile.
    """

    queries: int
    slots: Mapping[str, ModelEstimate]
    per_query: NeededCalls
    needed: NeededCalls
    judges: Mapping[str, JudgePrice] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """Calls to make, those under a condition left out."""
        return sum(slot.calls for slot in self.slots.values())

    @property
    def cost(self) -> float | None:
        """Expected dollars; None if a model's price is unknown."""
        costs = [slot.cost for slot in self.slots.values()]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


async def estimate_run(prepared: Prepared, models: Models, ledger: Ledger) -> Estimate:
    """What the queries of a run still need; sends no request and records nothing."""
    executor = Executor(ledger)
    executor.stop("dry run")
    refreshes = count_refreshes(ledger, models, refreshed_slots(prepared.settings), keep=False)
    runner = StageRunner(executor, models, ledger, refreshes)
    measured = {total.role: total.usage.completion_tokens / total.calls for total in ledger.totals() if total.calls}
    plan, queries, rows = prepared.plan, prepared.source, prepared.report.rows
    needed = await _count_needed(plan, queries, runner)
    per_query, example = NeededCalls(), _make_example(next(iter(queries)), plan, models, {})
    for stage in plan.stages:
        per_query.add_example(stage, example, models)
    slots = _estimate_slots(plan, queries, models, needed, measured)
    plans = _build_plans(prepared)
    judges = {
        judging: price for judging, other in plans.items() if (price := _price_judges(other, queries, models, rows))
    }
    return Estimate(rows, slots, per_query, needed, judges)


def _build_plans(prepared: Prepared) -> dict[str, Plan]:
    """The plan of a run, and for the full profile that with the other way of judging, by what a judge call grades."""
    settings = prepared.settings
    if settings.profile != "full":
        return {"": prepared.plan}
    other = "rubric" if settings.full_profile.judging == "criterion" else "criterion"
    full = settings.full_profile.model_copy(update={"judging": other})
    plan = build_plan(prepared.prompts, find_shape(settings, prepared.report.responses), full)
    plan = plan.until(settings.until) if settings.until else plan
    return {settings.full_profile.judging: prepared.plan, other: plan}


async def _count_needed(plan: Plan, queries: Iterable[Query], runner: StageRunner) -> NeededCalls:
    """How many calls each stage still needs: those without a recorded reply."""
    needed, seen = NeededCalls(), set[bytes]()

    def count(row: Row) -> None:
        mark = _fingerprint(plan, row)
        if mark in seen:  # rows with the same requests share their calls
            return
        seen.add(mark)
        example: dict[str, Any] = {}
        for stage in plan.stages:
            if row.outcomes[stage.name].failure is None or not stage.slots:
                continue
            calls = stage.calls(row.fields, runner.models) if row.unreached.isdisjoint(stage.reads) else ()
            if calls:
                asked = [call for call in calls if not runner.is_recorded(call.slot, call.request)]
                needed.fixed.update((stage.name, call.slot) for call in asked or calls[:1])
            else:
                example = example or _make_example(row.query, plan, runner.models, {})
                needed.add_example(stage, example, runner.models)

    await run_plan(plan, queries, runner, window=64, finished=count)
    return needed


def _make_example(query: Query, plan: Plan, models: Models, measured: Mapping[str, float]) -> dict[str, Any]:
    """A query's row with made-up values of the expected lengths, in which every condition of the plan holds."""
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
            fields[stage.name] = made.value if isinstance(made, Outcome) else None
    return fields


def _estimate_slots(
    plan: Plan, queries: Iterable[Query], models: Models, needed: NeededCalls, measured: Mapping[str, float]
) -> dict[str, ModelEstimate]:
    """Calls, tokens and cost of every slot, scaled up from the first rows of the input."""
    # The full profile has so many requests that a few rows are enough.
    sample = islice(queries, 8 if any(stage.work for stage in plan.stages) else SAMPLED_ROWS)
    examples = [_make_example(query, plan, models, measured) for query in sample]
    found: dict[str, ModelEstimate] = {}
    for stage in plan.stages:
        asked = [call for fields in examples for call in stage.calls(fields, models)]
        for slot in stage.slots:
            sampled = ModelEstimate(models[slot])
            for call in asked:
                if call.slot == slot:
                    sampled.add(call.request, measured.get(stage.role) or stage.reply_tokens)
            made = sampled.scale(needed.fixed[stage.name, slot])
            found[slot] = found[slot] + made if slot in found else made
    return found


def _price_judges(plan: Plan, queries: Iterable[Query], models: Models, rows: int) -> JudgePrice | None:
    """What the judges of all queries take, scaled up from the first rows; None if nothing is judged."""
    calls, costs, sampled = 0, list[float | None](), 0
    for query in islice(queries, 8):
        sampled += 1
        fields = _make_example(query, plan, models, {})
        for stage in plan.stages:
            for call in stage.calls(fields, models) if stage.role == "judge" else ():
                one = ModelEstimate(models[call.slot])
                one.add(call.request, stage.reply_tokens)
                calls, costs = calls + 1, [*costs, one.cost]
    known = [cost for cost in costs if cost is not None]
    scale = rows / sampled if sampled else 0
    return (
        JudgePrice(round(calls * scale), sum(known) * scale if len(known) == len(costs) else None) if calls else None
    )


def _fingerprint(plan: Plan, row: Row) -> bytes:
    """What decides which calls a row needs, and which replies answer them."""
    unfinished = [stage.name for stage in plan.stages if row.outcomes[stage.name].failure is not None]
    names = sorted({name for stage in plan.stages for name in (stage.name, *stage.reads)})
    read = [row.query.fields.get(name) for name in names]
    return blake2b(json.dumps([unfinished, read], default=str).encode(), digest_size=16).digest()
