"""verl loads and calls the reward function through its own code, and composes the recipe by its own parser."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf, open_dict

from autorubric.core.rubric_from import rubric_from
from autorubric.formats import Record, find_format, write_records
from autorubric.training.adapters import verl as adapter
from autorubric.training.rewards import RewardFailed

verl = pytest.importorskip("verl", reason="verl is not installed")

from verl import DataProto  # noqa: E402
from verl.trainer.ppo.reward import get_custom_reward_fn, load_reward_manager  # noqa: E402

ROOT = Path(__file__).parents[1]
RUBRIC = [
    {"criterion": "Contains at most 3 words.", "points": 2},
    {"criterion": "Contains at least 3 words.", "points": 2},
]
RECORD = Record(tuple(rubric_from(RUBRIC, "here")), "Why?", "q", domain="chat")


class Letters:
    """A tokenizer with one token a letter."""

    eos_token = ""

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        return "".join(chr(int(number)) for number in ids)

    def __call__(self, text: str, **_: Any) -> Any:
        return SimpleNamespace(input_ids=[ord(letter) for letter in text])


def recipe(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(ROOT / "recipes"), version_base=None):
        return compose("verl_dapo", overrides=[f"reward.custom_reward_function.path={adapter.__file__}", *overrides])


def data(text: str) -> DataProto:
    row = find_format("verl").write(RECORD).row
    ids = torch.tensor([[ord(letter) for letter in text]])
    return DataProto.from_dict(
        tensors={"responses": ids, "attention_mask": torch.ones_like(ids), "prompts": ids[:, :1]},
        non_tensors={
            name: np.array([row[name]], dtype=object) for name in ("data_source", "reward_model", "extra_info")
        },
    )


def test_the_recipe_holds_the_paper_s_settings_in_verl_s_own_schema() -> None:
    config = recipe()
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.clip_ratio_c) == (0.2, 0.28, 10.0)
    assert (rollout.n, rollout.temperature, rollout.top_p, rollout.top_k) == (8, 1.0, 1.0, -1)
    assert (config.data.max_prompt_length, config.data.max_response_length) == (4096, 8192)
    assert (rollout.prompt_length, rollout.response_length) == (4096, 8192)
    assert (config.data.train_batch_size, actor.ppo_mini_batch_size) == (64, 32)
    assert (actor.optim.lr, actor.optim.lr_warmup_steps, actor.optim.weight_decay) == (1e-6, 10, 0.1)
    assert not actor.use_kl_loss and not config.algorithm.use_kl_in_reward
    assert config.trainer.total_training_steps == 500
    # No key but reward_kwargs' own is unknown to verl's configuration.
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        known = compose("ppo_trainer")
    ours = OmegaConf.load(ROOT / "recipes" / "verl_dapo.yaml")
    with open_dict(ours):
        del ours["hydra"], ours["defaults"]
    strangers = [path for path in leaves(ours) if "reward_kwargs" not in path and not exists(known, path)]
    assert strangers == []


def leaves(node: Any, path: str = "") -> list[str]:
    if not isinstance(node, DictConfig):
        return [path]
    return [leaf for key in node for leaf in leaves(node[key], f"{path}.{key}" if path else str(key))]


def exists(config: DictConfig, path: str) -> bool:
    for key in path.split("."):
        if key not in config:
            return False
        config = config[key]
    return True


def test_verl_loads_the_function_and_awaits_it() -> None:
    settings = "+reward.custom_reward_function.reward_kwargs.judge=builtin/offline"
    loaded = get_custom_reward_fn(recipe(settings))
    assert inspect.iscoroutinefunction(loaded)


@pytest.mark.parametrize("manager", ["naive", "dapo"])
def test_verl_s_reward_managers_call_it(manager: str) -> None:
    config = recipe(
        "+reward.custom_reward_function.reward_kwargs.judge=builtin/offline",
        f"reward.reward_manager.name={manager}",
        "reward.reward_kwargs.max_resp_len=20",
        "reward.reward_kwargs.overlong_buffer_cfg.len=10",
    )

    async def run(text: str) -> dict[str, Any]:
        found: dict[str, Any] = await load_reward_manager(config, Letters()).run_single(data(text))
        return found

    both = asyncio.run(run("a b c"))
    one = asyncio.run(run("one two six five"))
    assert both["reward_score"] == 1.0
    # 16 letters are 6 of 10 into the buffer, which costs 0.5 at its end.
    assert one["reward_score"] == pytest.approx(0.5 - (0.3 if manager == "dapo" else 0.0))
    assert list(both["reward_extra_info"]) == list(one["reward_extra_info"])
    assert all(isinstance(value, float) for value in one["reward_extra_info"].values())


def test_a_judge_that_is_down_ends_verl_s_step_and_gives_no_zero() -> None:
    config = recipe(
        "+reward.custom_reward_function.reward_kwargs.judge=judge",
        "+reward.custom_reward_function.reward_kwargs.base_url=http://127.0.0.1:9/v1",
        "reward.reward_manager.name=naive",
    )

    async def run() -> None:
        await load_reward_manager(config, Letters()).run_single(data("a b c"))

    with pytest.raises(RewardFailed):
        asyncio.run(run())


def test_verl_reads_the_written_rows(tmp_path: Path) -> None:
    from datasets import load_dataset

    write_records(tmp_path / "train.parquet", "verl", [RECORD] * 3)
    row = load_dataset("parquet", data_files=str(tmp_path / "train.parquet"), split="train")[0]
    settings = {"judge": "builtin/offline"}
    truth = row["reward_model"]["ground_truth"]
    found = asyncio.run(adapter.compute_score("chat", "a b c", truth, row["extra_info"], **settings))
    assert found["score"] == 1.0
