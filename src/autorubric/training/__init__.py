"""From reports to training data and rewards."""

from autorubric.core.entries import rubric_from
from autorubric.training.audit import AuditPlan
from autorubric.training.evolution.live import EvolutionPlan
from autorubric.training.evolution.proposals import EvolutionRule
from autorubric.training.rewarder import Rewarder, RewardSource, Sample, make_rewarder, rewards_now
from autorubric.training.rewards import Reward, RewardFailed, RewardGap, RewardRule, SoftOverlong, compute_reward

__all__ = [
    "AuditPlan",
    "EvolutionPlan",
    "EvolutionRule",
    "Reward",
    "RewardFailed",
    "RewardGap",
    "RewardRule",
    "RewardSource",
    "Rewarder",
    "Sample",
    "SoftOverlong",
    "compute_reward",
    "make_rewarder",
    "rewards_now",
    "rubric_from",
]
