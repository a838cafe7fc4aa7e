"""Rewards for all callers of the service, with one executor, limit and ledger."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from autorubric.core.report import EnsembleEvaluationReport
from autorubric.core.rubric import Rubric
from autorubric.errors import AutorubricError, InputError, LedgerError
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.criterion_judge import PrefixFirst
from autorubric.graders.judge import Ask, JudgeInput
from autorubric.llm.executor import Executor
from autorubric.llm.records.accounts import Spent
from autorubric.llm.records.ledger import Ledger
from autorubric.training.audit import AUDIT_ROLE, Auditor, AuditPlan
from autorubric.training.background_grading import Given, Repeater
from autorubric.training.evolution.live import LiveEvolution
from autorubric.training.observations import Observer, failed_indices
from autorubric.training.reward import Reward, RewardRule, compute_reward
from autorubric.training.rewarder import (
    Sample,
    keep_criteria_of,
    log_failure,
    read_sample,
    rubric_problems,
    step_problems,
)

READMIT_SECONDS = 5.0
"""Seconds until a judge that stopped is retried."""

_MOST_RUBRICS = 4096


class RewardEngine:
    """Gives rewards, and records replies and rewards in the ledger, which the caller opens and closes.

    A failed judgment gives None, whatever the rule's policy. An audit's plan with a budget has it apart from the
    grader's.
    """

    def __init__(
        self,
        grader: CriterionGrader,
        ledger: Ledger,
        rule: RewardRule,
        audit: AuditPlan | None = None,
        repeat_share: float = 0.0,
        *,
        prefix_first: bool = True,
    ) -> None:
        self.grader = grader
        self.ledger = ledger
        apart = audit is not None and audit.grader.has_budget
        judged = ledger.spent().beyond(ledger.spent(AUDIT_ROLE)) if apart else None
        if ledger.claims.needed:  # of several processes on one ledger, each spends what it has borrowed
            judged = Spent()
        self.executor: Executor = grader.executor_on(ledger, spent=judged)
        self.auditor = None if audit is None else Auditor(audit, ledger, rule, self.executor)
        self.repeater = Repeater(repeat_share, grader, ledger, rule, self.executor) if repeat_share else None
        self.evolution: LiveEvolution | None = None
        self._rule = replace(rule, on_failure="none", neutral=None)
        self._prefix_first = prefix_first
        self._observer = Observer(ledger, grader.recipe.compound)
        self._checked: OrderedDict[int, Rubric] = OrderedDict()
        self._failed: Counter[str] = Counter()
        self._readmitted = time.monotonic()

    async def check(self, samples: Sequence[Sample]) -> None:
        """Reject what cannot be rewarded, before anything is spent."""
        session = await self.grader.open_session()
        problems: dict[str, None] = {}
        for rubric in {id(one.rubric): one.rubric for one in samples}.values():
            if id(rubric) in self._checked:
                continue
            if found := rubric_problems(rubric, self._rule, session):
                problems.update(dict.fromkeys(found))
                continue
            self._checked[id(rubric)] = rubric  # kept, so that its id is not reused
            if len(self._checked) > _MOST_RUBRICS:
                self._checked.popitem(last=False)
        if self._rule.overlong is not None and any(one.length is None for one in samples):
            problems["the service has an overlong penalty; give each submission's length in tokens"] = None
        problems.update(dict.fromkeys(step_problems(samples, self._rule)))
        if problems:
            raise InputError(problems)

    async def reward(self, sample: Sample) -> Reward:
        """The reward of one submission that passed `check`."""
        started = time.perf_counter()
        if time.monotonic() - self._readmitted > READMIT_SECONDS:
            self._readmitted = time.monotonic()
            self.executor.readmit()
        kept = keep_criteria_of(sample, self._rule)
        inputs = read_sample(self.grader, replace(sample, rubric=kept.rubric))
        report = await self._report(self.grader, inputs)
        reward = kept.restore(compute_reward(report, self._rule, length=sample.length))
        seconds = time.perf_counter() - started
        seen = self._observer.reward(sample, reward, failed_indices(report, kept.kept), seconds)
        if seen.failure is not None:
            self._failed[seen.failure] += 1
            log_failure(reward.failure or "", self._failed[seen.failure], self._rule)
        given = Given(sample.query, inputs, kept, reward, seen)
        if self.repeater is not None:
            self.repeater.offer(given)
        if self.evolution is not None:
            self.evolution.note(sample, reward)
            reward = replace(reward, version=sample.version)
        if self.auditor is None:
            return reward
        self.auditor.offer(given)
        return self.auditor.mark(reward)

    async def finish(self, seconds: float) -> None:
        """Wait for calls in flight, repetitions and open audits, then abandon them; finished calls stay recorded."""
        if self.evolution is not None:
            await self.evolution.finish(seconds)
        if self.auditor is not None:
            await self.auditor.finish(seconds)
        if self.repeater is not None:
            await self.repeater.queue.settle(seconds)
        self.executor.stop("the service is shutting down")
        try:
            await asyncio.wait_for(self.executor.drain(), seconds)
        except TimeoutError:
            self.executor.abandon("the service is shutting down")
            await self.executor.drain()
        if self.repeater is not None:
            await self.repeater.queue.cancel()

    async def _report(self, grader: CriterionGrader, inputs: JudgeInput) -> EnsembleEvaluationReport:
        ask: Ask = self.executor.ask_for
        try:
            return await grader.grade_input(inputs, PrefixFirst(ask) if self._prefix_first else ask)
        except LedgerError:
            raise
        except Exception as error:  # one submission must not fail the others of its call
            name = "" if isinstance(error, AutorubricError) else f"{type(error).__name__}: "
            return EnsembleEvaluationReport(score=None, error=f"unknown: {name}{error}")
