"""One pass over a dataset with bounded tasks and memory, and the estimate of its cost."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

from autorubric.core.report import EvaluationReport, Report
from autorubric.dataset import RubricDataset
from autorubric.errors import AutorubricError, LedgerError
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.criterion_judge import PrefixFirst
from autorubric.graders.demands import assume_demands
from autorubric.graders.grader import Grader
from autorubric.graders.judge import Answered, Ask, JudgeInput, QuestionCounter, Read
from autorubric.llm.batches.setting import batching, widen_window
from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.records.accounts import UsageTotals
from autorubric.llm.records.call_rows import compute_key
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Model, Request
from autorubric.llm.sharing import Amount
from autorubric.llm.thinking import Reasoning, split_reasoning
from autorubric.runs.blocks import Room, feed, feed_records, note_ended, work_through
from autorubric.runs.items_file import ItemsFile, MergedLines
from autorubric.runs.manifest import CHANGED, digest_lines
from autorubric.runs.result import ItemResult
from autorubric.runs.shard import ShardParts, group_equal_items
from autorubric.runs.stopping import StoppableRun

DRAWS_A_GENERATION = 1000
"""Number of draws reserved for one generation of replies; starting over begins the next generation."""


def find_next_generation(ledger: Ledger, *, start_over: bool) -> int:
    """Return how often the run will have been started over, the next run included; records nothing.

    Example:
        >>> with Ledger.in_memory() as ledger:
        ...     find_next_generation(ledger, start_over=True)
        0
    """
    return int(ledger.find_note("generation") or 0) + bool(start_over and ledger.count)


def begin_generation(ledger: Ledger, *, start_over: bool) -> int:
    """Record and return the result of `find_next_generation`."""
    generation = find_next_generation(ledger, start_over=start_over)
    if start_over:
        ledger.keep_note("generation", generation)
    return generation


@dataclass
class EvaluationRun(StoppableRun):
    """The grading of a dataset.

    Attributes:
        dataset: what is graded.
        grader: the grader; a `CriterionGrader` asks through `executor`.
        items: receives the line of each item as it ends.
        before: the duration and the line of each item of earlier sessions.
        window: the maximum number of items in progress.
        prefix_first: let the first call of an item go ahead alone.
        generation: how often the run was started over.
        copies: `JudgeInput.copies` by item, for items that equal earlier ones.
        on_result: called with the result of each item.
        asked: the number of items for which this run called a model.
        is_finished: whether `before` has the result of every item and nothing has changed since.
        is_whole: whether no judgment failed, so that no criterion lacks a verdict for that reason.
        parts: the shards that it merges; items in `before` are kept as they are, and no other item is graded.
        keeps_changed: whether kept lines may have been changed after the earlier run.
        completed: indices of items with a report that counts.
        totals: calls, tokens and cost of all sessions.
    """

    dataset: RubricDataset
    grader: Grader[Any]
    items: ItemsFile
    before: Mapping[int, tuple[float, bytes]] = field(default_factory=dict)
    window: int = 64
    prefix_first: bool = True
    generation: int = 0
    copies: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    on_result: Callable[[ItemResult], None] = lambda result: None
    asked: int = 0
    is_finished: bool = False
    is_whole: bool = True
    parts: ShardParts | None = None
    keeps_changed: bool = False
    completed: set[int] = field(default_factory=set)
    totals: Callable[[], list[UsageTotals]] = list

    async def execute(self) -> None:
        """Grade every item."""
        if self.parts is None and not self.is_finished:
            if self.executor is not None and batching.get() is not None:
                await self.executor.send_ahead(self._build_first_requests())
            places = feed_records(range(len(self.dataset)), int, partial(group_equal_items, self.dataset))
            await work_through(places, self._run_item, await self._build_room(), self)
        if feed.get() is None:  # in a cluster, the driver keeps the lines of earlier sessions
            await self._keep_rest()
        if self.parts is not None and self.parts.workers is not None:
            self.interrupted = self.parts.workers.interrupted
            self.stopped, self.needed = self.parts.workers.stopped, self.parts.workers.needed

    def digest_items(self) -> str:
        """Return the digest of the items file; `CHANGED`, which matches no file, if a line may have been changed."""
        return CHANGED if self.keeps_changed else digest_lines(self.items.read_lines())

    async def _build_first_requests(self) -> AsyncIterator[tuple[Model, Request]]:
        """Yield the requests for each item that do not depend on replies."""
        if not isinstance(self.grader, CriterionGrader) or not self.grader.recipe.asks_at_once:
            return
        for index in range(len(self.dataset)):
            for request in await self._collect_requests(self.grader, index):
                yield request

    async def _collect_requests(self, grader: CriterionGrader, index: int) -> list[tuple[Model, Request]]:
        """Return the requests for an item that do not depend on replies; empty if the item fails before any."""
        asked = _RequestCollector(self.generation * DRAWS_A_GENERATION)
        with suppress(AutorubricError):
            await grader.judgments(build_input(self.dataset, index, grader, self.copies), asked)
        return asked.requests

    async def _build_room(self) -> Room:
        """Limit the items in progress to what a budget should cover, so that it is spent on whole items."""
        window, is_batched = widen_window(self.window), batching.get() is not None
        budget = None if self.executor is None or is_batched else self.executor.budget  # a batch needs all items
        if budget is None or not len(self.dataset) or not isinstance(self.grader, CriterionGrader):
            return Room(window)
        expected = Amount()
        for model, request in await self._collect_requests(self.grader, 0):
            expected = expected.plus(budget.compute_worst_case(model, request))
        return Room(window, budget, expected)

    async def _run_item(self, index: int) -> None:
        digest = self._hash_inputs(index)
        recorded = self.before.get(index)
        if digest and recorded is not None and recorded[1].endswith(f'"digest":"{digest}"}}'.encode()):
            self._keep(index, recorded[1])
            return
        started = time.perf_counter()
        watch = _WatchedAsk(self)
        report = await self._grade_item(index, watch)
        seconds = round(time.perf_counter() - started, 6)
        if watch.asked or self.executor is None:
            self.asked += 1
        elif recorded is not None:
            seconds = recorded[0]
        result = ItemResult(index, self.dataset[index], report, seconds, report.error)
        line = result.to_line()
        self._add(index, f'{line[:-1]},"digest":"{digest}"}}' if digest and report.error is None else line)
        self._note_result(result)

    def _note_result(self, result: ItemResult) -> None:
        if result.error is None:
            self.completed.add(result.item_idx)
        self.is_whole &= not result.report.failed_count
        self.on_result(result)

    async def _grade_item(self, index: int, watch: _WatchedAsk) -> Report:
        dataset, grader = self.dataset, self.grader
        try:
            if isinstance(grader, CriterionGrader):
                inputs = build_input(dataset, index, grader, self.copies)
                return await grader.grade_input(inputs, self._build_ask(watch))
            submission, query, reference, _ = _collect_texts(dataset, index)
            report: Report = await dataset.get_item_rubric(index).grade(submission, grader, query, reference)
            return report
        except LedgerError:
            raise
        except AutorubricError as error:
            return EvaluationReport(score=None, error=f"unknown: {error}")
        except Exception as error:
            return EvaluationReport(score=None, error=f"unknown: {type(error).__name__}: {error}")

    def _build_ask(self, watch: _WatchedAsk) -> Ask | None:
        if self.executor is None:
            return None
        watch.ask = self.executor.ask_for
        return PrefixFirst(watch) if self.prefix_first and batching.get() is None else watch

    def _hash_inputs(self, index: int) -> str | None:
        """Hash everything that an item's result depends on, for a grader with a fingerprint but no ledger."""
        if self.executor is not None:
            return None
        fingerprint = self.grader.fingerprint() if isinstance(self.grader, Grader) else None
        if fingerprint is None:
            return None
        submission, query, reference, _ = _collect_texts(self.dataset, index)
        rubric = self.dataset.get_item_rubric(index).to_dict()
        parts = [submission, rubric, query, reference, fingerprint, self.generation]
        return sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def _add(self, index: int, line: str | bytes) -> None:
        self.items.add(index, line)
        note_ended(index, line)

    async def _keep_rest(self) -> None:
        """Keep the results of items that earlier sessions or the shards graded and this session has not started."""
        for index in self.items.list_remaining():
            self.keeps_changed = isinstance(self.before, MergedLines) and self.before.is_changed
            await asyncio.sleep(0)  # lets stop signals and progress displays run
            self._keep(index, self.before[index][1])

    def _keep(self, index: int, line: bytes) -> None:
        self._add(index, line)
        self._note_result(ItemResult.from_dict(json.loads(line), self.dataset[index]))


class _WatchedAsk:
    """An `Ask` that notes whether a model was asked about the item, and ends the run if it cannot go on."""

    __slots__ = ("_draws", "_run", "ask", "asked")

    ask: Ask

    def __init__(self, run: EvaluationRun) -> None:
        self._run = run
        self._draws = run.generation * DRAWS_A_GENERATION
        self.asked = False

    async def __call__(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
        if self._draws:
            request = replace(request, draw=request.draw + self._draws)
        outcome = await self.ask(model, request, read, follow_up)
        if isinstance(outcome, Failure):
            self.asked = True
            self._run.end_with(outcome)
        elif outcome.reply.fresh:
            self.asked = True
        return outcome


class _RequestCollector:
    """An `Ask` that records requests and sends nothing."""

    def __init__(self, draws: int) -> None:
        self.requests: list[tuple[Model, Request]] = []
        self._draws = draws

    async def __call__(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
        self.requests.append((model, replace(request, draw=request.draw + self._draws)))
        return _NOT_ASKED


REPLY_TOKENS = 120
"""Assumed length of a verdict with its explanation, in tokens, if no reply is recorded."""

_NOT_ASKED = Failure("stopped", "dry run")


async def estimate(
    dataset: RubricDataset,
    grader: CriterionGrader,
    executor: Executor,
    reply_tokens: float = REPLY_TOKENS,
    *,
    share_equal: bool = False,
    generation: int = 0,
) -> list[ModelEstimate]:
    """Return the calls that a run would make, per model.

    For a cascade, the second judge is assumed to be asked about everything that is not recorded.

    Args:
        dataset: the dataset to grade.
        grader: the grader.
        executor: finds recorded replies; it must be stopped, so that it makes no call.
        reply_tokens: the expected length of a reply.
        share_equal: whether equal items share their replies.
        generation: how often everything was requested again (`find_next_generation`).
    """
    counter = CallCounter(executor, reply_tokens, generation)
    copies = {} if share_equal else number_copies(dataset, grader)
    for index in range(len(dataset)):
        await grader.grade_input(build_input(dataset, index, grader, copies), counter)
    return list(counter.found.values())


class CallCounter:
    """An `Ask` that counts instead of asking.

    Args:
        executor: finds recorded replies, those to re-asks included; it is stopped, so that it makes no call.
        reply_tokens: the expected length of a reply, or a function of the request that returns it.
        generation: how often everything was requested again.
        assume: the assumed content of a reply on which later requests depend; None if none does.
    """

    def __init__(
        self,
        executor: Executor,
        reply_tokens: float | Callable[[Request], float],
        generation: int = 0,
        assume: Callable[[Request, Read], Answer[Any] | None] = lambda request, _: assume_demands(request),
    ) -> None:
        self.found: dict[int, ModelEstimate] = {}
        self._executor = executor
        executor.stop("dry run")
        self._reply_tokens = reply_tokens
        self._draws = generation * DRAWS_A_GENERATION
        self._assume = assume
        self._counted: set[bytes] = set()

    async def __call__(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
        """Read the recorded replies; without one, count the call and return an assumed answer or a failure."""
        request = replace(request, draw=request.draw + self._draws)
        rows = self.found.setdefault(id(model), ModelEstimate(model, role=request.role))
        outcome = await self._executor.ask_for(model, request, read, follow_up)
        if isinstance(outcome, Answer) or outcome.kind != "stopped":
            rows.recorded += 1
            return outcome
        key = compute_key(model, request)
        if key not in self._counted:
            self._counted.add(key)
            tokens = self._reply_tokens
            rows.add(request, tokens if isinstance(tokens, float | int) else tokens(request))
        return self._assume(request, read) or outcome


def number_copies(dataset: RubricDataset, grader: Grader[Any]) -> dict[int, tuple[int, ...]]:
    """Return `JudgeInput.copies` for items with the submission, prompt, reference and guidelines of another item.

    Submissions are equal if the parts that the grader judges are. Copies are numbered in the order of the dataset. If
    items are added, removed or moved, only equal items exchange replies; no other item's requests change.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.core.rubric import Rubric
        >>> dataset = RubricDataset("Agree?", Rubric([Criterion(requirement="Is brief")]))
        >>> for text in ("Yes.", "No.", "Yes."):
        ...     dataset.add_item(text, "")
        >>> number_copies(dataset, CriterionGrader.of_checks())
        {0: (0,), 2: (1,)}
    """
    how = grader.recipe.reasoning if isinstance(grader, CriterionGrader) else "keep"
    keys = [hash(_collect_texts(dataset, index, how)) for index in range(len(dataset))]
    count, met, found = Counter(keys), QuestionCounter(), {}
    for index, key in enumerate(keys):
        if count[key] > 1:
            submission, query, reference, guidelines = _collect_texts(dataset, index, how)
            criteria = tuple(dataset.get_item_rubric(index))
            found[index] = met.number_questions(JudgeInput(submission, criteria, query, reference, guidelines)).copies
    return found


def build_input(
    dataset: RubricDataset, index: int, grader: CriterionGrader, copies: Mapping[int, tuple[int, ...]]
) -> JudgeInput:
    """Build the judges' input for an item; `copies` is the result of `number_copies`."""
    submission, query, reference, guidelines = _collect_texts(dataset, index)
    rubric = dataset.get_item_rubric(index).rubric
    about = dataset[index].id or str(index)
    inputs = grader.read_input(submission, rubric, query, reference, guidelines=guidelines, item=about)
    return replace(inputs, copies=copies.get(index, ()))


def _collect_texts(
    dataset: RubricDataset, index: int, reasoning: Reasoning = "keep"
) -> tuple[str, str, str | None, str | None]:
    """Return the submission, prompt, reference and guidelines of an item."""
    prompt, reference = dataset.get_item_prompt(index), dataset.get_item_reference_submission(index)
    submission = split_reasoning(dataset[index].submission, reasoning)[1]
    return submission, prompt, reference, dataset.get_item_rubric(index).guidelines
