from typing import Any

from autorubric.checks import CheckFailure, CheckOutcome, run_check
from tests.offenders import each


def passes(name: str, text: str, **parameters: Any) -> bool:
    said = run_check(name, parameters, text)
    assert isinstance(said, CheckOutcome), said
    return said.passed


PAGE = "# Plan\r\n\r\nIntro\r\n\r\n## Costs\r\n\r\n```\r\n# no heading\r\n```\r\n\r\nRisks\r\n-----\r\n"


@each(
    ("parameters", "expected"),
    [
        ({"at_least": 3, "at_most": 3}, True),  # Plan, Costs, and Risks by its underline
        ({"level": 2, "at_least": 2}, True),
        ({"level": 3, "at_least": 1}, False),
        ({"titles": ["plan", "RISKS"]}, True),
        ({"titles": ["risks", "plan"]}, False),
        ({"titles": ["no heading"]}, False),
    ],
)
def test_markdown_headings(parameters: dict[str, Any], expected: bool) -> None:
    assert passes("markdown_headings", PAGE, **parameters) is expected


def test_no_text_has_no_heading() -> None:
    assert not passes("markdown_headings", "", at_least=1)


@each(
    ("text", "parameters", "expected"),
    [
        ("- a\n- b\n", {"kind": "bullet", "at_least": 2, "at_most": 2}, True),
        ("- a\n  - a1\n  - a2\n- b\n", {"at_least": 2, "at_most": 2}, True),  # nested ones are part of a
        ("1. a\r\n2. b\r\n", {"kind": "numbered", "at_least": 2}, True),
        ("1. a\n2. b\n", {"kind": "bullet", "at_least": 1}, False),
        ("* a\n\ntext\n\n* b\n", {"lists": 2}, True),
        ("* a\n\ntext\n\n* b\n", {"lists": 1}, False),
        ("text", {}, False),
        ("", {"at_most": 3}, False),
        ("", {"lists": 0}, True),
        ("```\n- a\n```", {}, False),
        ("\\- a", {}, False),
    ],
)
def test_list_shape(text: str, parameters: dict[str, Any], expected: bool) -> None:
    assert passes("list_shape", text, **parameters) is expected


TABLE = "Prices:\n\n| City | km |\n|:--|--:|\n| Uzès | 12 |\n| Nîmes | 25 |\n"


@each(
    ("parameters", "expected"),
    [
        ({}, True),
        ({"columns": 2}, True),
        ({"columns": 3}, False),
        ({"header": ["city", "KM"]}, True),
        ({"header": ["km", "city"]}, False),
        ({"at_least": 2, "at_most": 2}, True),
        ({"at_least": 3}, False),
    ],
)
def test_table_shape(parameters: dict[str, Any], expected: bool) -> None:
    assert passes("table_shape", TABLE, **parameters) is expected


def test_any_table_may_have_the_shape() -> None:
    assert passes("table_shape", f"| x |\n|---|\n| 1 |\n\n{TABLE}", columns=2)


@each("text", ["", "a | b", "| a | b |\n| 1 | 2 |\n"])
def test_pipes_without_a_rule_are_no_table(text: str) -> None:
    assert not passes("table_shape", text)


@each(
    ("text", "parameters", "expected"),
    [
        ("```sql\nselect 1\n```", {"language": "SQL"}, True),
        ("~~~sql\r\nselect 1\r\n~~~\r\n", {"language": "sql"}, True),
        ("```sql\nselect 1\n```", {"language": "python"}, False),
        ("``` \na\n```\n\n```\nb\n```", {"at_most": 1}, False),
        ("````\n```\n````", {"at_most": 1}, True),  # a longer fence holds a shorter one
        ("```never closed", {}, True),
        ("`code`", {}, False),
        ("", {}, False),
    ],
)
def test_code_block(text: str, parameters: dict[str, Any], expected: bool) -> None:
    assert passes("code_block", text, **parameters) is expected


@each(
    ("text", "expected"),
    [
        ("```python\nprint('é')\n```", True),
        ("```py\r\nif True:\r\n    pass\r\n```", True),
        ("```python\nprint(\n```", False),
        ("```python\nx = 1\n```\n```python\nx =\n```", False),
        ("```\nx = 1\n```", True),
        ("```\nnot python\n```\n```python\nx = 1\n```", True),  # only the marked ones are read
        ("```bash\nls -l\n```", False),
        ("x = 1", False),
        ("", False),
        ('```python\n"\\d"\n```', True),  # a doubtful escape warns, and still parses
        ("```python\nx = '\0'\n```", False),
    ],
)
def test_python_parses(text: str, expected: bool) -> None:
    assert passes("python_parses", text) is expected


def test_python_may_be_the_whole_submission() -> None:
    assert passes("python_parses", "x = 1\n", where="whole")
    assert not passes("python_parses", "x =\n", where="whole")


def test_code_is_parsed_and_never_run() -> None:
    assert passes("python_parses", "```python\nraise SystemExit\n```")


def test_code_nested_beyond_parsing_is_no_crash() -> None:
    said = run_check("python_parses", {"where": "whole"}, "(" * 50_000)
    assert isinstance(said, CheckOutcome | CheckFailure)
    assert isinstance(
        run_check("python_parses", {"where": "whole"}, "-" * 100_000 + "1"), CheckOutcome | CheckFailure
    )
