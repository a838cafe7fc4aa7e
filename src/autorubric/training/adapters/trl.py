"""Rewards for TRL's GRPO and RLOO trainers, and for ms-swift.

TRL passes prompts, completions and every other dataset column as lists, and takes one number or None per
completion. A completion whose reward is None is left out of the group's baseline and gets no advantage. ms-swift
passes the completions by position, and the columns, with the whole conversations as `messages`, by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.background import wait_for
from autorubric.errors import ConfigError, InputError
from autorubric.training.queries import as_conversation, extract_completion_text, find_rubric_column, read_rubric
from autorubric.training.rewarder import Rewarder, RewardSource, Sample
from autorubric.training.rewards import DEFAULT_RULE

if TYPE_CHECKING:
    from autorubric.training.adapters.verl import HttpRewards

RewardFunction: TypeAlias = Callable[..., list[float | None]]
AsyncRewardFunction: TypeAlias = Callable[..., Coroutine[Any, Any, list[float | None]]]


def reward_function(
    source: RewardSource, *, rubric: str | None = None, reference: str | None = None, name: str = "rubric_reward"
) -> RewardFunction:
    """Return a function for `GRPOTrainer(reward_funcs=…)`.

    Args:
        source: gives the rewards.
        rubric: the column of rubrics; by default the one with a usual name, such as rubric or rubrics.
        reference: the column of reference answers, if any.
        name: the name of the reward in the trainer's logs.

    Raises:
        ConfigError: the installed TRL counts a missing reward as 0 (before 1.6), and the failure policy of `source`
            is `none` or `nan`.

    TRL does not mark evaluations. To mark them, add a column `split` with a value other than `train`, for example to
    the `eval_dataset`; `autorubric drift` then leaves them out.

    Example:
        >>> from autorubric.training.rewarder import make_rewarder
        >>> reward = reward_function(make_rewarder("builtin/offline"))
        >>> rubric = [{"criterion": "Contains at most 5 words.", "points": 1}]
        >>> reward(prompts=["Why?"], completions=["Because of the moon."], completion_ids=[[1]], rubrics=[rubric])
        [1.0]
    """
    awaited = async_reward_function(source, rubric=rubric, reference=reference)

    def reward(*given: Any, **columns: Any) -> list[float | None]:
        return wait_for(awaited(*given, **columns))

    reward.__name__ = name
    return reward


def async_reward_function(
    source: RewardSource, *, rubric: str | None = None, reference: str | None = None, name: str = "rubric_reward"
) -> AsyncRewardFunction:
    """Return the same function as a coroutine function; TRL awaits all of these together."""
    _refuse_zeros(source)

    async def reward(*given: Any, **columns: Any) -> list[float | None]:
        if len(given) == 1 and "prompts" not in columns:  # ms-swift
            given = ([turns[:-1] for turns in columns.get("messages", ())], *given)
        samples = _build_samples((rubric, reference), *given, **columns)
        return [found.value for found in await source.rewards(samples)]

    reward.__name__ = name
    return reward


def stop_callback(source: Rewarder | HttpRewards) -> Any:
    """Return a callback for `GRPOTrainer(callbacks=[…])` that ends training after the step with an audit's request.

    The trainer ends as after its last step: it saves as configured, and `train()` returns.

    Args:
        source: gives the rewards; its audit has `on_gap="stop"`.
    """
    from transformers import TrainerCallback

    class StopOnGap(TrainerCallback):  # type: ignore[misc]
        """Asks the trainer to stop."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            """Called by the trainer after each step."""
            control.should_training_stop = control.should_training_stop or source.should_stop
            return control

    return StopOnGap()


def _refuse_zeros(source: RewardSource) -> None:
    installed = next((one.version for one in metadata.distributions(name="trl")), "1.6")
    policy = getattr(source, "rule", DEFAULT_RULE).on_failure
    if policy in ("none", "nan") and [*map(int, re.findall(r"\d+", installed))] < [1, 6]:
        advice = "install trl>=1.6, or set on_failure to raise or neutral"
        raise ConfigError(f"TRL {installed} counts a missing reward as 0; {advice}")


def _build_samples(
    names: tuple[str | None, str | None],
    /,
    prompts: Sequence[Any],
    completions: Sequence[Any],
    completion_ids: Any = None,
    **columns: Any,
) -> list[Sample]:
    lists = {name: values for name, values in columns.items() if isinstance(values, list | tuple)}
    row = {name: next((value for value in values if value is not None), None) for name, values in lists.items()}
    rubrics = columns[find_rubric_column(row, names[0])]
    references = columns[names[1]] if names[1] else [None] * len(prompts)
    sizes = {len(prompts), len(completions), len(rubrics), len(references)}
    if len(sizes) > 1 or (completion_ids is not None and len(completion_ids) != len(prompts)):
        raise InputError(
            f"{len(prompts)} prompts, {len(completions)} completions, {len(rubrics)} rubrics, {len(references)} "
            f"references, {len(prompts) if completion_ids is None else len(completion_ids)} completion_ids; "
            "expected the same number of each"
        )
    splits = lists.get("split") or [None] * len(prompts)
    step = getattr(columns.get("trainer_state"), "global_step", None)
    lengths = [None if completion_ids is None else len(completion_ids[place]) for place in range(len(prompts))]
    return [
        Sample(
            extract_completion_text(completion),
            read_rubric(rubric, f"row {place}"),
            as_conversation(prompt),
            references[place],
            lengths[place],
            step=step,
            split=splits[place] if isinstance(splits[place], str) else None,
        )
        for place, (prompt, completion, rubric) in enumerate(zip(prompts, completions, rubrics, strict=True))
    ]
