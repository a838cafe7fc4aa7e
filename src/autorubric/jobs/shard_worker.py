"""One of several processes that work on one run: it runs a shard. If its parent has gone, the run is stopped."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from autorubric.jobs.sharding import load_job
from autorubric.jobs.talk import Talk, run_ordered
from autorubric.runs.progress import RunState
from autorubric.runs.shard import expected_input
from autorubric.runs.stopping import GRACE_SECONDS, Stop

_BACKSTOP = GRACE_SECONDS + 20.0
"""Seconds after which a process whose parent has gone ends, whatever it does."""


async def run_shard(talk: Talk, order: dict[str, Any]) -> dict[str, Any]:
    """Run the shard that the parent orders; how it ended."""
    stop = Stop()

    def heard(word: dict[str, Any]) -> None:
        if "stop" in word:
            stop()

    def told(state: RunState) -> None:
        talk.say(state=asdict(state))

    expected_input.set(order["input"])
    talk.share(order["processes"], Path(order["base"]) if order["base"] else None)
    talk.listen(heard, stop, _BACKSTOP)
    model, job = load_job(order["command"])
    return _end(await job(model.checked({**order["settings"], "progress": told, "stop": stop})))


def _end(result: Any) -> dict[str, Any]:
    summary = getattr(result, "summary", None)
    stopped = getattr(result, "stopped", None) or getattr(summary, "stopped", None) or None
    interrupted = getattr(result, "interrupted", False) or getattr(summary, "interrupted", False)
    return {"stopped": stopped, "interrupted": interrupted}


if __name__ == "__main__":
    run_ordered(run_shard)
