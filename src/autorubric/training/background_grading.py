"""Background grading of a share of the rewards, with a bounded queue that never delays a reward."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

from autorubric.core.report import EnsembleEvaluationReport
from autorubric.errors import AutorubricError, ConfigError, LedgerError
from autorubric.files.strict_json import encode_json
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.criterion_judge import PrefixFirst
from autorubric.graders.judge import Ask, JudgeInput, Query
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.training.observations import REPEAT, Key, Repeat, RewardRecord, parse_failure_kind
from autorubric.training.rewards import KeptCriteria, Reward, RewardRule, compute_reward

_MOST_OPEN = 256
_AT_ONCE = 8  # few, so that an exhausted budget leaves few submissions half paid


@dataclass(frozen=True, slots=True)
class GivenReward:
    """A reward that was given, with the input that was graded."""

    query: Query | None
    inputs: JudgeInput
    kept: KeptCriteria
    reward: Reward
    record: RewardRecord


async def grade_anyway(grader: CriterionGrader, inputs: JudgeInput, ask: Ask) -> EnsembleEvaluationReport:
    """Grade a submission; an error becomes a failure in the report.

    Raises:
        LedgerError: the ledger cannot record.
    """
    try:
        return await grader.grade_input(inputs, ask)
    except LedgerError:
        raise
    except Exception as error:
        name = "" if isinstance(error, AutorubricError) else f"{type(error).__name__}: "
        return EnsembleEvaluationReport(score=None, error=f"unknown: {name}{error}")


def is_chosen(share: float, seed: str, key: Sequence[str | int | None]) -> bool:
    """Return whether a reward is in the random share, by its key and the seed, so that a resumed run agrees.

    Example:
        >>> 60 < sum(is_chosen(0.1, "audit 0", ("group", str(number), 3)) for number in range(1000)) < 140
        True
    """
    digest = blake2b(encode_json([seed, *key]), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


class BackgroundQueue:
    """Runs a bounded number of coroutines in the background, eight at a time."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @property
    def open(self) -> int:
        """The number of coroutines running or waiting."""
        return len(self._tasks)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run `work` in the background; return False if the queue is full."""
        if len(self._tasks) >= _MOST_OPEN:
            return False
        task = asyncio.create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return True

    async def wait(self, seconds: float) -> None:
        """Wait until all have ended, but at most `seconds`."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def cancel(self) -> None:
        """Cancel the coroutines that are left."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._turns:
            await work()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved; callers get a ledger's error elsewhere


class Repeater:
    """Repeats judgments in the background, with the training judge's budget.

    Args:
        share: the share of rewards to repeat, above 0 up to 1.
        grader: the training judge.
        ledger: keeps replies and repetitions; the caller opens and closes it.
        rule: how a report becomes a reward.
        executor: the training judge's.

    Raises:
        ConfigError: the share is out of range.
    """

    def __init__(
        self, share: float, grader: CriterionGrader, ledger: Ledger, rule: RewardRule, executor: Executor
    ) -> None:
        if not 0 < share <= 1:
            raise ConfigError(f"repeat share {share!r}; expected a share above 0, up to 1")
        self._share = share
        self._grader = grader
        self._ledger = ledger
        # The length penalty is the same in both judgments.
        self._rule = replace(rule, on_failure="none", neutral=None, overlong=None)
        self._executor = executor
        self.queue = BackgroundQueue()
        self._known: set[Key] = {
            (value["group"], value["answer"], value["step"]) for _, value in ledger.list_observations(REPEAT)
        }

    def offer(self, given: GivenReward) -> None:
        """Judge a submission again if it is in the random share, was not repeated yet, and the queue has room."""
        first = given.reward.value
        if first is None or given.record.key in self._known or not is_chosen(self._share, "repeat", given.record.key):
            return
        if self.queue.start(lambda: self._repeat(given, first + given.reward.penalty)):
            self._known.add(given.record.key)

    async def _repeat(self, given: GivenReward, first: float) -> None:
        inputs = replace(given.inputs, copies=(1,) * len(given.inputs.criteria))
        report = await grade_anyway(self._grader, inputs, PrefixFirst(self._executor.ask_for))
        again = compute_reward(report, self._rule)
        failure = None if again.failure is None else parse_failure_kind(again.failure)
        value = again.value if failure is None else None
        self._ledger.observe(REPEAT, asdict(Repeat(*given.record.key, first, value, failure)))
