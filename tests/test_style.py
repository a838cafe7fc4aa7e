"""The worst phrases of docs/style.md stay out of the README and the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from tests.offenders import offenders

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("README*.md"), *sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "style.md"})]
# Each of them has occurred. docs/style.md and a dictionary of the field say what to write instead.
PHRASES = (
    r"(?<!there )\bis no (?!longer|better|evidence|finding|guarantee)\w+",
    r"\basked anew\b|\banew\b",
    r"\bmend(s|ed|ing)?\b",
    r"\bhold(s)? the truth\b|\bheld the truth\b",
    r"\bso many\b",
    r"\bsays? nothing here\b|\bsay little\b",
    r"\bin the place of\b",
    r"\bbeside(s)?\b",
    r"\bcommonest\b",
    r"\bstays put\b",
    r"\bspeaks? to the judge\b",
    r"\bdoors of\b",
    r"\bgo(es)? on where\b|\bgone on with\b",
    r"\bthat may pass\b",
    r"\btold apart\b",
    r"\bfigures?\b(?! (7|9)\b)",
    r"\bto and fro\b",
    r"\bin good order\b",
    r"\bwhat guessing reaches\b",
    r"\bis asked for again\b|\basked again\b",
    r"\bmost (calls|tokens) (in|of)\b",
    r"\bcalls? in the place\b",
    r"\bas it stands\b",
    r"\bout of time\b",
    r"\bbut for\b",
    r"\bnobody knows\b(?! ?[.,])",
)


def prose(page: Path) -> str:
    """The text of a page without code, in one line a paragraph."""
    text = re.sub(r"^(```+).*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!\n)\n(?!\n)", " ", re.sub(r"`[^`\n]*`", "``", text))


def test_the_documentation_is_free_of_the_worst_phrases() -> None:
    with offenders() as case:
        for page in PAGES:
            for phrase in PHRASES:
                with case(f"{page.relative_to(ROOT)}: {phrase}"):
                    assert [
                        found[0] for found in re.finditer(rf".{{0,40}}(?:{phrase}).{{0,20}}", prose(page), re.I)
                    ] == []
