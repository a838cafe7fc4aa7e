"""The guide and the reference are run: the Python examples, and the example of every check."""

import doctest
import re
from pathlib import Path

import pytest

from autorubric.checks import CHECKS, IFBENCH, IFEVAL, MIFEVAL, RUBRICHUB, CheckOutcome, run_check
from tests.offenders import each, offenders
from tests.oracles import nltk
from tools.check_page import read_examples

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "checks.md").read_text("utf-8")
ROWS = [
    [cell.strip().strip("`").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (ROOT / "docs" / "reference" / "checks.md").read_text("utf-8").splitlines()
    if line.startswith("| `")
]
EXAMPLES = read_examples()
PACKAGED = set(CHECKS)  # the guide registers one of its own when it is run


def test_the_reference_shows_every_check_once() -> None:
    assert sorted(one["check"] for one in EXAMPLES) == sorted(PACKAGED - set(IFEVAL))
    assert sorted(row[0] for row in ROWS if len(row) == 6) == sorted(PACKAGED - set(IFEVAL))
    assert sorted(row[0] for row in ROWS if len(row) == 2 and ":" in row[0]) == sorted(IFEVAL)


def test_the_guide_names_every_general_check() -> None:
    published = {*RUBRICHUB, *IFEVAL, *IFBENCH, *MIFEVAL}
    _, _, table = GUIDE.partition("## Which check do I need?")
    named = re.findall(r"`(\w+)`", table.partition("\n- ")[0])
    assert sorted(named) == sorted(PACKAGED - published)


def test_an_example_says_what_the_reference_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])  # as on a machine without NLTK's models
    parameters = {row[0]: row[1] for row in ROWS if len(row) == 6}
    with offenders() as case:
        for one in EXAMPLES:
            name = one["check"]
            with case(name):
                said = run_check(name, one["parameters"], one["submission"])
                expected = {"passed": True, "not passed": False, "cannot decide": None}[one["says"]]
                assert (said.passed if isinstance(said, CheckOutcome) else None) is expected
                known = CHECKS[name].parameters.model_json_schema()["properties"]
                assert set(re.findall(r"`(\w+)`:", f"`{parameters[name]}")) == set(known)


@each("instruction", IFEVAL)
def test_the_reference_names_the_rule_an_instruction_shares(instruction: str) -> None:
    (rule,) = (row[1] for row in ROWS if row[0] == instruction and len(row) == 2)
    assert CHECKS[rule].function is CHECKS[instruction].function


def test_the_python_of_the_guide_runs_as_shown() -> None:
    source = "\n".join(re.findall(r"```python\n(>>> .*?)```", GUIDE, re.DOTALL))
    assert source.count(">>>") > 10
    test = doctest.DocTestParser().get_doctest(source, {"__name__": "guide"}, "docs/checks.md", "docs/checks.md", 0)
    assert doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test).failed == 0
