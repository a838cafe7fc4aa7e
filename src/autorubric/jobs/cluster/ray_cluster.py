"""Ray: the only file that imports it."""

from __future__ import annotations

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
"""How long a cluster may take to answer; Ray ends this process, without a word of ours, after 60 seconds."""


_CHUNK = 32 << 20


class WorkerGone(Exception):
    """A worker was killed, or its machine was lost."""


class ClusterGone(Exception):
    """The cluster was stopped, or cannot be reached any more."""


def check_installed() -> None:
    """Refuse to go on without Ray.

    Raises:
        MissingPackageError: it is not installed.
    """
    require(["ray"], "ray", "--engine ray (in Python: engine='ray')")


@dataclass(slots=True)
class RemoteWorker:
    """A worker as the driver sees it; each of its methods can be awaited."""

    actor: Any

    async def call(self, method: str, *values: Any) -> Any:
        """What a method of `ClusterWorker` returns.

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
        """Send a file, which becomes a part of the ledger that the worker finds replies in.

        Raises:
            WorkerGone: the worker was killed, or its machine was lost.
        """
        with path.open("rb") as file:
            place = 0
            while data := file.read(_CHUNK):
                await self.call("receive", path.name, place, data)
                place += len(data)

    def tell(self, word: dict[str, Any]) -> None:
        """Send a message without waiting; ignored if the receiver has ended."""
        self.actor.hear.remote(word)

    def end(self) -> None:
        """End the worker's process."""
        import ray

        ray.kill(self.actor)


class RayCluster:
    """A connection to a running cluster, or to one started on this machine.

    Args:
        address: of the cluster; None takes `RAY_ADDRESS`, and without it starts one.
        workers: how many will be started; None for one a CPU.

    Raises:
        InputError: there is no cluster at the address, it runs other versions, or it has fewer CPUs than workers.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        check_installed()
        # A cluster that this process starts sends no statistics of its use to anybody.
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
        """Start a worker, on a node if that is still there.

        Args:
            about: the arguments of `ClusterWorker`.
            node: the id of the node.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        how = "SPREAD" if node is None else NodeAffinitySchedulingStrategy(node, soft=True)
        # Two methods run at a time: one waits for what the worker says, the other passes on a word of the driver.
        options = {"num_cpus": 1, "max_concurrency": 2, "max_restarts": 0, "scheduling_strategy": how}
        return RemoteWorker(ray.remote(_Actor).options(**options).remote(*about))

    async def has(self, node: str) -> bool:
        """Whether a node is part of the cluster and alive.

        Raises:
            ClusterGone: the cluster does not answer.
        """
        import ray

        found = await answered(ray.nodes)
        return any(one["NodeID"] == node and one["Alive"] for one in found)

    def close(self) -> None:
        """Disconnect, and end the cluster if this object has started it."""
        import ray

        if not self._was_connected:
            ray.shutdown()


async def answered(function: Callable[[], Any]) -> Any:
    """The result of a Ray function, on a thread that nothing waits for: without its cluster, Ray blocks it."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def ask() -> None:
        try:
            found, problem = function(), None
        except Exception as error:
            found, problem = None, error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(told, found, problem)

    def told(found: Any, problem: Exception | None) -> None:
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
    except Exception as error:  # Ray raises many kinds, plain `Exception` among them
        said = _told(error)
        raise InputError(f"Ray at {address}: {said}; {_advice(said)}") from None


def _advice(said: str) -> str:
    """What to do about an error of Ray's.

    Example:
        >>> _advice("Version mismatch: The cluster was started with: Ray: 2.59.0")
        'install the same versions of Ray and Python on both sides'
    """
    if "version" in said.lower():
        return "install the same versions of Ray and Python on both sides"
    if "token" in said.lower() or "auth" in said.lower():
        return "set RAY_AUTH_MODE=token, and use the token of the cluster (~/.ray/auth_token)"
    return (
        "check the address (--ray-address; in Python: ray_address) and that the cluster runs; where Ray asks for a "
        "token, set RAY_AUTH_MODE=token"
    )


def _told(error: Exception) -> str:
    r"""The message of an error, in one line.

    Example:
        >>> _told(RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.59.0\n"))
        'Version mismatch: The cluster was started with: Ray: 2.59.0'
    """
    words = " ".join(str(error).split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


class _Actor(ClusterWorker):
    """A worker that knows where it runs."""

    def node(self) -> str:
        """The id of its node."""
        import ray

        found: str = ray.get_runtime_context().get_node_id()
        return found
