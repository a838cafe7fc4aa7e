"""A folder of prompts for the full method: drafts, judges and gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from autorubric.errors import ConfigError, InputError
from autorubric.synthesis.templates import SynthesisPrompts, load_synthesis_prompts


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        place = path / f"{name.replace('__', '/')}.jinja"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return path


def load_full(path: Path) -> SynthesisPrompts:
    return load_synthesis_prompts(path, full=True)


def test_each_part_may_be_there_or_not(tmp_path: Path) -> None:
    plain = load_synthesis_prompts(None, full=True)
    gates = load_full(folder(tmp_path / "a", gates__licence="{{ query | json }} {{ criteria | json }}"))
    assert gates.drafts == plain.drafts
    assert gates.gates is not None
    assert gates.gates.licence.origin.endswith("licence.jinja")
    judging = "{% block user %}{{ submission }} {{ criteria | json }}{% endblock %}"
    both = load_full(folder(tmp_path / "b", pitfalls="Faults in {{ query }}", judges__judge_rubric=judging))
    changed = {name for name, mark in both.fingerprints().items() if mark != plain.fingerprints()[name]}
    assert changed == {"pitfalls", "judge_rubric"}


def test_a_merge_that_this_method_does_not_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"merges with merge_sets\.jinja"):
        load_full(folder(tmp_path, merge="{{ sets | json }}"))
    assert load_full(folder(tmp_path / "own", merge_sets="{{ sets | json }}"))


def test_a_folder_without_any_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no prompt files"):
        load_full(tmp_path)
