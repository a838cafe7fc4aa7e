"""GRPO with audit, dropout and evolution, from the last checkpoint on.

`python grpo_run.py BASE_URL FOLDER STEPS CRITERION…`
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from datasets import Dataset
from test_trl import settings, tiny_model, tokenizer  # type: ignore[import-not-found]
from trl import GRPOConfig, GRPOTrainer

from autorubric import CriterionGrader
from autorubric.training import AuditPlan, EvolutionPlan, EvolutionRule, RewardRule, make_rewarder
from autorubric.training.adapters.trl import reward_function, stop_callback
from autorubric.training.rewarder import judge_config


def main(base_url: str, folder: Path, steps: int, criteria: list[str]) -> None:
    """Train, from the last checkpoint if there is one."""
    rubric = [{"criterion": text, "points": 1} for text in criteria]
    reference = CriterionGrader(judge_model_config=judge_config(f"reference@{base_url}"))
    rewarder = make_rewarder(
        f"judge@{base_url}",
        RewardRule(dropout=0.5, dropout_seed=1),
        run_dir=folder / "rewards",
        audit=AuditPlan(reference, share=0.5, on_gap="stop"),
        evolution=EvolutionPlan(judge_config(f"writer@{base_url}"), EvolutionRule(most_added=2)),
    )
    options = settings(folder, max_steps=steps, save_strategy="steps", save_steps=1)
    trainer = GRPOTrainer(
        model=tiny_model(),
        reward_funcs=reward_function(rewarder),
        args=GRPOConfig(**options, num_generations=4, max_completion_length=24, learning_rate=1e-2),
        train_dataset=Dataset.from_dict({"prompt": ["Why now?", "Why here?"] * 4, "rubrics": [rubric] * 8}),
        processing_class=tokenizer(),
        callbacks=[stop_callback(rewarder)],
    )
    trainer.train(resume_from_checkpoint=any(folder.glob("checkpoint-*/trainer_state.json")))
    asyncio.run(rewarder.finish())
    print(f"trained to step {trainer.state.global_step}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
