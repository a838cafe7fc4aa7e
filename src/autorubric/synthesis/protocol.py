"""Which version of the method a run follows: a directory keeps the version that it began with.

Version 1 has the first prompts, one judge call per rubric, relevance draws that differ in their number only and count
as independent, repetitions by equal verdicts alone, and pitfalls that are requested even where they are dropped.
Version 2 changes each of these. A
directory of version 1 resumes as version 1, so that its saved replies keep answering its requests.
"""

from __future__ import annotations

from typing import Any

from autorubric.runs.manifest import read_manifest
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.synthesis_settings import SynthesisSettings

LATEST = 2
"""The version that new runs follow."""


def resolve_protocol(settings: SynthesisSettings, *, start_over: bool = False) -> SynthesisSettings:
    """The settings of a run with its version, and with what the version sets where the user sets nothing."""
    protocol = settings.protocol or (LATEST if start_over else _find_protocol(settings))
    full = settings.full_profile
    if protocol == 1:
        full = _of_first(full)
    elif full.pitfalls == "drop":  # pitfalls that no file would hold are not paid for
        full = full.model_copy(update={"pitfalls": "off"})
    return settings.model_copy(update={"protocol": protocol, "full": full})


def _find_protocol(settings: SynthesisSettings) -> int:
    manifest = read_manifest(settings.folder)
    if manifest is None or manifest.get("kind") != "synthesis":
        return LATEST
    held = manifest.get("settings")
    recorded: Any = held.get("protocol") if isinstance(held, dict) else None
    return recorded if recorded in (1, LATEST) else 1


def _of_first(full: FullSettings) -> FullSettings:
    gates, redundant = full.gates, full.gates.redundant
    if "least_error" not in gates.model_fields_set:
        gates = gates.model_copy(update={"least_error": 0.0})
    if "prior_other" not in redundant.model_fields_set:
        gates = gates.model_copy(update={"redundant": redundant.model_copy(update={"prior_other": 0.01})})
    own = "judging" in full.model_fields_set
    return full.model_copy(update={"gates": gates, "judging": full.judging if own else "rubric"})
