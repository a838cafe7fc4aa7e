"""The worst phrases of docs/style.md stay out of the README, the documentation, help, messages and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.offenders import offenders

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("README*.md"), *sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "style.md"})]
PHRASES = {
    r"(?<!there )\bis no (?!longer|better|evidence|finding|guarantee)\w+": "rubric.yaml is no JSON",
    r"\banew\b": "its calls are asked anew",
    r"\bmend(s|ed|ing)?\b": "mend this and run the command again",
    r"\bh[oe]ld(s|ing)? the truth\b": "intervals that hold the truth",
    r"\bso many\b": "so many pairs to label",
    r"\bsays? nothing here\b": "`--rollouts` says nothing here",
    r"\bin the place of\b": "a rubric in the place of a dataset",
    r"\bbesides?\b": "beside each interval stands its width",
    r"\bcommonest\b": "always the commonest label",
    r"\bstays put\b": "agreement that stays put",
    r"\bspeaks? to (the|its) judge\b": "texts that speak to the judge",
    r"\bdoors of\b": "the doors of the trainers",
    r"\bgo(es|ne)? on (where|with)\b": "it goes on where it stopped",
    r"\bthat may pass\b": "a fault that may pass",
    r"\btold apart\b": "votes could not be told apart",
    r"\bfigures?\b(?! (7|9)\b)": "the figures of a run",
    r"\bto and fro\b": "moved to and fro",
    r"\bin good order\b": "a run that ends in good order",
    r"\bwhat guessing reaches\b": "what guessing reaches",
    r"\basked (for )?again\b": "the reply is asked again",
    r"\bmost (calls|tokens) (in|of)\b": "most calls in flight",
    r"\bas it stands\b": "the text as it stands",
    r"\bout of time\b": "a search out of time",
    r"\bbut for\b": "equal but for case",
    r"\bshared out\b": "items are shared out into sets",
    r"\btook back\b": "took back Cause",
    r"\btell(s|ing)? (\w+ )?rollouts apart\b": "criteria that tell rollouts apart",
    r"\bexclude each other\b": "--json and --csv exclude each other",
    r"\bcommand again resumes\b": "the same command again resumes the run",
    r"\bon its way (to|into|through)\b": "a request on its way into a batch",
    r"\bsays? so\b": "a note says so",
    r"\bof (your|one's) own\b": "a judge of your own",
    r"\bouter spaces?\b": "case and outer spaces do not count",
    r"\bhalf a character\b": "a text holds half a character",
    r"\bthe most is\b": "nested too deeply; the most is 100 levels",
    r"\basked on\b": "50% asked on",
    r"\bgoes? ahead\b": "one call per item goes ahead",
    r"\bthat there were then\b": "the labels that there were then",
    r"\bwhat \w+ they are about\b": "the reports do not say what items they are about",
    r"\bover its own (input|file)\b": "the run would write final.jsonl over its own input",
}


def any_of(phrases: Iterable[str]) -> re.Pattern[str]:
    """All of them start at a word: to look there alone takes half the time."""
    return re.compile(rf"\b(?:{'|'.join(phrases)})", re.IGNORECASE)


def prose(page: Path) -> str:
    """The text of a page without code, each paragraph in one line."""
    text = re.sub(r"^(```+).*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!\n)\n(?!\n)", " ", re.sub(r"`[^`\n]*`", "``", text))


def test_the_documentation_is_free_of_the_worst_phrases() -> None:
    worst = any_of(PHRASES)
    with offenders() as case:
        for page in PAGES:
            with case(str(page.relative_to(ROOT))):
                text = prose(page)
                found = [text[max(one.start() - 40, 0) : one.end() + 20] for one in worst.finditer(text)]
                assert found == []


def texts_of_code(path: Path) -> Iterator[str]:
    """The docstrings, help and messages of a module without code in them, each in one line."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            text = re.sub(r"^ *(>>>|\.\.\.).*$", "", node.value, flags=re.MULTILINE)
            yield re.sub(r"`[^`]*`", "``", " ".join(text.split()))


def test_help_messages_and_docstrings_are_free_of_the_worst_phrases() -> None:
    # "figure" is the word of the view for a number on a page.
    worst = any_of(one for one in PHRASES if "figures?" not in one)
    with offenders() as case:
        for path in sorted((ROOT / "src").rglob("*.py")):
            with case(str(path.relative_to(ROOT))):
                assert [text for text in texts_of_code(path) if worst.search(text)] == []


def test_each_phrase_is_found_where_it_occurs() -> None:
    with offenders() as case:
        for phrase, example in PHRASES.items():
            with case(phrase):
                assert any_of([phrase]).search(example)
