"""Runs a plan over many records: pipelined within each record, with bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.core.values import copy_with
from autorubric.errors import pluralize
from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.failure_groups import NOT_MADE
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Request
from autorubric.runs.blocks import Room, feed_records, note_ended, work_through
from autorubric.synthesis.query_file import FROM_INPUT, Query
from autorubric.synthesis.stages import DERIVED, Call, Fields, Models, Plan, Stage, StageOutcome

if TYPE_CHECKING:
    from autorubric.graders.judge import Ask
    from autorubric.runs.stopping import StoppableRun

DRAWS_PER_REFRESH = 1000
"""Distance between the draws before and after a refresh; above the number of stages that can share a prompt."""


@dataclass(slots=True)
class Row:
    """A record in progress.

    Attributes:
        query: the input row.
        fields: the fields of the row so far.
        outcomes: the outcome of each stage.
        failures: the stages that failed or lost a call, in the order in which they ended.
        unreached: the stages that ended before their requests were sent.
    """

    query: Query
    fields: dict[str, Any]
    outcomes: dict[str, StageOutcome] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    unreached: set[str] = field(default_factory=set)

    def record_outcome(self, stage: Stage, outcome: StageOutcome) -> None:
        """Write a stage's three fields."""
        self.outcomes[stage.name] = outcome
        failure = outcome.failure or next(iter(outcome.lost), None)
        if failure is not None:
            self.failures[stage.name] = failure
        name, model, error = stage.keys
        for key in stage.keys:
            self.fields.pop(key, None)
        if outcome.failure is None:
            self.fields |= {name: outcome.value, model: outcome.model}
            if outcome.lost:
                # A value with an error is not finished: the next run sends the missing requests.
                problem = f"{pluralize(len(outcome.lost), 'call')} failed, the first with {outcome.lost[0]}"
                self.fields[error] = problem[:500]
        elif outcome.failure.kind in NOT_MADE:
            self.unreached.add(name)
        else:
            self.fields |= {name: stage.empty, error: str(outcome.failure)[:500]}


Answerer: TypeAlias = Callable[[Stage, str, Fields], Awaitable[StageOutcome]]
"""Runs one stage of one record, which is given by its id."""


async def run_plan(
    plan: Plan,
    queries: Iterable[Query],
    answer: Answerer,
    *,
    room: Room,
    finished: Callable[[Row], None],
    run: StoppableRun | None = None,
) -> None:
    """Run every stage of the plan on every query.

    A stage starts when the fields that it reads exist, so a slow reply delays only its own record. `queries` is read
    only as fast as there is room for records.

    Args:
        plan: the stages.
        queries: the records, in input order.
        answer: runs a stage.
        room: limits the open records.
        finished: called with each row when its last stage has ended, in that order.
        run: once it is stopped, the rest of the input is not started.
    """

    async def run_stage(row: Row, stage: Stage, needs: list[asyncio.Task[None]]) -> None:
        for need in needs:
            await need
        # A stage that reads a field of an unreached stage is not reached either.
        ended = next((row.outcomes[name] for name in stage.reads if name in row.unreached), None)
        row.record_outcome(stage, ended or await answer(stage, row.query.record_id, row.fields))

    async def run_row(query: Query) -> None:
        row = Row(query, dict(query.fields))
        tasks: dict[str, asyncio.Task[None]] = {}
        for stage in plan.stages:
            needs = [tasks[name] for name in stage.reads if name in tasks]
            tasks[stage.name] = asyncio.create_task(run_stage(row, stage, needs))
        await asyncio.gather(*tasks.values())  # a task group would cancel calls in flight
        finished(row)
        note_ended(query.index)

    own = feed_records(queries, attrgetter("index"), partial(_group_distinct, queries))
    await work_through(own, run_row, room, run)


def _group_distinct(queries: Iterable[Query]) -> Iterator[tuple[Query, ...]]:
    """Yield each query as a group if its fields differ from those of all earlier queries, else an empty group."""
    seen: set[int] = set()
    for query in queries:
        number = hash(json.dumps([pair for pair in query.fields.items() if pair[0] not in _NAMES], default=str))
        yield () if number in seen else (query,)
        seen.add(number)


_NAMES = frozenset({"id", "__source_index__", "__record_id__"})


@dataclass(slots=True)
class StageRunner:
    """Runs stages: takes values from the input row or another pipeline's files, else calls the models.

    Attributes:
        executor: sends the requests that the ledger does not answer.
        models: the model of each slot.
        imports: the ledger with values of an earlier pipeline, if any; each is used while its inputs are unchanged.
        refreshes: the number of times that each slot was refreshed; from 1 on, only its own draws count.
        follow_up: the request after an unusable reply.
        on_end: called at once with a failure after which no further call can succeed.
        reused: values from the input or an earlier pipeline, by stage.
        stale: imported values that were not used because their inputs changed, by stage.
        overwritten: input rows with an unusable value in a stage's field, by stage.
        done: stages that ended with a value; `failed`: reached stages without a value; `open`: stages in progress.
    """

    executor: Executor
    models: Models
    imports: Ledger | None = None
    refreshes: Mapping[str, int] = field(default_factory=dict)
    follow_up: FollowUp = lambda request, reply, problem: request
    on_end: Callable[[Failure], None] = lambda failure: None
    reused: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    overwritten: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    open: Counter[str] = field(default_factory=Counter)

    async def __call__(self, stage: Stage, record_id: str, fields: Fields) -> StageOutcome:
        """Run one stage of one record."""
        self.open[stage.name] += 1
        try:
            outcome = self._find_existing(stage, record_id, fields) or await self._run(stage, record_id, fields)
        finally:
            self.open[stage.name] -= 1
        if outcome.failure is None:
            self.done[stage.name] += 1
            return outcome
        if outcome.failure.ends_run:
            self.on_end(outcome.failure)
        self.failed[stage.name] += outcome.failure.kind not in NOT_MADE
        return outcome

    async def _run(self, stage: Stage, record_id: str, fields: Fields) -> StageOutcome:
        access = RecordAccess(self, record_id)
        if stage.work is not None:
            outcome = await stage.work(fields, access)
        else:
            built = stage.build(fields, self.models)
            if isinstance(built, StageOutcome):
                outcome = built
            elif stage.fold is None:
                (call,) = built
                answer = await access.ask(call)
                if isinstance(answer, Failure):
                    outcome = StageOutcome(failure=answer)
                else:
                    outcome = StageOutcome(answer.value, notes=answer.notes)
            else:
                outcome = stage.fold(fields, await asyncio.gather(*map(access.ask, built)))
        if access.ended is not None:
            # Some calls were not made, so the stage was not reached; a later run finds the other replies in the
            # ledger.
            return StageOutcome(failure=access.ended)
        if outcome.failure is None and not outcome.model:
            names = dict.fromkeys(self.models[slot].name for slot in stage.slots)
            return StageOutcome(outcome.value, ", ".join(names), notes=outcome.notes, lost=outcome.lost)
        return outcome

    def is_recorded(self, slot: str, request: Request) -> bool:
        """Return whether the complete reply to a request is in the ledger, so that no call is needed."""
        draw = request.draw + self.refreshes.get(slot, 0) * DRAWS_PER_REFRESH
        found = self.executor.find(self.models[slot], copy_with(request, draw=draw))
        return found is not None and found.finish_reason != "length"

    def _find_existing(self, stage: Stage, record_id: str, fields: Fields) -> StageOutcome | None:
        """Return the value in the input row or in an earlier pipeline's files, unless a slot was refreshed."""
        name, model, error = stage.keys
        if any(self.refreshes.get(slot, 0) for slot in stage.slots):
            return None
        outcome = None
        made_by = str(fields.get(model) or FROM_INPUT)
        if name in fields and not fields.get(error) and made_by not in DERIVED:
            if stage.finished(fields[name]):
                outcome = StageOutcome(fields[name], made_by)
            else:
                self.overwritten[name] += bool(fields[name])
        if outcome is None:
            inputs = hash_inputs(stage, fields) if self.imports else b""
            found = self.imports.find_import(record_id, name, inputs) if self.imports else None
            if found is None or found[1]["model"] in DERIVED:
                return None
            if found[0] != inputs:
                self.stale[name] += 1
                return None
            outcome = StageOutcome(found[1]["value"], found[1]["model"])
        self.reused[name] += 1
        return outcome


@dataclass(slots=True)
class RecordAccess:
    """Sends the calls of one record; `ended` is a failure after which no further call can succeed."""

    runner: StageRunner
    item: str
    ended: Failure | None = None

    async def ask(self, call: Call, follow_up: FollowUp | None = None) -> Answer[Any] | Failure:
        """Send a call; after an unreadable reply, send the follow-up, by default that of the run."""
        runner, request = self.runner, call.request
        draw = request.draw + runner.refreshes.get(call.slot, 0) * DRAWS_PER_REFRESH
        answer: Answer[Any] | Failure = await runner.executor.ask_for(
            runner.models[call.slot],
            copy_with(request, draw=draw, item=self.item),
            call.read,
            follow_up or runner.follow_up,
        )
        if isinstance(answer, Failure) and answer.ends_run and self.ended is None:
            self.ended = answer
        return answer

    def bind_slot(self, slot: str) -> Ask:
        """`Executor.ask_for` for this record and the model of a slot."""
        return lambda _, request, read, follow_up: self.ask(Call(slot, request, read), follow_up)


def count_refreshes(
    ledger: Ledger, slots: Collection[str], refresh: Collection[str], *, keep: bool = True
) -> dict[str, int]:
    """Count the refreshes of each slot, including those in `refresh`; recorded unless `keep` is False.

    An interrupted run that resumes without `--refresh` uses the same counts, so nothing is paid for twice.
    """
    recorded: dict[str, int] = ledger.find_note("generations") or {}
    now = {slot: recorded.get(slot, 0) + (slot in refresh) for slot in slots}
    if refresh and keep:
        ledger.keep_note("generations", {**recorded, **now})
    return now


def hash_inputs(stage: Stage, fields: Fields) -> bytes:
    """Return a fingerprint of a stage's inputs, equal only for equal values."""
    values = (fields.get(name) for name in stage.reads)
    read = [value.strip() if isinstance(value, str) else (value or None) for value in values]
    return blake2b(json.dumps(read, sort_keys=True).encode(), digest_size=16).digest()
