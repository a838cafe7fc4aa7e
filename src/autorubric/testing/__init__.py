"""Models and endpoints to test with: no network, no key, every fault on demand."""

from autorubric.testing.completion import Completion
from autorubric.testing.endpoint import (
    BatchFaults,
    Counts,
    LoopbackEndpoint,
    LoopbackProcess,
    RateWindow,
    Received,
    TokenLimits,
    sized_replies,
)
from autorubric.testing.faults import FAULTS, Fault, FaultPlan, Latency
from autorubric.testing.scripted import PromptSections, ScriptedModel

__all__ = [
    "FAULTS",
    "BatchFaults",
    "Completion",
    "Counts",
    "Fault",
    "FaultPlan",
    "Latency",
    "LoopbackEndpoint",
    "LoopbackProcess",
    "PromptSections",
    "RateWindow",
    "Received",
    "ScriptedModel",
    "TokenLimits",
    "sized_replies",
]
