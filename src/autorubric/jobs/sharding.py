"""Runs divided into shards on any machines, among local processes, or among cluster workers."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, PrivateAttr, model_validator

from autorubric.errors import ConfigError
from autorubric.jobs.job import UploadedSettings
from autorubric.runs.shard import Division, Shard, ShardParts, Workers
from autorubric.settings import setting

_OF_ONE_SHARD = frozenset(
    {
        *("shard", "out", "wait", "replace", "start_over", "refresh", "dry_run", "export_only", "upload"),
        *("processes", "engine", "ray_address", "batch", "batch_detach", "batch_cancel", "batch_poll"),
        *("log_json", "log_prompts", "budget_usd", "budget_tokens", "fail_under", "show"),
    }
)
"""Settings that may differ between the shards of a run, and that a merge does not need."""


class ShardedSettings(UploadedSettings):
    """A run that can be divided into shards, to run on any machine and merge afterwards."""

    shard: Annotated[str, BeforeValidator(lambda value: str(Shard.parse(value)))] | None = setting(
        None,
        "Run shard I of N only; `autorubric merge` combines them.",
        metavar="I/N",
        group="Run",
    )
    processes: int | None = setting(
        None, "Run in N processes, under one budget and rate limit.", group="Run", ge=1, le=256
    )
    engine: Literal["ray"] | None = setting(
        None, "ray: run on a Ray cluster; --processes is the number of workers.", metavar="ENGINE", group="Run"
    )
    ray_address: str | None = setting(
        None,
        "Ray cluster (default: RAY_ADDRESS, else a local one).",
        metavar="ADDRESS",
        group="Run",
    )
    command: ClassVar[str] = ""
    needs: ClassVar = {"--engine=ray": ("ray_address",)}
    _parts: ShardParts | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _check_division(self) -> Self:
        if self.processes is None and self.engine is None:
            return self
        by = "--processes" if self.engine is None else "--engine ray"
        if self.shard is not None:
            raise ConfigError(f"--shard and {by} are mutually exclusive; pass one of them")
        once = [name for name in ("start_over", "refresh", "log_json") if getattr(self, name, None)]
        once += ["batch"] if getattr(self, "batch", None) is not None else []
        if once and self.is_divided:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in once)
            raise ConfigError(f"{flags} cannot be combined with {by}; leave {by} out")
        return self

    @property
    def is_divided(self) -> bool:
        """Whether the settings ask for a shard or several processes."""
        return self.shard is not None or self.engine is not None or (self.processes or 1) > 1

    @property
    def parts(self) -> ShardParts | None:
        """The shards that this run merges; None for every other run."""
        return self._parts

    def with_parts(self, parts: ShardParts) -> Self:
        """Return the settings of the run that merges these shards without sending requests."""
        made = self.model_copy()
        made._parts = parts
        return made

    def with_workers(self) -> Self:
        """Return the settings of the run that starts its own workers; unchanged if one process is enough.

        Raises:
            MissingPackageError: Ray is needed, and not installed.
        """
        concurrency = getattr(self, "concurrency", 1)
        once = any(getattr(self, name, False) for name in ("dry_run", "export_only"))
        number = min(self.processes or 1, concurrency)
        if self._parts is not None or (number == 1 and self.engine is None) or once:
            return self
        workers = self._build_workers(self._dump_common(), number)
        return self.with_parts(ShardParts({}, by_prompt=self.command == "select", is_partial=True, workers=workers))

    def _build_workers(self, passed: Mapping[str, Any], number: int) -> Workers:
        """Processes on this machine, or workers of a Ray cluster."""
        from autorubric.jobs.workers import WorkerProcesses  # lazy: most runs are not divided

        if self.engine is None:
            return WorkerProcesses(self, passed, number)
        from autorubric.jobs.cluster.driver import RayWorkers
        from autorubric.jobs.cluster.ray_cluster import check_installed

        check_installed()
        return RayWorkers(self, passed, number)

    def build_division(self) -> Division:
        """Return how the run is divided.

        Raises:
            ConfigError: a setting cannot be recorded, so the shards could not be merged.
        """
        if self.shard is None:
            return Division(self.command, parts=self._parts)
        return Division(self.command, Shard.parse(self.shard), self._dump_common())

    def _dump_common(self) -> dict[str, Any]:
        """Return the settings that all shards have in common, as JSON values."""
        if Path("-") in self.list_sources():
            raise ConfigError("standard input can be read only once, and each shard reads it; pass a file")
        # Of the settings without a flag, only those of the models affect results.
        return self.dump_for_processes("a run in shards or processes", _OF_ONE_SHARD, ("roles", "full"))


def load_job(command: str) -> tuple[type[ShardedSettings], Any]:
    """Return the settings model and the function of a command with divisible runs; imports only that command.

    Raises:
        KeyError: the runs of this command cannot be divided.

    Example:
        >>> load_job("grade")[0].__name__
        'GradeSettings'
    """
    if command not in ("grade", "select", "synthesize"):
        raise KeyError(command)
    module = import_module(f"autorubric.jobs.{command}")
    return getattr(module, f"{command.title()}Settings"), getattr(module, f"{command}_async")
