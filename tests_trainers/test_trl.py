"""TRL trains on this project's rewards and reads what `autorubric select` writes: real trainers, a tiny model."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from autorubric import CriterionGrader
from autorubric.cli.app import run
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.llm.request import Failure, Request
from autorubric.testing import PromptSections, ScriptedModel
from autorubric.training.adapters.trl import async_reward_function, reward_function, stop_callback
from autorubric.training.rewarder import Rewarder, make_rewarder

MET = '{"explanation": "Yes.", "criterion_status": "MET"}'
UNMET = '{"explanation": "No.", "criterion_status": "UNMET"}'
RUBRIC = [
    {"criterion": "Holds an even number of characters.", "points": 3},
    {"criterion": "Holds an a.", "points": 1},
]
CHAT = (
    "{% for turn in messages %}{{ turn['role'] }}:{{ turn['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and three special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<eos>", "<unk>", *alphabet])}
    plain = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    made.chat_template = CHAT
    return made


def tiny_model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=259,
        n_positions=512,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    return GPT2LMHeadModel(config)


def judged(request: Request) -> str | Failure:
    """Two rules that a random policy keeps now and then; a submission that holds a z brings the judge down."""
    shown = PromptSections(request)
    text = shown["submission"]
    if "z" in text:
        return Failure("server", "HTTP 503: overloaded")
    kept = len(text) % 2 == 0 if "even" in shown["criterion"] else "a" in text
    return MET if kept else UNMET


def prompts(conversational: bool) -> Dataset:
    asked = [f"Why {n}?" for n in range(8)]
    made = [[{"role": "user", "content": text}] for text in asked] if conversational else asked
    return Dataset.from_dict({"prompt": made, "rubrics": [RUBRIC] * 8})


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder), "per_device_train_batch_size": 4, "max_steps": 3, "logging_steps": 1,
        "report_to": [], "use_cpu": True, "save_strategy": "no", "disable_tqdm": True, "seed": 0, **more,
    }  # fmt: skip


@pytest.mark.parametrize("conversational", [False, True], ids=["texts", "conversations"])
@pytest.mark.parametrize("kind", [reward_function, async_reward_function], ids=["sync", "async"])
def test_grpo_takes_three_steps_on_our_rewards(tmp_path: Path, kind: Any, conversational: bool) -> None:
    model = tiny_model()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    judge = ScriptedModel(judged)
    source = Rewarder(CriterionGrader(judge=CriterionJudge(judge, "judge")))
    given: list[float | None] = []
    plain = kind(source, name="rubric_reward")
    if kind is reward_function:

        def watched(**columns: Any) -> list[float | None]:
            given.extend(rewards := plain(**columns))
            return rewards
    else:

        async def watched(**columns: Any) -> list[float | None]:  # type: ignore[misc]
            given.extend(rewards := await plain(**columns))
            return rewards

    trainer = GRPOTrainer(
        model=model,
        reward_funcs=watched,
        args=GRPOConfig(**settings(tmp_path), num_generations=4, max_completion_length=12, learning_rate=1e-2),
        train_dataset=prompts(conversational),
        processing_class=tokenizer(),
    )
    trainer.train()
    assert trainer.state.global_step == 3
    assert len(given) == 3 * 4
    assert all(reward is None or reward in (0.0, 0.25, 0.75, 1.0) for reward in given)
    assert len({reward for reward in given if reward is not None}) > 1
    # A judgment that failed is None here, and nowhere a number.
    assert judge.requests
    weights = dict(model.named_parameters())
    assert any(not torch.equal(weights[name], old) for name, old in before.items())
    assert all(torch.isfinite(weight).all() for weight in weights.values())
    logged = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert len(logged) == 3 and all(math.isfinite(value) for value in logged)


def test_an_audit_that_finds_a_gap_ends_grpo_after_its_step(tmp_path: Path, stopping: Callable[[], Rewarder]) -> None:
    source = stopping()
    trainer = GRPOTrainer(
        model=tiny_model(),
        reward_funcs=reward_function(source),
        args=GRPOConfig(**settings(tmp_path), num_generations=4, max_completion_length=8),
        train_dataset=prompts(False),
        processing_class=tokenizer(),
        callbacks=[stop_callback(source)],
    )
    trainer.train()
    assert trainer.state.global_step == 1


def test_grpo_goes_on_when_the_judge_is_down_and_learns_nothing_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = Rewarder(CriterionGrader(judge=CriterionJudge(ScriptedModel(lambda r: Failure("server", "503")), "j")))
    model = tiny_model()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward_function(source),
        args=GRPOConfig(
            **settings(tmp_path), num_generations=4, max_completion_length=8, learning_rate=1e-2, beta=0.0
        ),
        train_dataset=prompts(False),
        processing_class=tokenizer(),
    )
    with caplog.at_level(logging.WARNING, "autorubric.training"):
        trainer.train()
    assert trainer.state.global_step == 3
    assert any("the trainer gets none" in record.getMessage() for record in caplog.records)
    # No reward is no advantage: the policy stays what it was.
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_grpo_runs_on_the_offline_judge(tmp_path: Path) -> None:
    rubric = [{"criterion": "Contains at most 2 words.", "points": 1}]
    data = Dataset.from_dict({"prompt": ["Why?"] * 4, "rubric": [json.dumps(rubric)] * 4})
    trainer = GRPOTrainer(
        model=tiny_model(),
        reward_funcs=reward_function(make_rewarder("builtin/offline")),
        args=GRPOConfig(**settings(tmp_path), num_generations=2, max_completion_length=12),
        train_dataset=data,
        processing_class=tokenizer(),
    )
    trainer.train()
    assert trainer.state.global_step == 3


def test_grpo_takes_a_column_of_rubrics_with_different_fields(tmp_path: Path) -> None:
    options = [{"label": "bad", "value": 0.0}, {"label": "good", "value": 1.0}]
    brief = {"name": "word_count", "parameters": {"at_most": 2}}
    rubrics: list[Any] = [
        [{"requirement": "Contains at most 2 words.", "weight": 1, "check": brief}],
        [{"requirement": "How is it?", "weight": 1, "options": options}],
        [{"criterion": "Contains at most 2 words.", "points": 1, "tags": {"verifier": "llm"}}],
    ]
    data = Dataset.from_dict({"prompt": [f"Why {n}?" for n in range(6)], "rubrics": rubrics * 2})
    given: list[tuple[bool, float | None]] = []
    reward = reward_function(make_rewarder("builtin/offline"))

    def watched(**columns: Any) -> list[float | None]:
        rewards = reward(**columns)
        given.extend((bool(one[0]["options"]), value) for one, value in zip(columns["rubrics"], rewards, strict=True))
        return rewards

    trainer = GRPOTrainer(
        model=tiny_model(),
        reward_funcs=watched,
        args=GRPOConfig(**settings(tmp_path), num_generations=2, max_completion_length=12),
        train_dataset=data,
        processing_class=tokenizer(),
    )
    trainer.train()
    # The offline judge abstains on options, and only there.
    assert len(given) == 12 and all(has_options == (value is None) for has_options, value in given)


@pytest.fixture(scope="module")
def selection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `autorubric select --keep pairs` writes, from answers that a rule tells apart."""
    folder = tmp_path_factory.mktemp("selection")
    rubric = [{"criterion": "Contains at most 3 words.", "points": 2}]
    rows = [{"question": f"Why {n}?", "id": f"q{n}", "rubrics": rubric} for n in range(4)]
    answers = [{"id": f"q{n}", "answers": ["Because it is.", "Nobody has ever found that out."]} for n in range(4)]
    for name, found in (("final.jsonl", rows), ("answers.jsonl", answers)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in found))
    command = [
        "select",
        str(folder / "final.jsonl"),
        "--candidates",
        str(folder / "answers.jsonl"),
        "--keep",
        "pairs",
    ]
    assert run([*command, "--judge", "builtin/offline", "-o", str(folder / "run")]) == 0
    return folder / "run"


def test_sft_trains_on_the_selection(tmp_path: Path, selection: Path) -> None:
    for name in ("trl_sft.jsonl", "chat.jsonl"):
        data = load_dataset("json", data_files=str(selection / name), split="train")
        trainer = SFTTrainer(
            model=tiny_model(),
            args=SFTConfig(**settings(tmp_path / name)),
            train_dataset=data,
            processing_class=tokenizer(),
        )
        trainer.train()
        assert trainer.state.global_step == 3


def test_dpo_trains_on_the_pairs(tmp_path: Path, selection: Path) -> None:
    data = load_dataset("json", data_files=str(selection / "trl_dpo.jsonl"), split="train")
    assert data[0]["chosen"][0]["content"] == "Because it is."
    trainer = DPOTrainer(
        model=tiny_model(),
        ref_model=tiny_model(),
        args=DPOConfig(**settings(tmp_path)),
        train_dataset=data,
        processing_class=tokenizer(),
    )
    trainer.train()
    assert trainer.state.global_step == 3


def test_datasets_reads_the_released_columns(selection: Path) -> None:
    for kind, name in (("parquet", "selected.parquet"), ("json", "selected.jsonl")):
        data = load_dataset(kind, data_files=str(selection / name), split="train")
        assert data.num_rows == 4
        assert data.column_names == [
            "source", "query", "answer", "sample_id", "rubrics", "rubric_score", "rubric_judge_details"
        ]  # fmt: skip
        assert data[0]["rubrics"][0]["points"] == 2
