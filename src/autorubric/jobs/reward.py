"""`autorubric.reward`: rewards for a trainer, in the trainer's process."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import PlainValidator

from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.item import ROLES
from autorubric.jobs.grade import GradeData, check_data
from autorubric.jobs.job import Columns, RubricSource, RunSettings, blocking, column_setting, job
from autorubric.jobs.judges import JudgeSettings, make_grader
from autorubric.jobs.submissions import parse_columns, read_dataset
from autorubric.llm.request import Model
from autorubric.runs.another_run import REWARDS
from autorubric.runs.manifest import MANIFEST_FILE, read_manifest, write_manifest
from autorubric.runs.progress import RunState, StageState
from autorubric.runs.run_folder import LEDGER_FOLDER, run_folder
from autorubric.runs.stopping import StoppableRun
from autorubric.settings import Names, NewDirectory, setting
from autorubric.training.rewarder import Rewarder, Sample
from autorubric.training.rewards import Reward, RewardRule, SoftOverlong

RewardData: TypeAlias = GradeData | Sequence[Sample]
"""Any data that `grade` accepts, or `Sample`s."""


def _check_samples(value: Any) -> Any:
    if isinstance(value, list | tuple) and value and all(isinstance(entry, Sample) for entry in value):
        return value
    return check_data(value)


class RewardRuleSettings(JudgeSettings):
    """The judges, and the rule that turns a report into a reward."""

    formula: Literal["clipped", "positive", "signed"] = setting(
        "clipped", "clipped (as in grade), positive or signed.", group="Reward"
    )
    gate: Names = setting((), "Criterion that must be met, else the reward is 0; repeatable.", group="Reward")
    overlong: bool = setting(False, "Subtract DAPO's soft penalty for long submissions.", group="Reward")
    overlong_length: int = setting(8192, "Tokens from which the full penalty applies.", group="Reward")
    overlong_buffer: int = setting(4096, "Tokens over which the penalty grows.", group="Reward")
    overlong_factor: float = setting(0.5, "Points that the full penalty subtracts.", group="Reward")
    dropout: float = setting(0.0, "Share of criteria left out per group, not gates.", group="Reward", ge=0, le=1)
    dropout_by: Literal["group", "step"] = setting(
        "group", "Draw per group (query and step) or step.", group="Reward"
    )
    dropout_seed: int = setting(0, "Random seed of --dropout.", group="Reward")

    needs: ClassVar = {
        "--overlong": ("overlong_length", "overlong_buffer", "overlong_factor"),
        "--dropout": ("dropout_by", "dropout_seed"),
    }

    def build_reward_rule(self) -> RewardRule:
        """Return the rule that turns a report into a reward."""
        overlong = SoftOverlong(self.overlong_length, self.overlong_buffer, self.overlong_factor)
        return RewardRule(
            self.formula,
            cannot_assess=self.cannot_assess,
            gates=tuple(self.gate),
            overlong=overlong if self.overlong else None,
            dropout=self.dropout,
            dropout_by=self.dropout_by,
            dropout_seed=self.dropout_seed,
        )


class RewardSettings(RewardRuleSettings, RunSettings):
    """The settings of `autorubric.reward`.

    Example:
        >>> RewardSettings(data=["Yes"], rubric="rubric.json", formula="positive").formula
        'positive'
    """

    data: Annotated[RewardData, PlainValidator(_check_samples)] = setting(
        ..., "Dataset, rows, submissions, or samples.", argument=True, group="Input", reads=True
    )
    rubric: RubricSource | None = setting(None, "Rubric for all submissions.", group="Input", reads=True)
    prompt: str | None = setting(None, "Prompt of submissions that have none of their own.", group="Input")
    column: Columns = column_setting("Column of rows, or path: submission=turns[0]; repeatable.")
    out: NewDirectory = setting("rewards", "Run directory; saved replies in it are reused.", short="-o", group="Run")


@job(RewardSettings)
async def reward_async(data: RewardData, settings: RewardSettings) -> list[Reward]:
    """Give each submission a reward for training, with the value of each criterion.

    A failed judgment gives no reward, never 0: `Reward.value` is then None, and `Reward.failure` says why.
    Trainers have adapters in `autorubric.training.adapters`; `autorubric serve` does the same over HTTP.

    Args:
        data: a dataset, the path of a dataset or of rows, submissions as strings, or `Sample`s.
        settings: the keyword arguments, as a settings object.

    Returns:
        A reward for each submission, in order.

    Raises:
        InputError: a setting, a file or a row is wrong, or a rubric allows no reward; nothing was spent.

    Example:
        >>> import asyncio, tempfile
        >>> from autorubric import Rubric
        >>> rubric = Rubric.from_dict([{"name": "Short", "requirement": "Contains at most 5 words."}])
        >>> rewards = reward_async(["So it is."], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> [found] = asyncio.run(rewards)
        >>> found.value, dict(found.criteria)
        (1.0, {'Short': 1.0})
    """
    samples = _read_samples(data, settings)
    out = Path(settings.out)
    with settings.attempts_logged(), run_folder(out, (MANIFEST_FILE,), settings.list_sources()):
        grader = make_grader(settings, run_dir=out / LEDGER_FOLDER)
        async with aclosing(grader):
            rewarder, session = _CountingRewarder(grader, settings.build_reward_rule()), await grader.open_session()
            models = session.models.values()
            run = _RewardRun(executor=session.executor, samples=samples, models=models, rewarder=rewarder)
            with run.record_progress(out):
                await run.run_to_end(settings.progress, settings.stop, run.build_state)
            return run.rewards


reward = blocking(reward_async)


class _CountingRewarder(Rewarder):
    """Counts answered samples, failed ones, and failures caused by the budget."""

    given = failed = unpaid = 0
    is_training = False  # the run reports the refusal

    async def _reward(self, sample: Sample) -> Reward:
        made = await super()._reward(sample)
        self.given += 1
        self.failed += made.failure is not None
        self.unpaid += "budget of " in (made.failure or "")
        return made


@dataclass(kw_only=True)
class _RewardRun(StoppableRun):
    """Computes the rewards of samples; after a stop, the remaining samples get none."""

    samples: Sequence[Sample]
    models: Collection[Model]
    rewarder: _CountingRewarder
    rewards: list[Reward] = field(default_factory=list)

    async def execute(self) -> None:
        self.rewards = await self.rewarder.rewards(self.samples)

    @contextmanager
    def record_progress(self, out: Path) -> Iterator[None]:
        """Record the progress in the directory's manifest, unless the manifest belongs to another run."""
        before = read_manifest(out)
        if before is not None and before.get("kind") != REWARDS:
            yield
            return
        write_manifest(out, self._build_manifest("running"))
        try:
            yield
        except BaseException:
            with suppress(OSError):  # the error says more
                write_manifest(out, self._build_manifest("stopped"))
            raise
        is_whole = len(self.rewards) == len(self.samples) and not self.rewarder.failed
        write_manifest(out, self._build_manifest("completed" if is_whole else "stopped"))

    def _build_manifest(self, status: str) -> dict[str, Any]:
        given, failed = self.rewarder.given, self.rewarder.failed
        counts = {"rows": len(self.samples), "finished": given - failed, "failed": failed}
        error = self.stopped or (self.executor and self.executor.find_refusal(self.models))
        return {"kind": REWARDS, "status": status, "counts": counts, "error": error}

    def build_state(self) -> RunState:
        given, failed, activity = self.rewarder.given, self.rewarder.failed, self.activity
        stage = StageState("rewarded", given - failed, sum(activity.in_flight for activity in activity), failed)
        return RunState.of(len(self.samples), given - self.rewarder.unpaid, [stage], activity)


def _read_samples(data: RewardData, settings: RewardSettings) -> list[Sample]:
    if isinstance(data, list | tuple) and any(isinstance(entry, Sample) for entry in data):
        return [sample for sample in data if isinstance(sample, Sample)]
    columns = parse_columns(settings.column, ROLES)
    dataset: RubricDataset = read_dataset(data, settings.rubric, None, settings.prompt, columns)  # type: ignore[arg-type]
    return [_build_sample(dataset, index, item) for index, item in enumerate(dataset)]


def _build_sample(dataset: RubricDataset, index: int, item: DataItem) -> Sample:
    return Sample(
        item.submission,
        dataset.get_item_rubric(index),
        dataset.get_item_prompt(index),
        dataset.get_item_reference_submission(index),
        item=item.id or str(index),
    )
