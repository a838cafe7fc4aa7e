"""Judges asked about single wordings: only the criterion that changed, through the run's ledger and budget."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.judge import Answered, Ask, Read
from autorubric.improvement.changed_wording import Wording, WordingOutcome, read_outcome
from autorubric.improvement.labelled import LabelledRubric
from autorubric.improvement.writing import Stopped
from autorubric.llm.batches.setting import widen_window
from autorubric.llm.executor import FollowUp
from autorubric.llm.request import Failure, Model, Request
from autorubric.metrics.table import FAILED

RETEST_DRAWS = 500
"""Where the draws of the second grading of the original begin; repeats of a judge use those from 0."""
MOST_FAILED = 0.1
"""The share of failed judgments above which nothing is decided."""
LEAST_COUNTED = 5
"""Failures up to this number never stop a run."""


@dataclass
class GradingCounts:
    """How many gradings, each of one item under one wording, are wanted, done and failed."""

    wanted: int = 0
    done: int = 0
    failed: int = 0


@dataclass
class LedgerJudge:
    """Judges of a grader, asked through a ledger.

    Attributes:
        grader: the judges.
        ask: asks the models.
        labelled: the items.
        draws: the first draw of this generation of replies.
        window: maximum number of items that are open at a time.
        counts: takes what was done.
    """

    grader: CriterionGrader
    ask: Ask
    labelled: LabelledRubric
    draws: int = 0
    window: int = 64
    counts: GradingCounts = field(default_factory=GradingCounts)

    def __post_init__(self) -> None:
        self._room = asyncio.Semaphore(widen_window(self.window))

    async def judge(
        self, wording: Wording, items: Sequence[int], *, retest: bool = False
    ) -> dict[int, WordingOutcome]:
        """Return the outcome of each item.

        Raises:
            Stopped: no further call can succeed (in a group of exceptions), or more than a tenth of the judgments
                failed. Replies without a verdict on a candidate do not count.
        """
        self.counts.wanted += len(items)

        async def judge_one(item: int) -> WordingOutcome:
            async with self._room:
                outcome = await self._judge_item(wording, item, retest)
            self.counts.done += 1
            self.counts.failed += outcome.code == FAILED
            return outcome

        async with asyncio.TaskGroup() as group:
            tasks = {item: group.create_task(judge_one(item)) for item in items}
        found = {item: task.result() for item, task in tasks.items()}
        self._check_failures(wording, found)
        return found

    async def _judge_item(self, wording: Wording, item: int, retest: bool) -> WordingOutcome:
        dataset, rubric = self.labelled.dataset, self.labelled.rubric
        placed = wording.to_criteria(rubric)
        criteria = [*rubric]
        criteria[wording.place] = placed[0]
        wanted = [wording.place, *range(len(criteria), len(criteria) + len(placed) - 1)]
        criteria += placed[1:]
        inputs = self.grader.read_input(
            dataset[item].submission,
            criteria,
            dataset.get_item_prompt(item),
            dataset.get_item_reference_submission(item),
            guidelines=rubric.guidelines,
            item=dataset[item].id or str(item),
        )
        ask = _RedrawnAsk(self.ask, self.draws + (RETEST_DRAWS if retest else 0))
        session = await self.grader.open_session()
        judgments = await session.judge.judge(inputs, wanted, ask)
        if ask.ended is not None:
            raise Stopped(ask.ended)
        return read_outcome(rubric[wording.place], judgments)

    def _check_failures(self, wording: Wording, found: dict[int, WordingOutcome]) -> None:
        """Stop at too many failures; a candidate on which the judge gives no verdict loses, and stops nothing."""
        is_candidate = wording.kind != "original"
        failed = [
            outcome for outcome in found.values() if outcome.code == FAILED and (outcome.outage or not is_candidate)
        ]
        if len(failed) > max(LEAST_COUNTED, MOST_FAILED * len(found)) or len(failed) == len(found) > 0:
            raise Stopped(
                Failure(
                    "server",
                    f"{len(failed)} of {len(found)} judgments on {wording.name!r} failed, so nothing was decided; "
                    "the same command requests them again",
                )
            )


class _RedrawnAsk:
    """An `Ask` with other draws, which keeps the failure after which no call can succeed."""

    def __init__(self, ask: Ask, draws: int) -> None:
        self._ask, self._draws = ask, draws
        self.ended: Failure | None = None

    async def __call__(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
        request = replace(request, draw=request.draw + self._draws)
        outcome = await self._ask(model, request, read, follow_up)
        if isinstance(outcome, Failure) and outcome.ends_run:
            self.ended = outcome
        return outcome
