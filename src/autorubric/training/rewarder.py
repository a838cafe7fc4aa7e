"""Rewards of samples from a grader, for synchronous and asynchronous callers."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from autorubric.background import wait_for
from autorubric.core.report import EvaluationReport, Report
from autorubric.core.rubric import Rubric
from autorubric.errors import ConfigError, InputError
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.demands import Compound
from autorubric.graders.grader import Grader
from autorubric.graders.judge import JudgeInput, Query
from autorubric.graders.session import Session
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.providers import resolve, resolve_address
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import run_lock
from autorubric.llm.thinking import Reasoning
from autorubric.rows.record import as_text
from autorubric.training.audit import Auditor, AuditPlan
from autorubric.training.background_grading import GivenReward, Repeater
from autorubric.training.observations import FailureLog, Observer, digest_group, find_failed_indices, is_training
from autorubric.training.rewards import DEFAULT_RULE, Reward, RewardRule, apply_policy, compute_reward, keep_criteria

if TYPE_CHECKING:
    from autorubric.training.evolution.live import EvolutionPlan, LiveEvolution

_MOST_RUBRICS = 4096


@dataclass(frozen=True, slots=True)
class Sample:
    """A submission to reward.

    Attributes:
        submission: the text.
        rubric: the rubric to grade it by.
        query: the query that it answers: a text, or the turns of a conversation.
        reference: a reference submission.
        length: its length in tokens, needed by an overlong penalty.
        item: an id for the ledger.
        step: the training step, if the trainer knows it.
        version: the version of the rubric, if a service evolves it.
        split: `train`, or the split of an evaluation; None means training.

    Example:
        >>> Sample("Yes", Rubric.from_dict([{"requirement": "Is short."}]), "Is it so?", step=3).step
        3
    """

    submission: str
    rubric: Rubric
    query: Query | None = None
    reference: str | None = None
    length: int | None = None
    item: str = ""
    step: int | None = None
    version: int | None = None
    split: str | None = None


class RewardSource(Protocol):
    """Gives rewards: a `Rewarder` in this process, or `HttpRewards` for a service elsewhere."""

    async def rewards(self, samples: Sequence[Sample]) -> list[Reward]:
        """Return a reward for each sample, in order."""
        ...


class RewardPath(ABC):
    """Computes the reward of a sample, in a trainer and in a service.

    The sample is graded, and its reward is recorded, offered to the audit and the repetitions, and kept for the
    evolution.

    Args:
        grader: grades the samples.
        rule: how a report becomes a reward; the caller applies its failure policy.
    """

    caller: ClassVar[tuple[str, str]]
    """The words for the owner of the rule and for a sample in messages."""

    def __init__(self, grader: Grader[Any], rule: RewardRule) -> None:
        self.grader, self.rule = grader, rule
        self.observer: Observer | None = None
        self.repeater: Repeater | None = None
        self.auditor: Auditor | None = None
        self.evolution: LiveEvolution | None = None
        self._lenient = replace(rule, on_failure="none", neutral=None)
        self._failures = FailureLog(rule)
        self._readmitted = time.monotonic()
        self._checked: OrderedDict[int, Rubric] = OrderedDict()

    async def reward(self, sample: Sample) -> Reward:
        """Reward one submission whose rubric was checked; the value is None if the reward is missing."""
        started = time.perf_counter()
        group = digest_group(sample.query, sample.rubric) if self.rule.dropout else ""
        kept = keep_criteria(sample.rubric, self.rule, group, sample.step)
        subset = replace(sample, rubric=kept.rubric)
        inputs = None
        if isinstance(self.grader, CriterionGrader):
            shown = sample.submission, kept.rubric, sample.query, sample.reference
            inputs = self.grader.read_input(*shown, guidelines=kept.rubric.guidelines, item=sample.item)
        report = await self._grade(subset, inputs)
        reward = kept.restore(compute_reward(report, self._lenient, length=sample.length))
        if reward.failure is not None:
            self._failures.note(reward.failure)
        given = None
        if self.observer is not None and inputs is not None:
            seconds = time.perf_counter() - started
            seen = self.observer.record_reward(sample, reward, find_failed_indices(report, kept.kept), seconds)
            given = GivenReward(sample.query, inputs, kept, reward, seen) if is_training(sample.split) else None
        if self.repeater is not None and given is not None:
            self.repeater.offer(given)
        if self.evolution is not None:
            self.evolution.note(sample, reward)
            reward = replace(reward, version=sample.version)
        if self.auditor is not None and given is not None:
            self.auditor.offer(given)
            reward = self.auditor.mark(reward)
        return reward

    async def _finish_background(self, seconds: float) -> None:
        """Wait for open evolutions, audits and repetitions, then abandon evolutions and audits."""
        if self.evolution is not None:
            await self.evolution.finish(seconds)
        if self.auditor is not None:
            await self.auditor.finish(seconds)
        if self.repeater is not None:
            await self.repeater.queue.wait(seconds)

    @abstractmethod
    async def _grade(self, sample: Sample, inputs: JudgeInput | None) -> Report:
        """Grade a sample, and return the report; `inputs` is what judges see of it."""

    def _check(self, samples: Sequence[Sample], session: Session | None) -> None:
        """Raise an error for samples that cannot be rewarded, before anything is spent."""
        if others := [type(sample).__name__ for sample in samples if not isinstance(sample, Sample)]:
            raise InputError(f"a sample is of type {others[0]}; expected Sample(submission, rubric)")
        problems: dict[str, None] = {}
        for rubric in {id(sample.rubric): sample.rubric for sample in samples}.values():
            try:
                self._check_rubric(rubric, session)
            except InputError as error:
                problems.update(dict.fromkeys(error.problems))
        if self.rule.overlong is not None and any(sample.length is None for sample in samples):
            problems["the {} has an overlong penalty; give each {}'s length in tokens".format(*self.caller)] = None
        if self.rule.dropout and self.rule.dropout_by == "step" and any(sample.step is None for sample in samples):
            problems["dropout_by='step' needs the training step of each sample, or use dropout_by='group'"] = None
        if problems:
            raise InputError(problems)

    def _check_rubric(self, rubric: Rubric, session: Session | None) -> None:
        if id(rubric) in self._checked:
            return
        self.rule.check(rubric)
        if session is not None:
            session.judge.check_rubric(rubric.rubric)
        self._checked[id(rubric)] = rubric  # kept, so that its id is not reused
        if len(self._checked) > _MOST_RUBRICS:
            self._checked.popitem(last=False)


class Rewarder(RewardPath):
    """Gives rewards in this process.

    Args:
        grader: grades the samples; its run directory or ledger keeps every reply.
        rule: how a report becomes a reward.
        ask_again: seconds until a judge that stopped (invalid key, unreachable address) is retried, since training
            outlives such failures.
        audit: a reference judge for a share of the rewards; `auditor` has its findings.
        repeat_share: the share of rewards that the judge gives twice, to measure its noise.
        evolution: the plan for evolving rubrics between training steps; samples need their `step`.

    Raises:
        ConfigError: a judge's key is missing, its provider is unknown, or there is no run directory for audits,
            repetitions or evolution.

    Example:
        >>> rewarder = make_rewarder("builtin/offline")
        >>> rubric = Rubric.from_dict([{"name": "Short", "requirement": "Contains at most 5 words."}])
        >>> [reward] = rewards_now(rewarder, [Sample("Because of the moon.", rubric, "Why are there tides?")])
        >>> reward.value
        1.0
    """

    caller = ("rule", "sample")
    is_training: ClassVar[bool] = True
    """Whether the caller uses only the values, so that a judge that can give none must raise an error."""

    def __init__(
        self,
        grader: Grader[Any],
        rule: RewardRule = DEFAULT_RULE,
        *,
        ask_again: float = 30.0,
        audit: AuditPlan | None = None,
        repeat_share: float = 0.0,
        evolution: EvolutionPlan | None = None,
    ) -> None:
        super().__init__(grader, rule)
        self._audit, self._repeat_share, self._plan, self._ask_again = audit, repeat_share, evolution, ask_again
        self._held, self._opening = AsyncExitStack(), asyncio.Lock()
        if evolution is not None:
            _check_evolution(grader, evolution)
        if audit is not None or repeat_share:
            if not isinstance(grader, CriterionGrader) or not grader.has_records:
                reason = "audits and repetitions are kept in the judge's ledger"
                raise ConfigError(f"{reason}; give it a run directory (run_dir=…)")
            if audit is not None:
                audit.check_family(grader)
        self._ledger: Ledger | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # of the rewards, until `finish`
        if isinstance(grader, CriterionGrader):
            for spec in grader.recipe.specs:
                resolve(spec.llm_config)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings for a copy, without rewards; raise a TypeError if there are audits or the like."""
        if self._audit is not None or self._repeat_share or self._plan is not None:
            reason = "a rewarder with audits, repetitions or rubric versions cannot be copied"
            raise TypeError(f"{reason}; use one `autorubric serve` for all processes, and HttpRewards in each")
        own: dict[str, Any] = dict.fromkeys(("observer", "_ledger", "_loop"))
        own |= {"_failures": FailureLog(self.rule), "_readmitted": 0.0}
        opened = {"_held": AsyncExitStack(), "_opening": asyncio.Lock(), "_checked": OrderedDict[int, Rubric]()}
        return {**self.__dict__, **own, **opened}

    async def rewards(self, samples: Sequence[Sample]) -> list[Reward]:
        """Return a reward for each sample, in order; samples are judged concurrently.

        Raises:
            InputError: a rubric cannot give a reward; no call was made.
            RewardFailed: a judgment failed, and the policy is `raise`; the other samples were judged. Any policy:
                all samples failed before the first reward, because of a wrong key, model or address, or no credit.
        """
        self._check(samples, await self._open_judge())
        if self.evolution is not None:
            samples = self.evolution.assign_versions(samples)
        found = await gather_all(self._reward(sample) for sample in samples)
        if self.is_training:
            self._failures.check(found)
        return found

    async def _reward(self, sample: Sample) -> Reward:
        return apply_policy(await self.reward(sample), self.rule)

    async def _grade(self, sample: Sample, inputs: JudgeInput | None) -> Report:
        if inputs is not None and isinstance(self.grader, CriterionGrader):
            return await self.grader.grade_input(inputs)
        query = None if sample.query is None else as_text(sample.query)
        report: EvaluationReport = await sample.rubric.grade(sample.submission, self.grader, query, sample.reference)
        return report

    async def _open_judge(self) -> Session | None:
        """Open the judge, and the audit, repetitions and evolution of its rewards; return the judge's session."""
        if not isinstance(self.grader, CriterionGrader):
            return None
        ledger, spent = self.grader.ledger(), None
        if ledger is not None and self._audit is not None and self._loop is None:
            ledger.set_costs((await self._audit.grader.open_session()).models.values())  # refuses a wrong judge
            spent = self._audit.sum_judged(ledger)
        session = await self.grader.open_session(spent)
        if ledger is not None:
            if self._ledger is not ledger:
                self._ledger, self.observer = ledger, Observer(ledger, self.grader.recipe.compound, self.rule)
            if self._audit is not None and self._loop is None:
                self.auditor = Auditor(self._audit, ledger, self.rule, session.executor)
            self._loop = self._loop or asyncio.get_running_loop()
            if self._repeat_share and self.repeater is None:
                self.repeater = Repeater(self._repeat_share, self.grader, ledger, self.rule, session.executor)
            await self._open_evolution(self.grader, ledger, session)
        if self._failures.counts and time.monotonic() - self._readmitted >= self._ask_again:
            self._readmitted = time.monotonic()
            session.executor.readmit()
        return session

    async def _open_evolution(self, grader: CriterionGrader, ledger: Ledger, session: Session) -> None:
        async with self._opening:
            if self._plan is None or self.evolution is not None:
                return
            from autorubric.training.evolution.live import EVOLUTION_LOCK, open_evolution

            out = grader.run_dir
            assert out is not None
            self._held.enter_context(run_lock(out / EVOLUTION_LOCK))
            opening = open_evolution(out, self._plan, grader, session.executor, ledger, self.rule)
            self.evolution = await self._held.enter_async_context(opening)

    @property
    def should_stop(self) -> bool:
        """Whether an audit with `on_gap="stop"` found that the judge's lead over the reference judge grew."""
        return self.auditor is not None and self.auditor.should_stop

    async def finish(self, seconds: float = 30.0) -> None:
        """Wait for open evolutions, audits and repetitions at the end of training, then abandon them.

        A script without an event loop calls `asyncio.run(rewarder.finish())`.
        """
        if (loop := self._loop) is not None and loop.is_running() and loop is not asyncio.get_running_loop():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.finish(seconds), loop))
            return
        await self._finish_background(seconds)
        if self.evolution is not None:
            self.evolution = None
            await self._held.aclose()
        if self._ledger is not None:
            self._ledger.flush()
        self._loop = None  # only now: audits in flight are part of the budget of the next ones


async def gather_all(work: Iterable[Awaitable[Reward]]) -> list[Reward]:
    """Return the rewards, in order; wait for all, then raise the first error."""
    found = await asyncio.gather(*work, return_exceptions=True)
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return [reward for reward in found if not isinstance(reward, BaseException)]


def _check_evolution(grader: Grader[Any], plan: EvolutionPlan) -> None:
    if not isinstance(grader, CriterionGrader) or grader.run_dir is None:
        raise ConfigError("rubric versions are kept in the judge's run directory; give it one (run_dir=…)")
    if not grader.recipe.specs and plan.assessor is None:
        raise ConfigError("no model to assess the relevance of proposals; pass EvolutionPlan(assessor=…)")


def make_rewarder(  # noqa: PLR0913 (settings of one rewarder)
    judge: str | LLMConfig | Grader[Any] | None,
    rule: RewardRule = DEFAULT_RULE,
    *,
    base_url: str | None = None,
    api_key_env: str | None = None,
    run_dir: str | Path | None = None,
    max_in_flight: int = 64,
    audit: AuditPlan | None = None,
    evolution: EvolutionPlan | None = None,
    compound: Compound = "as_is",
    reasoning: Reasoning = "drop",
) -> Rewarder:
    """Make a rewarder with this judge.

    Args:
        judge: `provider/model`, `MODEL@BASE_URL`, a configuration or a grader; None if every criterion has a check.
        rule: how a report becomes a reward.
        base_url: address of an OpenAI-compatible endpoint, for a judge given by name.
        api_key_env: the variable with its API key, for a judge given by name.
        run_dir: where replies are recorded; processes of one machine may share it.
        max_in_flight: maximum concurrent calls.
        audit: a reference judge for a share of the rewards; needs a run directory.
        evolution: the plan for evolving rubrics between training steps; needs a run directory.
        compound: `all` judges each demand of a criterion that has several.
        reasoning: `keep` grades the reasoning at the beginning of submissions too.

    Raises:
        ConfigError: the judge's key is missing, or settings contradict each other.
    """
    own: dict[str, Any] = {"run_dir": run_dir, "compound": compound, "reasoning": reasoning}
    if isinstance(judge, Grader):
        if (base_url, api_key_env, *own.values()) != (None, None, None, "as_is", "drop"):
            raise ConfigError(f"a grader has its own settings; leave out base_url, api_key_env, {', '.join(own)}")
        return Rewarder(judge, rule, audit=audit, evolution=evolution)
    if judge is None:
        grader = CriterionGrader.of_checks(reasoning=reasoning)
    elif isinstance(judge, LLMConfig) and (base_url is not None or api_key_env is not None):
        raise ConfigError("the judge's configuration has its own address and key; leave out base_url and api_key_env")
    else:
        config = judge if isinstance(judge, LLMConfig) else judge_config(judge, base_url, api_key_env)
        grader = CriterionGrader(judge_model_config=config, max_in_flight=max_in_flight, **own)
    return Rewarder(grader, rule, audit=audit, evolution=evolution)


def judge_config(
    judge: str, base_url: str | None = None, api_key_env: str | None = None, *, allow_plain_http: bool = False
) -> LLMConfig:
    """Return the configuration of a judge given by name."""
    model, address = resolve_address(judge, base_url)
    where: dict[str, Any] = {"api_base": address, "api_key_env": api_key_env, "allow_plain_http": allow_plain_http}
    return LLMConfig(model, temperature=0.0, max_tokens=2048, max_tokens_fixed=False, timeout=300.0, **where)


def rewards_now(source: RewardSource, samples: Sequence[Sample]) -> list[Reward]:
    """Return the rewards, for synchronous callers. In a running event loop, the call blocks the loop.

    Example:
        >>> rewards_now(make_rewarder("builtin/offline"), [])
        []
    """
    return wait_for(source.rewards(samples))
