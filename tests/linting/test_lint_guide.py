"""The guide documents every rule, and its examples do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autorubric.linting import RULES, Rule, lint_file
from tests.offenders import offenders

GUIDE = Path(__file__).parents[2] / "docs" / "lint.md"
_SECTION = re.compile(
    r"^### (?P<id>[\w-]+)\n(?P<text>.*?)```yaml\n# Bad\n(?P<bad>.*?)# Good\n(?P<good>.*?)```",
    re.MULTILINE | re.DOTALL,
)
SECTIONS = {found["id"]: found for found in _SECTION.finditer(GUIDE.read_text())}


def test_every_rule_is_documented_once_and_nothing_else_is() -> None:
    assert sorted(re.findall(r"^### (.+)$", GUIDE.read_text(), re.MULTILINE)) == sorted(rule.id for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_bad_example_of_a_rule_breaks_it_and_the_good_one_does_not(rule: Rule, tmp_path: Path) -> None:
    found = {}
    for kind in ("bad", "good"):
        path = tmp_path / f"{kind}.yaml"
        path.write_text(SECTIONS[rule.id][kind])
        found[kind] = [finding.rule for finding in lint_file(path, [rule])]
    assert found["good"] == []
    assert found["bad"] == [rule.id]


def test_the_guide_names_the_severity_of_a_rule() -> None:
    with offenders() as case:
        for rule in RULES:
            with case(repr(rule)):
                assert SECTIONS[rule.id]["text"].rstrip().endswith(f"{rule.severity.capitalize()}.")
