"""The guide is run: its Python examples, and the example of every check in its tables."""

import doctest
import json
import re
from pathlib import Path

import pytest

from autorubric.checks import CHECKS, IFEVAL, CheckOutcome, run_check
from tests.offenders import each, offenders
from tests.oracles import nltk

GUIDE = (Path(__file__).parents[2] / "docs" / "checks.md").read_text("utf-8")
ROWS = [
    [cell.strip().strip("`").strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in GUIDE.splitlines()
    if line.startswith("| `")
]
EXAMPLES = [row for row in ROWS if len(row) == 6]
PACKAGED = set(CHECKS)  # the guide registers one of its own when it is run


def test_the_guide_shows_every_check_once() -> None:
    assert sorted(row[0] for row in EXAMPLES) == sorted(PACKAGED - set(IFEVAL))
    assert sorted(row[0] for row in ROWS if len(row) == 2 and ":" in row[0]) == sorted(IFEVAL)


def test_an_example_says_what_the_guide_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])  # as on a machine without NLTK's models
    with offenders() as case:
        for name, parameters, _, example, submission, says in EXAMPLES:
            with case(name):
                said = run_check(name, json.loads(example), json.loads(submission))
                expected = {"passed": True, "not passed": False, "cannot decide": None}[says]
                assert (said.passed if isinstance(said, CheckOutcome) else None) is expected
                known = CHECKS[name].parameters.model_json_schema()["properties"]
                assert set(re.findall(r"`(\w+)`:", f"`{parameters}")) == set(known)


@each("instruction", IFEVAL)
def test_the_guide_names_the_rule_an_instruction_shares(instruction: str) -> None:
    (rule,) = (row[1] for row in ROWS if row[0] == instruction)
    assert CHECKS[rule].function is CHECKS[instruction].function


def test_the_python_of_the_guide_runs_as_shown() -> None:
    source = "\n".join(re.findall(r"```python\n(>>> .*?)```", GUIDE, re.DOTALL))
    assert source.count(">>>") > 10
    test = doctest.DocTestParser().get_doctest(source, {"__name__": "guide"}, "docs/checks.md", "docs/checks.md", 0)
    assert doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test).failed == 0
