"""Reward functions for trainers and evaluation frameworks; import only the file that you use."""

from autorubric.training.rewards import Reward, RewardFailed, refuse_gap


def require_value(reward: Reward) -> float:
    """Return the value of a reward, for trainers that cannot represent a missing one.

    Raises:
        RewardFailed: the reward is missing.
        RewardGap: an audit says that training should stop.

    Example:
        >>> require_value(Reward(0.5, {}))
        0.5
    """
    refuse_gap([reward])
    if reward.value is None:
        raise RewardFailed(f"no reward: {reward.failure}")
    return reward.value
