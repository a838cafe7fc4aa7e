"""Models and endpoints to test with: no network, no key, every fault on demand."""

from autorubric.testing.completion import Completion, sized_replies
from autorubric.testing.endpoint.endpoint_limits import RateWindow, TokenLimits
from autorubric.testing.endpoint.loopback_server import LoopbackEndpoint, LoopbackProcess
from autorubric.testing.endpoint.service import Counts, Received
from autorubric.testing.faults import FAULTS, Fault, FaultPlan, Latency
from autorubric.testing.scripted import PromptSections, ScriptedModel

__all__ = [
    "FAULTS",
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
