"""Every picture of the guides can be taken again, is shown somewhere, and has a text for those who do not see it."""

from __future__ import annotations

import re

from tests.offenders import offenders
from tools.pictures import IMAGES, PICTURES, ROOT

PAGES = [*ROOT.glob("README*.md"), *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_pictures_are_those_that_the_tool_takes() -> None:
    assert sorted(path.name for path in IMAGES.iterdir()) == sorted(f"{one.name}.png" for one in PICTURES)


def test_every_picture_is_shown_and_described() -> None:
    shown = set()
    with offenders() as case:
        for page in PAGES:
            for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text("utf-8")):
                with case(f"{page.relative_to(ROOT)}: {target}"):
                    assert len(words) >= 15
                    shown.add((page.parent / target).resolve())
    assert shown == set(IMAGES.iterdir())
