"""The gates that a criterion passes before it enters the data; each keeps its evidence."""

from autorubric.synthesis.gate_settings import GateName, GateSettings
from autorubric.synthesis.gates.decide import GATES, Gate, decide
from autorubric.synthesis.gates.decision import GateContext, GateDecision, Outcome, fates, standing
from autorubric.synthesis.gates.licences import agreed_licences, licence_request, read_licences
from autorubric.synthesis.gates.rewrites import Dispute, disputes_in, read_rewrites, rewrite_request
from autorubric.synthesis.gates.share import evolved_share

__all__ = [
    "GATES",
    "Dispute",
    "Gate",
    "GateContext",
    "GateDecision",
    "GateName",
    "GateSettings",
    "Outcome",
    "agreed_licences",
    "decide",
    "disputes_in",
    "evolved_share",
    "fates",
    "licence_request",
    "read_licences",
    "read_rewrites",
    "rewrite_request",
    "standing",
]
