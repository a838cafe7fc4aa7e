"""The generated reference pages are up to date."""

from __future__ import annotations

import re

from autorubric.reviewing.principles import list_principles
from tools.reference import HOME, rendered


def test_the_reference_pages_are_what_the_code_says() -> None:
    pages = rendered()
    stale = [
        name for name, text in pages.items() if not (HOME / name).exists() or (HOME / name).read_text("utf-8") != text
    ]
    left = sorted({path.name for path in HOME.iterdir()} - set(pages))
    assert not stale and not left, f"run python -m tools.reference (stale: {stale}; to delete: {left})"


def test_a_flag_a_class_and_a_registered_name_stand_in_the_reference() -> None:
    pages = rendered()
    assert "| `--concurrency`, `-j` N | `256` |" in pages["settings.md"]
    assert "[Endpoint](settings.md#endpoint)" in pages["grade.md"] and "`--concurrency`" in pages["grade.md"]
    assert "| `--json` (`as_json`) |" in pages["doctor.md"]
    assert ">>> from autorubric import Rubric, review\n" in pages["review.md"]
    assert "## RubricDataset" in pages["classes.md"]
    assert "| `word_count` |" in pages["checks.md"]


def test_the_guide_of_review_groups_every_principle_once() -> None:
    guide = (HOME.parent / "review.md").read_text("utf-8")
    table = guide.partition("| Question | Principles |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(one.id for one in list_principles(in_context=True))
