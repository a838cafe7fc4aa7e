"""The index leads to every page, and no link of the documentation is dead."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.offenders import offenders

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def links(page: Path) -> list[str]:
    """The targets of the links of a page, code blocks left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, spelt as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_leads_to_every_page() -> None:
    lines = (DOCS / "index.md").read_text("utf-8").splitlines()
    listed = {found[1] for line in lines if (found := re.match(r"- \[[^\]]+\]\(([^)]+)\): \S.*\.$", line))}
    in_table = {link for line in lines if line.startswith("| ") for link in re.findall(r"\]\(([^)#]+)\)", line)}
    assert listed | in_table == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}


def test_no_link_of_the_documentation_is_dead() -> None:
    with offenders() as case:
        for page in PAGES:
            for link in links(page):
                with case(f"{page.relative_to(ROOT)}: {link}"):
                    if re.match(r"https?://|mailto:", link):
                        continue
                    path, _, anchor = link.partition("#")
                    target = (page.parent / path).resolve() if path else page
                    assert target.exists()
                    assert not anchor or anchor in anchors(target)


_PATH = re.compile(r"`((?:src|tests|docs|benchmarks|fuzz|tools|recipes|tests_\w+)/[\w./-]*)`")


def test_paths_of_the_repository_that_a_page_names_exist() -> None:
    with offenders() as case:
        for page in PAGES:
            for path in _PATH.findall(page.read_text("utf-8")):
                with case(f"{page.relative_to(ROOT)}: {path}"):
                    assert (ROOT / path).exists()


def test_the_drawing_of_the_house_has_every_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    modules = {name for layer in layers for name in re.findall(r"autorubric\.(\w+)", layer)}
    drawing = re.search(r"```mermaid\n(.*?)```", (DOCS / "design" / "house.md").read_text("utf-8"), re.DOTALL)
    assert drawing is not None
    assert modules - set(re.findall(r"\w+", drawing[1])) == {"eval", "types"}


def test_a_heading_gives_the_anchor_that_github_gives() -> None:
    assert "is-my-judge-good-enough" in anchors(DOCS / "howto" / "good_judge.md")


def fenced(page: Path) -> list[str]:
    """The code blocks of a page, fences included."""
    return re.findall(r"^```.*?^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_chinese_readme_has_the_code_and_the_links_of_the_english_one() -> None:
    english, chinese = ROOT / "README.md", ROOT / "README.zh.md"
    assert fenced(chinese) == fenced(english)
    assert sorted({*links(chinese)} - {"README.md"}) == sorted({*links(english)} - {"README.zh.md"})
    assert "README.md" in links(chinese)
    assert "README.zh.md" in links(english)
