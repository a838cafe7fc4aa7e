"""`autorubric.serve`: rewards for trainers, over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from autorubric.background import rare_collections
from autorubric.errors import ConfigError
from autorubric.jobs.evolution_settings import OF_EVOLUTION, EvolutionSettings
from autorubric.jobs.job import ReplaceableSettings, blocking, job
from autorubric.jobs.judges import JudgeSettings, key_variable, make_grader
from autorubric.jobs.reward import RewardRuleSettings
from autorubric.llm.budget import Budget
from autorubric.llm.http.access import read_token
from autorubric.llm.http.endpoints import share_slots
from autorubric.llm.http.secrets import VariableName
from autorubric.llm.models import check_priced, open_models
from autorubric.runs.manifest import MANIFEST_FILE
from autorubric.runs.run_folder import run_folder
from autorubric.runs.stopping import Stop
from autorubric.settings import NewDirectory, setting
from autorubric.training.rewards import RewardRule

if TYPE_CHECKING:
    from autorubric.jobs.service_processes import ServiceProcesses
    from autorubric.training.audit import AuditPlan
    from autorubric.training.evolution.live import EvolutionPlan
    from autorubric.training.service.engine import RewardEngine
    from autorubric.training.service.reward_app import ServiceLimits
    from autorubric.training.service.reward_server import ServiceSettings

_OF_FIRST_PROCESS = frozenset({"port", "processes", "wait", "start_over", "replace", "announce", "progress", "stop"})
"""Settings that only the main process of a service uses."""
_OF_AUDIT = ("audit_key_env", "audit_share", "audit_budget", "audit_tokens", "audit_tolerance", "on_gap")


class ServeSettings(RewardRuleSettings, EvolutionSettings, ReplaceableSettings):
    """The settings of `autorubric.serve` and `autorubric serve`.

    Example:
        >>> ServeSettings(judge="builtin/offline", port=0).port
        0
    """

    host: str = setting("127.0.0.1", "Address; a public one requires --token-env.", group="Service")
    port: int = setting(8100, "Port to listen on; 0 means any free port.", group="Service", ge=0, le=65535)
    token_env: str | None = setting(
        None, "Environment variable with the token that clients must send.", group="Service", secret=True
    )
    queue: int = setting(
        4096, "Maximum submissions in the service; others get a 429.", group="Service", ge=1, le=10**6
    )
    deadline: float = setting(300.0, "Seconds before a request is answered with 504.", group="Service", gt=0)
    max_body_mb: float = setting(8.0, "Maximum size of a request body in MiB.", group="Service", gt=0)
    grace: float = setting(
        30.0, "Seconds for open requests to finish after SIGTERM.", group="Service", ge=0, le=86_400
    )
    audit: str | None = setting(
        None, "Reference judge of another family: MODEL or MODEL@BASE_URL.", group="Audit", metavar="MODEL"
    )
    audit_key_env: VariableName | None = key_variable(
        "Environment variable with the API key of the audit judge.", "Audit", hidden=False
    )
    audit_share: float = setting(0.02, "Share of rewards that the audit judge grades.", group="Audit", gt=0, le=1)
    audit_budget: float | None = setting(
        None, "Budget of the audit in dollars, separate from --budget-usd.", group="Audit", ge=0
    )
    audit_tokens: int | None = setting(
        None, "Budget of the audit in tokens, separate from --budget-tokens.", group="Audit", ge=1, le=10**15
    )
    audit_tolerance: float = setting(0.0, "Growth of the gap that raises no alarm.", group="Audit", ge=0, le=1)
    on_gap: Literal["warn", "stop"] = setting("warn", "On an alarm: warn or stop.", group="Audit")
    repeat_share: float = setting(0.0, "Share of rewards judged twice, to measure noise.", group="Audit", ge=0, le=1)
    evolve: str | None = setting(
        None, "Model that proposes criteria from rollouts.", metavar="MODEL", group="Evolution"
    )
    timeout: float = setting(120.0, "Timeout of one attempt, in seconds.", group="Endpoint")
    out: NewDirectory = setting("rewards", "Run directory; saved replies in it are reused.", short="-o", group="Run")
    start_over: bool = setting(False, "Replace a lost or damaged ledger; earlier spending still counts.", group="Run")
    processes: int | None = setting(
        None, "Serve with N processes, under one port, budget and ledger.", group="Service", ge=1, le=256
    )
    announce: Callable[[str], object] = setting(
        print, "Called with a line that ends in the address, once it answers.", cli=False
    )

    @property
    def splits(self) -> bool:
        """Whether a model is named that can split criteria: the one that evolves rubrics."""
        return self.evolve is not None

    needs: ClassVar = {
        "--audit MODEL": _OF_AUDIT,
        "--evolve MODEL": OF_EVOLUTION,
    }

    @model_validator(mode="after")
    def _check_service(self) -> Self:
        if not self.host.isprintable():
            raise ConfigError(f"--host {self.host!a}; expected the name or the address of this machine")
        for name, use in (("evolve", "grades its proposals"), ("audit", "compares")):
            if getattr(self, name) is not None and not self.judge:
                raise ConfigError(f"--{name} {use} with --judge; pass --judge MODEL as well")
        if self.evolve is not None:
            self.build_evolution_rule()
        self._check_processes()
        if self.audit in self.judge:
            raise ConfigError(f"--audit {self.audit} is also a --judge; choose a model of another family")
        return self

    def _check_processes(self) -> None:
        """Refuse settings that require all rewards to be in one process."""
        if self.processes is None or self.processes == 1:
            return
        unsupported = [name for name in ("audit", "evolve", "repeat_share", "log_json") if getattr(self, name)]
        if unsupported:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in unsupported)
            raise ConfigError(f"{flags} cannot be combined with --processes; leave --processes out")
        if self.concurrency < self.processes:
            raise ConfigError(
                f"--concurrency {self.concurrency} is less than one request for each of {self.processes} processes; "
                "raise --concurrency, or lower --processes"
            )
        if not hasattr(socket, "send_fds"):
            raise ConfigError("--processes needs a system that passes sockets between processes; leave it out")

    def build_processes(self) -> ServiceProcesses | None:
        """Return the processes of the service; None if this process serves alone.

        Raises:
            ConfigError: a setting cannot be passed to other processes.
        """
        from autorubric.jobs.service_processes import ServiceProcesses

        if self.processes is None or self.processes == 1:
            return None
        passed = self.dump_for_processes("a service with --processes", _OF_FIRST_PROCESS)
        return ServiceProcesses({**passed, "out": str(self.out)}, self.processes, self.concurrency)

    def describe_evolution(self) -> dict[str, Any] | None:
        """Return the manifest's entry on the evolution; a service with another entry is another service."""
        if self.evolve is None:
            return None
        rule = {name: value for name, value in asdict(self.build_evolution_rule()).items() if name != "gates"}
        if not rule["split"]:  # as in manifests of earlier versions
            del rule["split"]
        return {"model": self.evolve, **rule, "persistent": list(self.persistent)}

    def build_audit(self) -> AuditPlan | None:
        """Return the plan for auditing the judge; None without an audit."""
        if self.audit is None:
            return None
        from autorubric.training.audit import AuditPlan

        unset = {"quorum", "escalate_to", "escalate_below"}
        shared = self.model_fields_set & JudgeSettings.model_fields.keys() - unset
        own: dict[str, Any] = {name: getattr(self, name) for name in shared}
        if self.compound == "split":
            own["compound"] = "as_is"
        own |= {"judge": [self.audit], "judge_key_env": self.audit_key_env, "timeout": self.timeout}
        own |= {"budget_usd": self.audit_budget, "budget_tokens": self.audit_tokens}
        grader = make_grader(JudgeSettings(**own))
        return AuditPlan(grader, self.audit_share, self.seed, self.audit_tolerance, self.on_gap)


@job(ServeSettings)
async def serve_async(_: None, settings: ServeSettings) -> RewardEngine | ServiceProcesses:
    """Serve rewards to trainers: POST /v1/reward, GET /healthz, GET /metrics.

    All callers share one limit, one budget and one ledger; identical requests are sent only
    once. A failed judgment gives no reward, not 0. On SIGTERM, on Ctrl-C, and when `stop` is called, it answers open
    requests, then returns.

    Args:
        settings: the keyword arguments, as a settings object.

    Returns:
        The service; its `executor.snapshot()` counts requests.

    Raises:
        InputError: a setting is wrong, or the address or directory is not available; nothing was spent.

    Example:
        >>> import tempfile
        >>> from autorubric import Stop, serve
        >>> stop = Stop()
        >>> def ready(line):
        ...     print(line)
        ...     stop()  # a real service runs until Ctrl-C
        >>> done = serve(judge="builtin/offline", port=0, out=tempfile.mkdtemp(), announce=ready, stop=stop)
        rewards at http://127.0.0.1:...
    """
    from autorubric.jobs.service_processes import serve_by_processes
    from autorubric.training.service.reward_server import serve_rewards

    limits, processes = build_limits(settings, os.environ), settings.build_processes()
    grader, audit, rule = make_grader(settings), settings.build_audit(), settings.build_reward_rule()
    if audit is not None:
        audit.check_family(grader)
    out, service = Path(settings.out), _build_service(settings, rule, limits)
    async with AsyncExitStack() as stack:
        stack.enter_context(share_slots(settings.concurrency))
        names: list[str] = []
        for one in (grader, audit.grader if audit else None):
            if one is not None:
                names += [model.name for model in (await one.open_session()).models.values()]
        settings.show_stand_ins(0, names)
        service = replace(service, evolution=await _open_evolution(settings, stack))
        stack.enter_context(rare_collections())  # a long garbage collection would delay requests
        stack.enter_context(settings.attempts_logged())
        stack.enter_context(run_folder(out, (MANIFEST_FILE,), start_over=settings.start_over))

        def announce(url: str) -> None:
            settings.announce(f"rewards at {url}/v1/reward")

        if processes is not None:
            budget = partial(Budget, usd=settings.budget_usd, tokens=settings.budget_tokens)
            return await serve_by_processes(service, grader, processes, budget, announce, settings.stop or Stop())
        return await serve_rewards(service, grader, rule, audit, announce, settings.stop)


def _build_service(settings: ServeSettings, rule: RewardRule, limits: ServiceLimits) -> ServiceSettings:
    from autorubric.training.service.reward_server import ServiceSettings

    return ServiceSettings(
        Path(settings.out),
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
            "evolution": settings.describe_evolution(),
            "settings": settings.to_manifest(),
            "again": settings.again,
        },
    )


def build_limits(settings: ServeSettings, environ: Mapping[str, str]) -> ServiceLimits:
    """Return the required token, and the limits of a request's body and duration."""
    from autorubric.training.service.reward_app import ServiceLimits

    token = read_token(settings.host, settings.token_env, environ)
    return ServiceLimits(token, round(settings.max_body_mb * 2**20), settings.deadline)


async def _open_evolution(settings: ServeSettings, stack: AsyncExitStack) -> EvolutionPlan | None:
    """Return the plan for evolving rubrics; the writer's model stays open as long as the stack."""
    if settings.evolve is None:
        return None
    from autorubric.training.evolution.live import EvolutionPlan

    config = settings.build_writer_config(settings.evolve)
    models = await stack.enter_async_context(open_models(config, settings.concurrency))
    check_priced(models, settings.budget_usd)
    return EvolutionPlan(models["writer"], settings.build_evolution_rule())


serve = blocking(serve_async)
