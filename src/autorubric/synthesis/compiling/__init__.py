"""Criteria that a check decides as well as a judge does, with the evidence for it."""

from autorubric.synthesis.compiling.proposing import Comparison, Proposal, compiled, proposals
from autorubric.synthesis.compiling.recognising import Recognised, recognise
from autorubric.synthesis.options import CompileSettings

__all__ = ["Comparison", "CompileSettings", "Proposal", "Recognised", "compiled", "proposals", "recognise"]
