"""`autorubric.reward` and `autorubric.serve`: rewards for a trainer, in its process or over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import PlainValidator, model_validator

from autorubric.background import rare_collections
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.item_rows import ROLES
from autorubric.errors import ConfigError
from autorubric.jobs.evolution_settings import OF_EVOLUTION, EvolutionSettings
from autorubric.jobs.grade import GradeData, check_data, check_rubric
from autorubric.jobs.job import ReplaceableSettings, RunSettings, blocking, job
from autorubric.jobs.judges import JudgeSettings, make_grader
from autorubric.jobs.submissions import columns_named, read_dataset
from autorubric.llm.attempts import attempt_log
from autorubric.llm.budget import Budget, check_priced
from autorubric.llm.http.access import checked_token
from autorubric.llm.models import open_models, stand_ins
from autorubric.runs.manifest import MANIFEST_FILE
from autorubric.runs.progress import RunState
from autorubric.runs.run_folder import LEDGER_FOLDER, run_folder
from autorubric.settings import Names, NewDirectory, setting
from autorubric.training.reward import Reward, RewardRule, SoftOverlong
from autorubric.training.rewarder import Rewarder, Sample

if TYPE_CHECKING:
    from autorubric.jobs.service_processes import ServiceProcesses
    from autorubric.training.audit import AuditPlan
    from autorubric.training.evolution.live import EvolutionPlan
    from autorubric.training.service.app import ServiceLimits
    from autorubric.training.service.engine import RewardEngine

RewardData: TypeAlias = GradeData | Sequence[Sample]
"""Whatever `grade` takes, or samples of submission, rubric, query and length in tokens."""


def _check_samples(value: Any) -> Any:
    if isinstance(value, list | tuple) and value and all(isinstance(one, Sample) for one in value):
        return value
    return check_data(value)


class RewardRuleSettings(JudgeSettings):
    """Who judges, and how a report becomes a reward."""

    formula: Literal["clipped", "positive", "signed"] = setting(
        "clipped", "clipped (the score of grade), positive (RubricHub) or signed (HealthBench).", group="Reward"
    )
    gate: Names = setting((), "Criterion that must be met, else the reward is 0; repeatable.", group="Reward")
    overlong: bool = setting(False, "Soft penalty for long submissions (DAPO), by 'length'.", group="Reward")
    overlong_length: int = setting(8192, "Tokens at which the penalty is complete.", group="Reward")
    overlong_buffer: int = setting(4096, "Tokens below that over which the penalty grows.", group="Reward")
    overlong_factor: float = setting(0.5, "The complete penalty.", group="Reward")
    dropout: float = setting(
        0.0, "Share of criteria each group of rollouts is graded without; gates stay.", group="Reward", ge=0, le=1
    )
    dropout_by: Literal["group", "step"] = setting(
        "group", "Draw other criteria for each query and step, or one choice for a step.", group="Reward"
    )
    dropout_seed: int = setting(0, "Another seed draws other criteria.", group="Reward")

    def rule(self) -> RewardRule:
        """How a report becomes a reward."""
        overlong = SoftOverlong(self.overlong_length, self.overlong_buffer, self.overlong_factor)
        return RewardRule(
            self.formula,
            cannot_assess=CannotAssessConfig(strategy=CannotAssessStrategy(self.cannot_assess)),
            gates=tuple(self.gate),
            overlong=overlong if self.overlong else None,
            dropout=self.dropout,
            dropout_by=self.dropout_by,
            dropout_seed=self.dropout_seed,
        )


class RewardSettings(RewardRuleSettings, RunSettings):
    """The settings of `autorubric.reward`."""

    data: Annotated[RewardData, PlainValidator(_check_samples)] = setting(
        ..., "Dataset, rows, submissions, or samples.", argument=True, group="Input", reads=True
    )
    rubric: Annotated[Rubric | Path | str, PlainValidator(check_rubric)] | None = setting(
        None, "Rubric for all submissions.", group="Input", reads=True
    )
    prompt: str | None = setting(None, "Prompt that the submissions respond to.", group="Input")
    column: Mapping[str, str] | Sequence[str] = setting(
        (), "Column of rows, such as submission=answer; repeatable.", metavar="ROLE=NAME", group="Input"
    )
    out: NewDirectory = setting("rewards", "Run directory; saved replies in it are reused.", short="-o", group="Run")


@job(RewardSettings)
async def reward_async(data: RewardData, settings: RewardSettings) -> list[Reward]:
    """Give each submission a reward for training, with the value of each criterion.

    A failed judgment gives no reward and never 0: `Reward.value` is None then, and `Reward.failure` says why.
    Trainers have adapters in `autorubric.training.adapters`; `autorubric serve` does the same over HTTP.

    Args:
        data: a dataset, the path of one or of rows, submissions as texts, or `Sample`s.
        settings: the keyword arguments, as one model.

    Returns:
        A reward for each submission, in order.

    Raises:
        InputError: a setting, a file or a row is wrong, or no reward can be made of a rubric; nothing was spent.

    Example:
        >>> import asyncio, tempfile
        >>> rubric = Rubric.from_dict([{"name": "Short", "requirement": "Contains at most 5 words."}])
        >>> rewards = reward_async(["So it is."], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> [found] = asyncio.run(rewards)
        >>> found.value, dict(found.criteria)
        (1.0, {'Short': 1.0})
    """
    samples = _samples(data, settings)
    out = Path(settings.out)
    log = None if settings.log_json is None else Path(settings.log_json)
    with attempt_log(log, str(out), prompts=settings.log_prompts), run_folder(out, (), settings.sources()):
        grader = make_grader(settings, run_dir=out / LEDGER_FOLDER)
        async with aclosing(grader):
            return await Rewarder(grader, settings.rule()).rewards(samples)


reward = blocking(reward_async)


def _samples(data: RewardData, settings: RewardSettings) -> list[Sample]:
    if isinstance(data, list | tuple) and isinstance(data[0], Sample):
        return [one for one in data if isinstance(one, Sample)]
    columns = columns_named(settings.column, ROLES)
    dataset: RubricDataset = read_dataset(data, settings.rubric, None, settings.prompt, columns)  # type: ignore[arg-type]
    return [_sample(dataset, index, item) for index, item in enumerate(dataset)]


def _sample(dataset: RubricDataset, index: int, item: DataItem) -> Sample:
    return Sample(
        item.submission,
        dataset.get_item_rubric(index),
        dataset.get_item_prompt(index),
        dataset.get_item_reference_submission(index),
        item=item.id or str(index),
    )


_OF_FIRST_PROCESS = frozenset({"port", "processes", "wait", "start_over", "replace", "announce", "progress", "stop"})
"""Settings of a service that only the first of its processes needs."""


class ServeSettings(RewardRuleSettings, EvolutionSettings, ReplaceableSettings):
    """The settings of `autorubric.serve` and `autorubric serve`."""

    host: str = setting(
        "127.0.0.1", "Address to listen at; one that others can reach needs --token-env.", group="Service"
    )
    port: int = setting(8100, "Port to listen at; 0 picks a free one.", group="Service", ge=0, le=65535)
    token_env: str | None = setting(
        None, "Environment variable that holds the token callers send.", group="Service", secret=True
    )
    queue: int = setting(
        4096, "Maximum submissions in the service; more are refused with 429.", group="Service", ge=1, le=10**6
    )
    deadline: float = setting(300.0, "Seconds before a request is answered with 504.", group="Service", gt=0)
    max_body_mb: float = setting(8.0, "Maximum size of a request body in MiB.", group="Service", gt=0)
    grace: float = setting(
        30.0, "Seconds that open requests have to end on SIGTERM.", group="Service", ge=0, le=86_400
    )
    audit: str | None = setting(
        None, "Reference judge of another family: MODEL or MODEL@BASE_URL.", group="Audit", metavar="MODEL"
    )
    audit_share: float = setting(0.02, "Share of rewards that it judges too.", group="Audit", gt=0, le=1)
    audit_budget: float | None = setting(
        None, "Budget of the audit in dollars, apart from --budget-usd.", group="Audit", ge=0
    )
    audit_tokens: int | None = setting(
        None, "Budget of the audit in tokens, apart from --budget-tokens.", group="Audit", ge=1, le=10**15
    )
    audit_tolerance: float = setting(
        0.0, "Growth of the gap between the judges that raises no alarm.", group="Audit", ge=0, le=1
    )
    on_gap: Literal["warn", "stop"] = setting(
        "warn", "When the gap has grown: mark the rewards (warn), or stop training too (stop).", group="Audit"
    )
    repeat_share: float = setting(
        0.0, "Share of rewards judged twice, to measure the judge's noise.", group="Audit", ge=0, le=1
    )
    second_judge: str | None = setting(None, "The old name of --audit.", group="Audit", hidden=True)
    second_share: float | None = setting(None, "The old name of --audit-share.", group="Audit", hidden=True)
    evolve: str | None = setting(
        None,
        "Model that proposes criteria from the rollouts: MODEL or MODEL@BASE_URL.",
        metavar="MODEL",
        group="Evolution",
    )
    timeout: float = setting(120.0, "Seconds before one attempt times out.", group="Endpoint")
    out: NewDirectory = setting("rewards", "Run directory; saved replies in it are reused.", short="-o", group="Run")
    start_over: bool = setting(
        False, "Use a new ledger if this one is lost or damaged; what was spent still counts.", group="Run"
    )
    processes: int | None = setting(
        None, "Serve with N processes, under one port, budget and ledger.", group="Service", ge=1, le=256
    )
    announce: Callable[[str], object] = setting(print, "Called with the address once it answers.", cli=False)

    @model_validator(mode="after")
    def _check_service(self) -> Self:
        if not self.host.isprintable():
            raise ConfigError(f"--host {self.host!a}; expected the name or the address of this machine")
        self._check_evolution()
        self._check_processes()
        if self.second_judge is not None or self.second_share is not None:
            raise ConfigError("--second-judge is called --audit now, and --second-share --audit-share")
        if self.audit is None:
            self._refuse_audit_settings()
        elif not self.judge:
            raise ConfigError("--audit compares with --judge; pass --judge MODEL as well")
        elif self.audit in self.judge:
            raise ConfigError(f"--audit {self.audit} is a --judge already; name a model of another family")
        return self

    def _check_processes(self) -> None:
        """Refuse what one process has to see every reward for."""
        if self.processes is None or self.processes == 1:
            return
        one = [name for name in ("audit", "evolve", "repeat_share", "log_json") if getattr(self, name)]
        if one:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in one)
            raise ConfigError(f"{flags} cannot be combined with --processes; leave --processes out")
        if self.concurrency < self.processes:
            raise ConfigError(
                f"--concurrency {self.concurrency} is less than one request for each of {self.processes} processes; "
                "raise --concurrency, or lower --processes"
            )
        if not hasattr(socket, "send_fds"):
            raise ConfigError("--processes needs a system that passes sockets between processes; leave it out")

    def by_processes(self) -> ServiceProcesses | None:
        """The processes that serve; None where this one does.

        Raises:
            ConfigError: a setting cannot be passed to them.
        """
        from autorubric.jobs.service_processes import ServiceProcesses

        if self.processes is None or self.processes == 1:
            return None
        unshown = {name for name, flag in type(self).flags().items() if not flag.shown}
        try:
            passed = self.passed(_OF_FIRST_PROCESS | unshown)
        except ConfigError as error:
            raise ConfigError(f"a service with --processes needs each setting as plain text; {error}") from None
        return ServiceProcesses({**passed, "out": str(self.out)}, self.processes, self.concurrency)

    def _refuse_audit_settings(self) -> None:
        names = ("audit_share", "audit_budget", "audit_tokens", "audit_tolerance", "on_gap")
        if unused := [f"--{name.replace('_', '-')}" for name in names if name in self.model_fields_set]:
            raise ConfigError(f"{', '.join(unused)} without an audit; pass --audit MODEL too")

    def _check_evolution(self) -> None:
        if self.evolve is None:
            unused = [f"--{n.replace('_', '-')}" for n in OF_EVOLUTION if n in self.model_fields_set]
            if unused:
                raise ConfigError(f"{', '.join(unused)} without evolution; pass --evolve MODEL too")
        elif not self.judge:
            raise ConfigError("--evolve grades its proposals with --judge; pass --judge MODEL as well")
        else:
            self.evolution()

    def recorded_evolution(self) -> dict[str, Any] | None:
        """What the manifest records of the evolution: another one is another service."""
        if self.evolve is None:
            return None
        rule = {name: value for name, value in asdict(self.evolution()).items() if name != "gates"}
        return {"model": self.evolve, **rule, "persistent": list(self.persistent)}

    def auditing(self) -> AuditPlan | None:
        """How the judge is audited."""
        if self.audit is None:
            return None
        from autorubric.training.audit import AuditPlan

        unset = {"quorum", "escalate_to", "escalate_below"}
        shared = self.model_fields_set & JudgeSettings.model_fields.keys() - unset
        own: dict[str, Any] = {name: getattr(self, name) for name in shared}
        own |= {"budget_usd": self.audit_budget, "budget_tokens": self.audit_tokens, "timeout": self.timeout}
        grader = make_grader(JudgeSettings(**{**own, "judge": [self.audit]}))
        return AuditPlan(grader, self.audit_share, self.seed, self.audit_tolerance, self.on_gap)


@job(ServeSettings)
async def serve_async(_: None, settings: ServeSettings) -> RewardEngine | ServiceProcesses:
    """Serve rewards to trainers: POST /v1/reward, GET /healthz, GET /metrics.

    All callers share one limit, one budget and one ledger; equal questions at the same time are asked once, and never
    again. A failed judgment gives no reward, and never 0. SIGTERM or Ctrl-C answers what is open, then returns.

    Args:
        settings: the keyword arguments, as one model.

    Returns:
        What the service did: its `executor.snapshot()` counts requests.

    Raises:
        InputError: a setting is wrong, or the address or directory cannot be taken; nothing was spent.
    """
    from autorubric.jobs.service_processes import serve_by_processes
    from autorubric.training.service.server import ServiceSettings, serve_rewards

    limits, processes = service_limits(settings, os.environ), settings.by_processes()
    grader, audit, rule = make_grader(settings), settings.auditing(), settings.rule()
    if audit is not None:
        audit.check_family(grader)
    names: list[str] = []
    for one in (grader, audit.grader if audit else None):
        if one is not None:
            names += [model.name for model in (await one.open_session()).models.values()]
    if settings.progress is not None:
        settings.progress(RunState(0, 0, [], 0, 0, 0, 0.0, stand_ins=stand_ins(names)))
    out = Path(settings.out)
    service = ServiceSettings(
        out,
        settings.host,
        settings.port,
        settings.queue,
        limits,
        settings.grace,
        settings.prefix_first,
        settings.repeat_share,
        settings.wait,
        settings.start_over,
        settings.replace,
        {
            "formula": rule.formula,
            "gates": list(rule.gates),
            "overlong": rule.overlong and asdict(rule.overlong),
            "dropout": [rule.dropout, rule.dropout_by, rule.dropout_seed] if rule.dropout else None,
            "evolution": settings.recorded_evolution(),
            "settings": settings.recorded(),
        },
    )
    log = None if settings.log_json is None else Path(settings.log_json)
    async with AsyncExitStack() as stack:
        service = replace(service, evolution=await _open_evolution(settings, stack))
        stack.enter_context(rare_collections())  # a long search for cycles would be a long wait for somebody
        stack.enter_context(attempt_log(log, str(out), prompts=settings.log_prompts))
        stack.enter_context(run_folder(out, (MANIFEST_FILE,), start_over=settings.start_over))

        def announce(url: str) -> None:
            settings.announce(f"rewards at {url}/v1/reward")

        if processes is not None:
            budget = partial(Budget, usd=settings.budget_usd, tokens=settings.budget_tokens)
            return await serve_by_processes(service, grader, processes, budget, announce)
        return await serve_rewards(service, grader, rule, audit, announce)


def service_limits(settings: ServeSettings, environ: Mapping[str, str]) -> ServiceLimits:
    """The token that a call needs, and the limits of its body and duration."""
    from autorubric.training.service.app import ServiceLimits

    token = checked_token(settings.host, settings.token_env, environ)
    return ServiceLimits(token, round(settings.max_body_mb * 2**20), settings.deadline)


async def _open_evolution(settings: ServeSettings, stack: AsyncExitStack) -> EvolutionPlan | None:
    """How the service evolves rubrics, with the model open as long as the stack is."""
    if settings.evolve is None:
        return None
    from autorubric.training.evolution.live import EvolutionPlan

    config = settings.writer_config(settings.evolve)
    models = await stack.enter_async_context(open_models(config, settings.concurrency))
    if settings.budget_usd is not None:
        check_priced(models)
    return EvolutionPlan(settings.evolution(), models["writer"])


serve = blocking(serve_async)
