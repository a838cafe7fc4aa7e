"""The calls that an evolution would make, before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.graders.demands import ROLE as DEMANDS
from autorubric.graders.demands import assumed_demands
from autorubric.graders.judge import Read
from autorubric.jobs.evolve_run import check_newest, read_rollouts
from autorubric.jobs.judges import make_grader
from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.ledger import FILE_NAME, Ledger
from autorubric.llm.request import Answer, Failure, Model, Reply, Request
from autorubric.runs.progress import RunState
from autorubric.runs.run import REPLY_TOKENS, CallCounter
from autorubric.runs.run_folder import LEDGER_FOLDER
from autorubric.training.evolution.evolver import Evolver, UndecidedError, digest_rollouts
from autorubric.training.evolution.proposals import ROLE as EVOLVE
from autorubric.training.evolution.proposals import Proposal
from autorubric.training.evolution.rollouts import RolloutGroup
from autorubric.training.evolution.versions import VERSIONS_FILE, RubricVersion, read_log

if TYPE_CHECKING:
    from autorubric.jobs.evolve import EvolveSettings

_TOKENS_AN_ENTRY = 80
_UNMET = (
    '{"explanation": "", "criterion_status": "UNMET"}',
    json.dumps(
        {"judgments": [{"criterion_id": f"c{n}", "explanation": "", "criterion_status": "UNMET"} for n in range(200)]}
    ),
)


@dataclass
class _Counting:
    """Stands where an executor does, and counts instead of asking."""

    counter: CallCounter

    async def ask_for(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answer[Any] | Failure:
        return await self.counter(model, request, read, follow_up)


async def estimated(source: Path, settings: EvolveSettings) -> list[ModelEstimate]:
    """The calls that the evolution would make, model by model; nothing is asked and nothing is written.

    The writer is taken to propose as many criteria as it may, after a split that the gates have rejected.
    """
    groups, out, grader = read_rollouts(source), Path(settings.out), make_grader(settings)
    rule, folder = settings.evolution(), out / LEDGER_FOLDER
    log = read_log(out / VERSIONS_FILE)
    check_newest(groups, log, source)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(grader))
        ledger = stack.enter_context(Ledger.open(folder) if (folder / FILE_NAME).exists() else Ledger.in_memory())
        writers = await stack.enter_async_context(open_models(settings.writer_config(str(settings.writer)), 1))
        if settings.progress is not None:
            models = [*(await grader.open_session()).models.values(), *writers.values()]
            notes = stand_ins(model.name for model in models)
            settings.progress(RunState(len(groups), 0, [], 0, 0, 0, 0.0, stand_ins=notes))

        def assume(request: Request, read: Read) -> Answer[Any] | None:
            if request.role == EVOLVE:
                texts = [f"{request.messages[-1].content[:120]} ({n})" for n in range(2 * rule.most_added)]
                return Answer([Proposal("", text, 5) for text in texts], Reply(""))
            return assumed_demands(request) or _assumed_verdict(request, read)

        def expected(request: Request) -> float:
            entries = {EVOLVE: 2 * rule.most_added, DEMANDS: 2, "licence": 2 * rule.most_added + 4}
            return entries[request.role] * _TOKENS_AN_ENTRY if request.role in entries else REPLY_TOKENS

        counter = CallCounter(Executor(ledger), expected, assume=assume)
        evolver = Evolver(rule, writers["writer"], grader, _Counting(counter))
        for number, group in enumerate(groups):
            await _count(evolver, number, group, log.find(group.query, group.rubric))
        return list(counter.found.values())


async def _count(evolver: Evolver, number: int, group: RolloutGroup, lineage: Any) -> None:
    if lineage is not None and lineage.has_decided(digest_rollouts(group.rollouts)):
        return
    newest = RubricVersion(group.query, 0, group.rubric) if lineage is None else lineage.newest
    first = group.rubric if lineage is None else lineage.versions[0].rubric
    with suppress(UndecidedError):
        await evolver.evolve(newest, first, group.rollouts, str(number))


def _assumed_verdict(request: Request, read: Read) -> Answer[Any] | None:
    """A verdict where a judge is asked; of relevance, that nothing is said."""
    if request.role == "licence":
        return Answer({}, Reply(""))
    found: Sequence[Any] = [read(Reply(text)) for text in _UNMET]
    return next((one for one in found if isinstance(one, Answer)), None)
