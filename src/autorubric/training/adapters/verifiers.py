"""Rewards for verifiers (v1): a coroutine to call from a task's `@vf.reward`."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from autorubric.errors import InputError
from autorubric.training.adapters import require_value
from autorubric.training.queries import as_conversation, read_rubric
from autorubric.training.rewarder import RewardSource, Sample


def trace_reward(
    source: RewardSource, *, rubric: str = "rubric", query: str = ""
) -> Callable[[Any, Any], Coroutine[Any, Any, float]]:
    """Return a coroutine function of task data and trace that returns the reward of the trace's last reply.

    A missing reward raises an error, so that verifiers retries the sample instead of scoring it. A `RewardGap` is
    raised if an audit says that training should stop. Call the coroutine from a method of your task:

        quality = trace_reward(make_rewarder("openai/gpt-5.1-mini"))

        class MyTask(vf.Task[MyData, vf.State, MyConfig]):
            @vf.reward
            async def rubric(self, trace: vf.Trace) -> float:
                return await quality(self.data, trace)

    Args:
        source: gives the rewards.
        rubric: the field of the task data that contains the rubric.
        query: the field that contains the query, as text or turns; if empty, the query is the task's prompt.
    """

    async def reward(task: Any, trace: Any) -> float:
        held = _read_field(task, rubric)
        asked = as_conversation(_read_field(task, query) if query else task.prompt or "")
        [found] = await source.rewards([Sample(trace.last_reply, read_rubric(held, "the task"), asked)])
        return require_value(found)

    return reward


def _read_field(task: Any, name: str) -> Any:
    value = task.get(name) if isinstance(task, Mapping) else getattr(task, name, None)
    if not value:
        raise InputError(f"the task data has no {name!r}")
    return value
