"""Rewards for all callers of the service, with one executor, limit and ledger."""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from autorubric.core.report import EnsembleEvaluationReport
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.criterion_judge import PrefixFirst
from autorubric.graders.judge import Ask, JudgeInput
from autorubric.llm.executor import Executor
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Model
from autorubric.training.audit import Auditor, AuditPlan
from autorubric.training.background_grading import Repeater, grade_anyway
from autorubric.training.observations import Observer
from autorubric.training.rewarder import RewardPath, Sample
from autorubric.training.rewards import RewardRule

READMIT_SECONDS = 5.0
"""Seconds until a judge that stopped is retried."""


class RewardEngine(RewardPath):
    """Gives rewards, and records replies and rewards in the ledger, which the caller opens and closes.

    A missing reward is None, whatever the rule's policy. The budget of an audit plan is separate from the grader's.
    """

    grader: CriterionGrader
    caller = ("service", "submission")

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
        super().__init__(grader, replace(rule, on_failure="none", neutral=None))
        self.ledger = ledger
        judged = None if audit is None else audit.sum_judged(ledger)
        if ledger.claims is not None:  # several processes share the ledger; each spends what it has borrowed
            judged = Spending()
        self.executor: Executor = grader.executor_on(ledger, spent=judged)
        self.observer = Observer(ledger, grader.recipe.compound, rule)
        if audit is not None:
            self.auditor = Auditor(audit, ledger, rule, self.executor)
        if repeat_share:
            self.repeater = Repeater(repeat_share, grader, ledger, rule, self.executor)
        self._prefix_first = prefix_first
        self.broken = ""  # why the ledger cannot record any more
        self._judges: Collection[Model] = ()
        self.interrupted = False  # ended before all open requests were answered

    @property
    def stopped(self) -> str | None:
        """Why no more rewards are given: ledger, judge, budget or interruption; None while they are."""
        return self.broken or ("interrupted" if self.interrupted else self.executor.find_refusal(self._judges))

    async def check(self, samples: Sequence[Sample]) -> None:
        """Raise an error for samples that cannot be rewarded, before anything is spent."""
        session = await self.grader.open_session()
        self._judges = session.models.values()
        self._check(samples, session)

    async def _grade(self, sample: Sample, inputs: JudgeInput | None) -> EnsembleEvaluationReport:
        if time.monotonic() - self._readmitted > READMIT_SECONDS:
            self._readmitted = time.monotonic()
            self.executor.readmit()
        assert inputs is not None
        ask: Ask = self.executor.ask_for
        return await grade_anyway(self.grader, inputs, PrefixFirst(ask) if self._prefix_first else ask)

    async def finish(self, seconds: float) -> None:
        """Wait for calls in flight, repetitions and open audits, then abandon them; finished calls stay recorded."""
        await self._finish_background(seconds)
        self.executor.stop("the service is shutting down")
        try:
            await asyncio.wait_for(self.executor.drain(), seconds)
        except TimeoutError:
            self.executor.abandon("the service is shutting down")
            await self.executor.drain()
        if self.repeater is not None:
            await self.repeater.queue.cancel()
