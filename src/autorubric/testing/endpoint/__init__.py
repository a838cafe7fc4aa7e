"""A real HTTP server on this machine that speaks chat completions."""

from autorubric.testing.completion import Replier, sized_replies
from autorubric.testing.endpoint.batches import BatchBooks, BatchFaults
from autorubric.testing.endpoint.endpoint_limits import RateWindow, TokenLimits
from autorubric.testing.endpoint.loopback_server import LoopbackEndpoint, LoopbackProcess
from autorubric.testing.endpoint.service import Counts, Received

__all__ = [
    "BatchBooks",
    "BatchFaults",
    "Counts",
    "LoopbackEndpoint",
    "LoopbackProcess",
    "RateWindow",
    "Received",
    "Replier",
    "TokenLimits",
    "sized_replies",
]
