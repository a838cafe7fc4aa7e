"""How a stage comes to its outcome: from the input row, from another pipeline's files, or from a model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.model import Model
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable
from autorubric.synthesis.generations import DRAWS_A_GENERATION
from autorubric.synthesis.plan import DERIVED, AnyStage, Derivation, Fields, Inquiry, Settled
from autorubric.synthesis.queries import FROM_INPUT
from autorubric.synthesis.runner import NO_CALL_MADE, Outcome

if TYPE_CHECKING:
    from autorubric.graders.judge import Ask


@dataclass(slots=True)
class StageAnswerer:
    """Answers stages from what is there already, else from the model of the stage's role.

    Attributes:
        executor: asks models, ledger first.
        models: the model of each role.
        imports: the ledger that holds values of an earlier pipeline, if any; each is used only while what it
            was made from is unchanged.
        generations: how often each role was asked to start anew; from 1 on, only its own draws count.
        reused: how many values came from elsewhere, by stage.
        stale: how many imported values were asked anew because their inputs changed, by stage.
        overwritten: how many input rows held something else in a stage's field, by stage.
        follow_up: what to ask after a reply that could not be read.
        on_end: told at once of a failure after which no further call can succeed.
        done: how many stages ended with a value, by stage; `failed`: how many without, those left out that
            were not asked yet; `open`: how many have begun and not ended.
    """

    executor: Executor
    models: Mapping[str, Model]
    imports: Ledger | None = None
    generations: Mapping[str, int] = field(default_factory=dict)
    follow_up: FollowUp = lambda request, reply, problem: request
    on_end: Callable[[Failure], None] = lambda failure: None
    reused: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    overwritten: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    open: Counter[str] = field(default_factory=Counter)

    async def __call__(self, stage: AnyStage, record_id: str, fields: Fields) -> Outcome:
        """Bring one stage of one record to its end; see `runner.Answerer`."""
        self.open[stage.name] += 1
        try:
            outcome = await self._outcome(stage, record_id, fields)
        finally:
            self.open[stage.name] -= 1
        if outcome.failure is not None and outcome.failure.ends_run:
            self.on_end(outcome.failure)
        if outcome.failure is None:
            self.done[stage.name] += 1
        else:
            self.failed[stage.name] += outcome.failure.kind not in NO_CALL_MADE
        return outcome

    async def _outcome(self, stage: AnyStage, record_id: str, fields: Fields) -> Outcome:
        generation = max((self.generations.get(slot, 0) for slot in stage.slots), default=0)
        held = None if generation else self._held(stage, record_id, fields)
        if held is not None:
            self.reused[stage.name] += 1
            return held
        if isinstance(stage, Inquiry):
            return await self._inquire(stage, record_id, fields)
        if isinstance(stage, Derivation):
            return _ended(stage.derive(fields))
        asked = stage.build(fields)
        if isinstance(asked, Settled | Failure):
            return _ended(asked)
        model = self.models[stage.role]
        request = replace(asked, item=record_id, draw=asked.draw + generation * DRAWS_A_GENERATION)
        answer = await self.executor.ask_for(model, request, stage.read, self.follow_up)
        if isinstance(answer, Failure):
            return Outcome(failure=answer)
        return Outcome(answer.value, model.name, notes=answer.notes)

    def is_recorded(self, slot: str, request: Request) -> bool:
        """Whether the reply to what a slot would ask is there and whole, so that asking makes no call."""
        found = self.executor.find(self.models[slot], self._of_its_generation(slot, request))
        return found is not None and found.finish_reason != "length"

    def _of_its_generation(self, slot: str, request: Request) -> Request:
        return replace(request, draw=request.draw + self.generations.get(slot, 0) * DRAWS_A_GENERATION)

    async def _inquire(self, stage: Inquiry, record_id: str, fields: Fields) -> Outcome:
        access = _RecordAccess(self, record_id)
        found = await stage.work(fields, access)
        if access.ended is not None:
            # Something was not asked: the stage was not reached, and a later run finds the rest recorded.
            return Outcome(failure=access.ended)
        return _ended(found)

    def _held(self, stage: AnyStage, record_id: str, fields: Fields) -> Outcome | None:
        name, told = stage.name, str(fields.get(f"{stage.name}_model") or FROM_INPUT)
        if name in fields and not fields.get(f"{name}_error") and told not in DERIVED:
            if stage.holds(fields[name]):
                return Outcome(fields[name], told)
            self.overwritten[name] += bool(fields[name])
        found = self.imports.find_import(record_id, name) if self.imports else None
        if found is None or found[1]["model"] in DERIVED:
            return None
        digest, imported = found
        if digest != inputs_digest(stage, fields):
            self.stale[name] += 1
            return None
        return Outcome(imported["value"], imported["model"])


def _ended(found: Settled | Failure) -> Outcome:
    if isinstance(found, Failure):
        return Outcome(failure=found)
    return Outcome(found.value, found.model, notes=found.notes, lost=found.lost)


@dataclass(slots=True)
class _RecordAccess:
    """One record's way to the models."""

    answerer: StageAnswerer
    item: str
    ended: Failure | None = None

    @property
    def models(self) -> Mapping[str, Model]:
        return self.answerer.models

    def is_recorded(self, slot: str, request: Request) -> bool:
        return self.answerer.is_recorded(slot, request)

    def ask_as(self, slot: str) -> Ask:
        their_own = self.answerer._of_its_generation

        async def ask(
            model: Model,
            request: Request,
            read: Callable[[Reply], Answer[Any] | Unreadable],
            follow_up: FollowUp,
        ) -> Answer[Any] | Failure:
            request = replace(their_own(slot, request), item=self.item)
            answer = await self.answerer.executor.ask_for(model, request, read, follow_up)
            if isinstance(answer, Failure) and answer.ends_run and self.ended is None:
                self.ended = answer
            return answer

        return ask


def inputs_digest(stage: AnyStage, fields: Fields) -> bytes:
    """A fingerprint of what a stage reads, equal exactly when the values are."""
    read = [_plain(fields.get(name)) for name in stage.reads]
    return blake2b(json.dumps(read, sort_keys=True).encode(), digest_size=16).digest()


def _plain(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else (value or None)
