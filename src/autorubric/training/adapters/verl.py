"""Rewards for verl: point `reward.custom_reward_function.path` at this file.

verl calls `compute_score` once a sample, with the settings of `reward_kwargs`; each of its reward workers is a
process of its own. With `service` they all ask one `autorubric serve`, which then holds limits and records.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from autorubric.errors import ConfigError, InputError
from autorubric.files.keys import unknown_key
from autorubric.rows.record import plain, rubric_inside
from autorubric.training.adapters.http import HttpRewards
from autorubric.training.queries import RubricQuery
from autorubric.training.reward import RewardRule, refuse_gap
from autorubric.training.rewarder import RewardSource, Sample, judge_config, make_rewarder
from autorubric.training.samples import conversation, read_rubric

_RULE = ("formula", "on_failure", "neutral", "gates", "dropout", "dropout_by", "dropout_seed")
_JUDGE = (
    *("judge", "base_url", "api_key_env", "service", "token_env", "run_dir", "max_in_flight", "allow_plain_http"),
    "compound",
)
_VERL = ("reward_router_address", "reward_model_tokenizer")


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """The reward of one sample, and statistics about it; the same keys for every sample.

    The rubric is read from `extra_info["reward_model"]["rubrics"]`, or from `ground_truth` where it is a JSON
    text; the query from `extra_info["prompt"]`.

    Args:
        data_source: of the row; not used.
        solution_str: the response.
        ground_truth: of the row; may be empty.
        extra_info: of the row; not changed.
        settings: `judge` (and `base_url`, `api_key_env`) or `service` (and `token_env`); `formula`, `on_failure`
            (raise, nan or neutral), `neutral`, `gates`, `dropout`, `dropout_by` and `dropout_seed`; `compound`,
            `run_dir`, `max_in_flight`; `allow_plain_http` sends keys over plain HTTP to hosts outside of this
            machine and private networks.

    The training step is the version of the weights that began the response, which verl's rollout servers report
    (`min_global_steps`); a rollout that reports none has no step.

    Raises:
        InputError: a setting is unknown, or the row has no rubric.
        RewardFailed: a judgment failed, and `on_failure` is `raise`, the default here.
        RewardGap: the service's audit says that training should stop.

    Example:
        >>> import asyncio
        >>> rubrics = [{"criterion": "Contains at most 5 words.", "points": 1}]
        >>> row = {"prompt": "Why?", "reward_model": {"rubrics": rubrics}}
        >>> found = asyncio.run(compute_score("chat", "Because of the moon.", "", row, judge="builtin/offline"))
        >>> found["score"], sorted(found)
        (1.0, ['acc', 'coverage', 'gate_closed', 'judge_failed', 'score'])
    """
    source = _source(tuple(sorted((key, _frozen(value)) for key, value in settings.items() if key not in _VERL)))
    info = extra_info or {}
    held = rubric_inside(plain(info.get("reward_model")))
    held = ground_truth if _is_empty(held) else held
    if _is_empty(held):
        raise InputError("the row has no rubric: expected extra_info['reward_model']['rubrics']")
    prompt = info.get("prompt")
    query = None if _is_empty(prompt) else conversation(prompt)
    [reward] = await source.rewards([Sample(solution_str, read_rubric(held, "the row"), query, step=_step(info))])
    refuse_gap([reward])
    if reward.value is None:
        raise InputError("verl takes no None; set on_failure to raise, nan or neutral")
    return {
        "score": float(reward.value),
        "acc": float(reward.value),
        "coverage": 0.0 if reward.coverage is None else float(reward.coverage),
        "judge_failed": float(reward.failure is not None),
        "gate_closed": float(bool(reward.closed)),
    }


def verl_row(query: RubricQuery) -> dict[str, Any]:
    """A row of verl's RL dataset, as `convert --to verl` writes it.

    `reward_model.ground_truth` is there though it is empty, since verl reads it of every row, and `extra_info`
    mirrors what the reward function needs. Tags are texts, so that every row has the same schema.

    Example:
        >>> from autorubric.core.rubric import Rubric
        >>> rubric = Rubric.from_dict([{"requirement": "Is brief", "weight": 3}])
        >>> row = verl_row(RubricQuery("q1", ({"role": "user", "content": "Why?"},), rubric, "chat"))
        >>> row["reward_model"]["ground_truth"], row["extra_info"]["reward_model"] == row["reward_model"]
        ('', True)
        >>> row["reward_model"]["rubrics"]
        [{'criterion': 'Is brief', 'points': 3, 'tags': []}]
    """
    from autorubric.formats import Record, format_named

    turns = [dict(turn) for turn in query.turns]
    record = Record(tuple(query.rubric), turns, query.id, domain=query.source, guidelines=query.rubric.guidelines)
    return format_named("verl").write(record).row


def write_verl(path: Path, queries: Iterable[RubricQuery]) -> None:
    """Write the parquet file that verl trains on, wholly or not at all."""
    from autorubric.files import parquet_writer
    from autorubric.formats import format_named

    with parquet_writer(path, format_named("verl").arrow_schema()) as add:
        for query in queries:
            add(verl_row(query))


def _step(info: Mapping[str, Any]) -> int | None:
    value = info.get("min_global_steps")
    return int(value) if isinstance(value, numbers.Integral) and int(value) >= 0 else None


def _is_empty(value: Any) -> bool:
    """Whether a field holds nothing; arrays have no truth of their own."""
    return value is None or len(value) == 0


def _frozen(value: Any) -> Any:
    """A setting as a value that can be told from another; lists come as OmegaConf's own."""
    return value if isinstance(value, str | int | float | bool | None) else tuple(value)


@lru_cache(maxsize=16)
def _source(settings: tuple[tuple[str, Any], ...]) -> RewardSource:
    given = dict(settings)
    problems = [unknown_key(key, (*_RULE, *_JUDGE), "reward_kwargs") for key in given if key not in (*_RULE, *_JUDGE)]
    if problems:
        raise InputError(problems)
    rule = RewardRule(**{"on_failure": "raise", **{key: given[key] for key in _RULE if given.get(key) is not None}})
    if rule.on_failure == "none":
        raise ConfigError("verl takes no None; set on_failure to raise, nan or neutral")
    service, plain = given.get("service"), given.get("allow_plain_http") or False
    if service is not None and given.get("judge") is not None:
        raise ConfigError("reward_kwargs name both judge and service; set one of them")
    if service is not None:
        return HttpRewards(service, rule, token_env=given.get("token_env"), allow_plain_http=plain)
    if given.get("judge") is None:
        raise ConfigError("reward_kwargs name neither judge nor service; set one of them")
    run_dir = given.get("run_dir")
    return make_rewarder(
        judge_config(given["judge"], given.get("base_url"), given.get("api_key_env"), allow_plain_http=plain),
        rule,
        # A ledger is one process's; verl runs several.
        run_dir=None if run_dir is None else Path(run_dir) / f"reward-{os.getpid()}",
        max_in_flight=given.get("max_in_flight", 64),
        compound=given.get("compound") or "as_is",
    )
