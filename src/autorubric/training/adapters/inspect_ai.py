"""A scorer for inspect_ai."""

from typing import Any

from autorubric.training.queries import as_conversation, find_rubric_column, read_rubric
from autorubric.training.rewarder import RewardSource, Sample


def rubric_scorer(source: RewardSource, *, rubric: str | None = None) -> Any:
    """Return a scorer whose value is the reward, with the criteria in its metadata.

    The rubric is read from the sample's metadata. If a judgment failed, the score is `Score.unscored`, which metrics
    leave out.

    Args:
        source: gives the rewards.
        rubric: the metadata key of the rubric; by default the first of rubric, rubrics, Rubrics and reward_model.
    """
    from inspect_ai.scorer import Score, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState

    @scorer(metrics=[mean(), stderr()], name="rubric")  # type: ignore[untyped-decorator]
    def build_scorer() -> Any:
        async def score(state: TaskState, target: Target) -> Score:
            column = find_rubric_column(state.metadata, rubric)
            submission = state.output.completion
            where = f"sample {state.sample_id}"
            held = read_rubric(state.metadata[column], where)
            reference = target.text or None
            sample = Sample(submission, held, as_conversation(state.input), reference, item=str(state.sample_id))
            [reward] = await source.rewards([sample])
            about = {"criteria": dict(reward.criteria), "coverage": reward.coverage}
            if reward.value is None or reward.failure is not None:
                return Score.unscored(answer=submission, explanation=reward.failure, metadata=about)
            return Score(value=reward.value, answer=submission, metadata=about)

        return score

    return build_scorer()
