"""An evaluator for pydantic_evals."""

from collections.abc import Mapping
from typing import Any

from autorubric.core.rubric import Rubric
from autorubric.training.queries import as_conversation, find_rubric_column, read_rubric
from autorubric.training.rewarder import RewardSource, Sample
from autorubric.training.rewards import RewardFailed


def rubric_evaluator(source: RewardSource, rubric: Rubric | None = None) -> Any:
    """Return an evaluator that scores a case's output by a rubric: the reward, and a score for each criterion.

    It raises an error if a judgment failed; pydantic_evals reports an evaluator failure instead of a score.

    Args:
        source: gives the rewards.
        rubric: the rubric of all cases; by default it is in each case's metadata.
    """
    from dataclasses import dataclass, field

    from pydantic_evals.evaluators import Evaluator, EvaluatorContext

    @dataclass
    class RubricEvaluator(Evaluator[Any, Any, Any]):  # type: ignore[misc]
        """Scores an output by a rubric."""

        rubric: Rubric | None = field(default=None, repr=False)

        async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> Mapping[str, float]:
            rubric = self.rubric or _read_own_rubric(ctx.metadata, str(ctx.name))
            reference = None if ctx.expected_output is None else str(ctx.expected_output)
            asked = as_conversation(ctx.inputs) if _is_conversation(ctx.inputs) else str(ctx.inputs)
            [reward] = await source.rewards([Sample(str(ctx.output), rubric, asked, reference)])
            if reward.value is None or reward.failure is not None:
                raise RewardFailed(f"no reward: {reward.failure}")
            judged = {f"rubric.{name}": value for name, value in reward.criteria.items() if value is not None}
            return {"rubric": reward.value, **judged}

    return RubricEvaluator(rubric)


def _is_conversation(inputs: Any) -> bool:
    turns = inputs if isinstance(inputs, list | tuple) else ()
    return bool(turns) and all(isinstance(turn, Mapping) and "role" in turn for turn in turns)


def _read_own_rubric(metadata: Any, case: str) -> Rubric:
    columns = metadata if isinstance(metadata, Mapping) else {}
    return read_rubric(columns[find_rubric_column(columns, None, "metadata that holds one of them")], f"case {case}")
