"""The interface to Ray; no other file imports it."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autorubric.errors import InputError
from autorubric.extras import require
from autorubric.jobs.cluster.ray_worker import ClusterWorker

_LONGEST = 300
_HOW = "(--processes; in Python: processes)"


_ANSWER_SECONDS = 25.0
"""Seconds that a cluster may take to answer; after 60 seconds Ray would end this process without a message."""


_CHUNK = 32 << 20


class WorkerGone(Exception):
    """A worker was killed, or its machine was lost."""


class ClusterGone(Exception):
    """The cluster was stopped or is unreachable."""


def check_installed() -> None:
    """Raise an error if Ray is not installed.

    Raises:
        MissingPackageError: it is not installed.
    """
    require(["ray"], "ray", "--engine ray (in Python: engine='ray')")


@dataclass(slots=True)
class RemoteWorker:
    """The driver's proxy for a worker."""

    actor: Any

    async def call(self, method: str, *values: Any) -> Any:
        """Call a method of `ClusterWorker`; return its result.

        Raises:
            WorkerGone: the worker was killed, or its machine was lost.
        """
        import ray

        try:
            return await getattr(self.actor, method).remote(*values)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines()
            raise WorkerGone(lines[-1] if "Error:" in lines[-1] else lines[0]) from None

    async def send(self, path: Path) -> None:
        """Send the worker a file of the ledger in which it looks up replies.

        Raises:
            WorkerGone: the worker was killed, or its machine was lost.
        """
        with path.open("rb") as file:
            place = 0
            while data := file.read(_CHUNK):
                await self.call("receive", path.name, place, data)
                place += len(data)

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message without waiting; ignored if the receiver has ended."""
        self.actor.deliver.remote(message)

    def end(self) -> None:
        """End the worker's process."""
        import ray

        ray.kill(self.actor)


class RayCluster:
    """A connection to a running cluster, or to one started on this machine.

    Args:
        address: the address of the cluster; None uses `RAY_ADDRESS` or, without it, starts one.
        workers: the number of workers to start; None for one per CPU.

    Raises:
        InputError: there is no cluster at the address, it runs other versions, or it has fewer CPUs than workers.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        check_installed()
        # A cluster that this process starts sends no usage statistics.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._was_connected = ray.is_initialized()
        if not self._was_connected:
            _connect(address or os.environ.get("RAY_ADDRESS") or "local", workers)
        self.cpus = int(ray.cluster_resources().get("CPU", 0))
        if self.cpus < (workers or 1):
            self.close()
            raise InputError(f"{workers} workers {_HOW} need a CPU each, and the Ray cluster has {self.cpus}")

    def start(self, *about: Any, node: str | None = None) -> RemoteWorker:
        """Start a worker, on the given node if it is still there.

        Args:
            about: the arguments of `ClusterWorker`.
            node: the id of the node.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        how = "SPREAD" if node is None else NodeAffinitySchedulingStrategy(node, soft=True)
        # Two methods run concurrently: one waits for messages of the worker, the other delivers those of the driver.
        options = {"num_cpus": 1, "max_concurrency": 2, "max_restarts": 0, "scheduling_strategy": how}
        return RemoteWorker(ray.remote(_Actor).options(**options).remote(*about))

    async def has(self, node: str) -> bool:
        """Return whether a node is part of the cluster and alive.

        Raises:
            ClusterGone: the cluster does not answer.
        """
        import ray

        found = await call_ray(ray.nodes)
        return any(info["NodeID"] == node and info["Alive"] for info in found)

    def close(self) -> None:
        """Disconnect, and end the cluster if this object started it."""
        import ray

        if not self._was_connected:
            ray.shutdown()


async def call_ray(function: Callable[[], Any]) -> Any:
    """Call a Ray function on a daemon thread, because Ray blocks forever if its cluster is gone."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def ask() -> None:
        try:
            found, problem = function(), None
        except Exception as error:
            found, problem = None, error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(set_answer, found, problem)

    def set_answer(found: Any, problem: Exception | None) -> None:
        if not answer.done() and problem is None:
            answer.set_result(found)
        elif not answer.done():
            answer.set_exception(ClusterGone(str(problem)))

    threading.Thread(target=ask, daemon=True).start()
    try:
        return await asyncio.wait_for(answer, _ANSWER_SECONDS)
    except TimeoutError:
        raise ClusterGone(f"no answer in {_ANSWER_SECONDS:.0f} s") from None


def _connect(address: str, workers: int | None) -> None:
    import ray

    more: dict[str, Any] = {}
    logging.getLogger("ray").setLevel(logging.ERROR)
    if address == "local":
        more = {"num_cpus": workers or os.cpu_count(), "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **more)
    except Exception as error:  # Ray raises many kinds, including plain `Exception`
        message = _format_error(error)
        raise InputError(f"Ray at {address}: {message}; {_suggest_fix(message)}") from None


def _suggest_fix(message: str) -> str:
    """Return advice for an error from Ray.

    Example:
        >>> _suggest_fix("Version mismatch: The cluster was started with: Ray: 2.59.0")
        'install the same versions of Ray and Python on both sides'
    """
    if "version" in message.lower():
        return "install the same versions of Ray and Python on both sides"
    if "token" in message.lower() or "auth" in message.lower():
        return "set RAY_AUTH_MODE=token, and use the token of the cluster (~/.ray/auth_token)"
    return (
        "check the address (--ray-address; in Python: ray_address) and that the cluster runs; where Ray asks for a "
        "token, set RAY_AUTH_MODE=token"
    )


def _format_error(error: Exception) -> str:
    r"""Return the message of an error, on one line.

    Example:
        >>> _format_error(RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.59.0\n"))
        'Version mismatch: The cluster was started with: Ray: 2.59.0'
    """
    message = " ".join(str(error).split())
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}..."


class _Actor(ClusterWorker):
    """A worker that can report its node."""

    def find_node(self) -> str:
        """Return the id of its node."""
        import ray

        found: str = ray.get_runtime_context().get_node_id()
        return found
