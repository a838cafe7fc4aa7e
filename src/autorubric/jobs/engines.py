"""Who runs a run that is divided: processes on this machine, or workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.jobs.workers import WorkerProcesses


def workers_of(settings: Any, passed: Mapping[str, Any], processes: int) -> WorkerProcesses:
    """The processes of a run with these settings.

    Args:
        settings: of the whole run.
        passed: settings of every process.
        processes: how many.

    Raises:
        MissingPackageError: Ray is needed, and not installed.
    """
    from autorubric.jobs.workers import WorkerProcesses  # most runs are not divided, and start without it

    if settings.engine is None:
        return WorkerProcesses.of(settings, passed, processes)
    from autorubric.jobs.cluster.driver import RayWorkers
    from autorubric.jobs.cluster.ray_cluster import check_installed

    check_installed()
    workers = RayWorkers.of(settings, passed, processes)
    workers.address, workers.asked = settings.ray_address, settings.processes
    workers.rounds = 2 if getattr(settings, "sample", None) else 1  # all candidates are sampled before any is graded
    return workers
