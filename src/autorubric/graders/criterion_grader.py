"""The public grader; its constructor combines judges, panel, checks and ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from autorubric.core.criterion import AggregationStrategy, Criterion, NominalAggregation, OrdinalAggregation
from autorubric.core.judgment import CannotAssessConfig, Judgment
from autorubric.core.report import EnsembleEvaluationReport
from autorubric.core.scoring import LengthPenalty
from autorubric.core.submission import ToGradeInput
from autorubric.dataset import RubricDataset
from autorubric.errors import ConfigError, warn
from autorubric.files.remote import make_path
from autorubric.graders.aggregation import Rules
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.assembly import EscalationConfig, JudgeSpec, LLMCalls, Recipe, resolve_judge_specs
from autorubric.graders.criterion_judge import PrefixFirst
from autorubric.graders.demands import Compound, DemandsOnce
from autorubric.graders.few_shot import FewShot, FewShotConfig
from autorubric.graders.grader import Grader
from autorubric.graders.judge import Ask, Judge, JudgeInput, Query, QuestionCounter
from autorubric.graders.reporting import OnFailure, Scoring, report_on, with_length_penalty
from autorubric.graders.session import MAX_IN_FLIGHT, Session, SessionLimits, Sessions
from autorubric.graders.suspicion import suspicions
from autorubric.graders.without_model import ChecksFirst
from autorubric.llm.batches.setting import batching
from autorubric.llm.client import LLMClient, build_reply_schema
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.models import find_stand_in_note
from autorubric.llm.records.accounts import Spending, UsageTotals
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer
from autorubric.llm.sharing import turn, turns
from autorubric.llm.thinking import Reasoning, split_submission
from autorubric.prompts.judging import JudgePrompts, package_judge_prompts

_MOST_REMEMBERED = 10_000  # questions that a grader without records can number


@dataclass(frozen=True, slots=True)
class JudgedSubmission:
    """A submission with its rubric, and the judgments on its criteria."""

    inputs: JudgeInput
    judgments: Sequence[Judgment]


class CriterionGrader(Grader[EnsembleEvaluationReport]):
    """Grades submissions criterion by criterion, with a model or a panel, and with checks where criteria have one.

    A grader can be pickled and deep-copied if its judge can: the copy has the same settings and opens its own
    connections. A grader with a budget or an open `ledger` raises `TypeError` instead.

    Args:
        judge_model_config: the model of a single judge (judge id `default`), as a configuration or a string.
        judges: several judges that form a panel, instead of `judge_model_config`. Each sends its own
            requests, even if several use one model; `JudgeSpec(repeats=3)` asks a judge three times.
        aggregation: how to combine a panel's verdicts: majority, weighted, unanimous or any.
        ordinal_aggregation: the same for ordered options: mean, median, weighted_mean, mode, min or max.
        nominal_aggregation: the same for unordered options: mode, weighted_mode or unanimous.
        training_data: labelled items for few-shot examples.
        few_shot_config: the number of examples, and how they are chosen.
        system_prompt: replaces the built-in one for binary criteria and whole rubrics.
        multi_choice_system_prompt: the same for multi-choice criteria.
        length_penalty: the penalty for long submissions.
        normalize: True for scores in [0, 1], False for bare sums of value · weight.
        cannot_assess_config: how an abstention counts in the score.
        shuffle_options: show options in another order for each submission; the report keeps the original indices.
        auto_na_option: add an option that means "not applicable" to criteria that have none.
        seed: the seed of shuffling, and of few-shot examples if `few_shot_config` has none; None uses a fixed seed,
            so that recorded replies are found.
        binary_response_format: the schema of replies on binary criteria; it must have the fields of the built-in one.
        multi_choice_response_format: the same for multi-choice criteria.
        escalation: stronger judges for the criteria that the judges above cannot decide.
        llm_calls: `per_criterion`, `per_item` for one call that judges the whole rubric, or the name of a judge that
            an installed package registers in `autorubric.judges`.
        llm_config: deprecated name of `judge_model_config`.
        judge: a judge object, instead of all of the above.
        on_failure: `none` gives no score if a judgment failed, `skip` scores the other criteria.
        evidence: require quotes, and look them up in the submission.
        quorum: minimum number of judges of a panel that must return a verdict; all by default.
        prompts: prompts of the judges, instead of the built-in ones.
        run_dir: the directory in which replies are recorded durably; `LLMConfig(cache_enabled=True, cache_dir=…)` has
            the same effect. With it, a text graded before costs nothing; without it, each `grade` calls the judges
            again.
        ledger: an open ledger instead of `run_dir`; the caller closes it.
        budget_usd: the budget in dollars.
        budget_tokens: the budget in tokens.
        max_in_flight: maximum concurrent calls of all judges together.
        prefix_first: send the first call of a submission alone, so that its prompt prefix is cached for the others.
        compound: `all` judges each demand of a criterion separately; the criterion is met only if all are met.
        reasoning: `drop` leaves out the reasoning at the beginning of submissions that are text (`<think>…</think>`,
            and the tags of other models); `keep` grades it as part of the text.

    Raises:
        ValueError: settings contradict each other, or a name is unknown; nothing was spent.

    Example:
        >>> from autorubric import Rubric
        >>> grader = CriterionGrader(judge_model_config=LLMConfig("builtin/offline"))
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
        >>> rubric.grade_sync("Because of the moon.", grader).score
        1.0
    """

    _listed: dict[Any, Answer[Any]]

    def __init__(  # noqa: PLR0913 (published signature)
        self,
        *,
        judge_model_config: LLMConfig | str | None = None,
        judges: list[JudgeSpec] | None = None,
        aggregation: AggregationStrategy = "majority",
        ordinal_aggregation: OrdinalAggregation = "mean",
        nominal_aggregation: NominalAggregation = "mode",
        training_data: RubricDataset | None = None,
        few_shot_config: FewShotConfig | None = None,
        system_prompt: str | None = None,
        multi_choice_system_prompt: str | None = None,
        length_penalty: LengthPenalty | None = None,
        normalize: bool = True,
        cannot_assess_config: CannotAssessConfig | None = None,
        shuffle_options: bool = True,
        auto_na_option: bool = True,
        seed: int | None = None,
        binary_response_format: type[BaseModel] | None = None,
        multi_choice_response_format: type[BaseModel] | None = None,
        escalation: EscalationConfig | None = None,
        llm_calls: LLMCalls | str = "per_criterion",
        llm_config: LLMConfig | None = None,
        judge: Judge | None = None,
        on_failure: OnFailure = "none",
        evidence: bool = False,
        quorum: int | None = None,
        prompts: JudgePrompts | None = None,
        run_dir: Path | str | None = None,
        ledger: Ledger | None = None,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        prefix_first: bool = True,
        compound: Compound = "as_is",
        reasoning: Reasoning = "drop",
    ) -> None:
        super().__init__(length_penalty=length_penalty, normalize=normalize)
        chosen = few_shot_config or FewShotConfig()
        few_shot = None if training_data is None else FewShot(training_data, chosen, seed or 0, reasoning)
        options = JudgeOptions(
            shuffle_options=shuffle_options,
            auto_na_option=auto_na_option,
            seed=seed or 0,
            evidence=evidence,
            few_shot=few_shot,
            prompts=(prompts or package_judge_prompts()).with_system(system_prompt, multi_choice_system_prompt),
            binary_schema=build_reply_schema(binary_response_format),
            choice_schema=build_reply_schema(multi_choice_response_format),
        )
        specs = resolve_judge_specs(judge_model_config, llm_config, judges, judge)
        rules = Rules(aggregation, ordinal_aggregation, nominal_aggregation)
        self.recipe = Recipe(specs, rules, quorum, escalation, llm_calls, options, judge, compound, reasoning)
        self.scoring = Scoring(cannot_assess_config or CannotAssessConfig(), normalize, on_failure)
        self.prefix_first = prefix_first
        limits = SessionLimits(budget_usd, budget_tokens, max_in_flight)
        self._sessions = Sessions(self.recipe, limits, _choose_run_dir(run_dir, specs), ledger, LLMClient)
        self._occurrences, self._listed = QuestionCounter(most=_MOST_REMEMBERED), {}
        for note in self.recipe.find_warnings():
            warn(note)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings; a pickled or deep-copied grader has not graded anything yet."""
        return {**self.__dict__, "_occurrences": QuestionCounter(most=_MOST_REMEMBERED), "_listed": {}}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.judge_ids)}>"

    @classmethod
    def of_checks(cls, **settings: Any) -> CriterionGrader:
        """Create a grader without a judge, for rubrics whose criteria all have checks.

        Args:
            settings: scoring settings: `length_penalty`, `normalize`, `cannot_assess_config`, `on_failure`.

        Example:
            >>> from autorubric import Rubric
            >>> short = Criterion(requirement="Is brief", check={"name": "word_count", "parameters": {"at_most": 5}})
            >>> Rubric([short]).grade_sync("Because of the moon.", CriterionGrader.of_checks()).score
            1.0
        """
        return cls(judge=ChecksFirst(None), **settings)

    @property
    def is_ensemble(self) -> bool:
        """Whether there are several judges."""
        return len(self.judge_ids) > 1

    @property
    def judge_ids(self) -> list[str]:
        """The ids of the judges, in order."""
        return list(self.recipe.judge_ids)

    @property
    def has_few_shot(self) -> bool:
        """Whether judges see few-shot examples."""
        return self.recipe.options.few_shot is not None

    @property
    def seed(self) -> int:
        """The seed of shuffling and of few-shot examples."""
        return self.recipe.options.seed

    @property
    def max_in_flight(self) -> int:
        """The maximum concurrent calls of all judges together."""
        return self._sessions.limits.in_flight

    @property
    def has_records(self) -> bool:
        """Whether replies are recorded in a ledger of the grader's own."""
        return self._sessions.records

    @property
    def run_dir(self) -> Path | None:
        """The directory of the grader's own records, if it has one."""
        return self._sessions.run_dir

    def read_input(
        self,
        to_grade: ToGradeInput,
        rubric: Iterable[Criterion],
        query: Query | None = None,
        reference_submission: str | None = None,
        *,
        guidelines: str | None = None,
        item: str = "",
    ) -> JudgeInput:
        """Build the judges' input; if the submission is a mapping, its `output` is judged.

        If it is text, reasoning at its beginning is left out, unless the grader keeps it. Without an `item`, the id
        of the submission is a digest of its text.

        Raises:
            InputError: the submission is neither text nor a mapping with `thinking` and `output`.
        """
        parts = split_submission(to_grade, self.recipe.reasoning)
        shown, dropped = (None, parts["thinking"]) if isinstance(to_grade, str) else (parts["thinking"] or None, "")
        given = tuple(rubric), query, reference_submission, guidelines
        about = item or blake2b(parts["output"].encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return JudgeInput(parts["output"], *given, shown, about, (), dropped)

    async def grade_input(self, inputs: JudgeInput, ask: Ask | None = None) -> EnsembleEvaluationReport:
        """Grade a submission, and return the report.

        Args:
            inputs: the submission with its rubric.
            ask: sends requests to models; by default with the grader's own records and limits.
        """
        if ask is None and not self.has_records:
            inputs = self._occurrences.number_questions(inputs)
        judgments = await self.judgments(inputs, ask)
        report = report_on(inputs, judgments, self.scoring, suspicions(inputs.submission))
        if self.length_penalty is None:
            return report
        whole: ToGradeInput = inputs.submission
        if thinking := inputs.thinking or inputs.dropped:
            whole = {"thinking": thinking, "output": inputs.submission}
        return with_length_penalty(report, whole, self.length_penalty, normalize=self.normalize)

    async def judgments(self, inputs: JudgeInput, ask: Ask | None = None) -> Sequence[Judgment]:
        """Return one judgment for each criterion, in order, before they become a report."""
        begun = turn.get()
        turn.set(begun or next(turns))
        try:
            session = await self._sessions.open()
            if ask is None:
                ask_for = session.executor.ask_for
                ask = ask_for if self.has_records else DemandsOnce(ask_for, self._listed)
                ask = PrefixFirst(ask) if self.prefix_first and batching.get() is None else ask
            return await session.judge.judge(inputs, range(len(inputs.criteria)), ask)
        finally:
            turn.set(begun)

    async def grade(
        self,
        to_grade: ToGradeInput,
        rubric: list[Criterion],
        query: str | None = None,
        reference_submission: str | None = None,
        *,
        guidelines: str | None = None,
    ) -> EnsembleEvaluationReport:
        """Return the report on one submission; see `Grader.grade`."""
        return await self.grade_input(
            self.read_input(to_grade, rubric, query, reference_submission, guidelines=guidelines)
        )

    async def judge(
        self,
        to_grade: str,
        rubric: list[Criterion],
        query: str | None = None,
        reference_submission: str | None = None,
        *,
        guidelines: str | None = None,
    ) -> JudgedSubmission:
        """Return the judgments on each criterion, before they become a report."""
        inputs = self.read_input(to_grade, rubric, query, reference_submission, guidelines=guidelines)
        return JudgedSubmission(inputs, await self.judgments(inputs, None))

    async def aggregate(self, judge_results: JudgedSubmission, *, normalize: bool = True) -> EnsembleEvaluationReport:
        """Build the report from the result of `judge`, without a length penalty."""
        scoring = replace(self.scoring, normalize=normalize)
        return report_on(judge_results.inputs, judge_results.judgments, scoring)

    async def open_session(self, spent: Spending | None = None) -> Session:
        """Return the grader's models, judge and executor in the running event loop; `spent` as in `executor_on`."""
        return await self._sessions.open(spent)

    @property
    def has_budget(self) -> bool:
        """Whether the grader has its own budget."""
        return self._sessions.limits.make_budget(None) is not None

    def executor_on(self, ledger: Ledger, *, detached: bool = True, spent: Spending | None = None) -> Executor:
        """Return an executor that records in `ledger` and respects this grader's limits; `detached` as in `Executor`.

        A custom judge may have timeouts, so its calls are always detached: a call that the judge no longer waits for
        is recorded, and not paid for again. `spent` is the earlier spending to count; by default, that in the ledger.
        """
        budget = self._sessions.limits.make_budget(ledger, spent)
        return Executor(ledger, budget, detached=detached or self.recipe.has_own_judge)

    def ledger(self) -> Ledger | None:
        """Return the grader's own ledger, opened on first use; None if it has none."""
        return self._sessions.open_ledger()

    def totals(self) -> list[UsageTotals]:
        """Calls, tokens and cost in the grader's own ledger; empty if it has none."""
        ledger = self.ledger()
        return [] if ledger is None else ledger.add_up()

    def describe(self) -> dict[str, Any]:
        """Return everything that affects this grader's reports, for manifests; no secrets."""
        penalty = self.length_penalty
        return {
            **self.recipe.describe_settings(),
            "stand_ins": list(find_stand_in_note(spec.llm_config.model for spec in self.recipe.specs)),
            "cannot_assess": self.scoring.cannot_assess.model_dump(mode="json"),
            "normalize": self.normalize,
            "on_failure": self.scoring.on_failure,
            "length_penalty": None if penalty is None else penalty.model_dump(mode="json", exclude={"count_fn"}),
        }

    @property
    def is_described(self) -> bool:
        """Whether `describe` covers everything that affects reports, so equal descriptions mean equal reports."""
        recipe, options, penalty = self.recipe, self.recipe.options, self.length_penalty
        own = (options.few_shot, options.binary_schema, options.choice_schema, penalty and penalty.count_fn)
        return (
            type(self) is CriterionGrader
            and not recipe.has_own_judge
            and not any(option is not None for option in own)
        )

    def close(self) -> None:
        """Release the grader's run directory; the next use opens it again."""
        self._sessions.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and release the run directory."""
        await self._sessions.aclose()


def _choose_run_dir(run_dir: Path | str | None, specs: Sequence[JudgeSpec]) -> Path | None:
    """Return the given folder, or the cache folder in the judges' configurations."""
    cached = sorted({str(spec.llm_config.cache_dir) for spec in specs if spec.llm_config.cache_enabled})
    if run_dir is not None:
        return make_path(run_dir)
    if len(cached) > 1:
        raise ConfigError(f"judges have different cache folders ({', '.join(cached)}); pass run_dir instead")
    return make_path(cached[0]) if cached else None
