"""The mutation runner changes what runs, one thing at a time, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tools import mutate
from tools.mutate import mutants

SOURCE = '''
"""A module of 3 words."""


def share(found: int = 0, of: list[int] | None = None) -> float | None:
    """The share, times 2."""
    if not of:
        raise ValueError(f"{found + 1} of none")
    return found / len(of) if found > 0 and of else None
'''


def test_each_mutant_changes_one_thing_that_runs() -> None:
    assert [(mutant.line, mutant.change) for mutant in mutants(SOURCE)] == [
        (5, "0  ->  1"),
        (7, "not of  ->  of"),
        (9, "return found / len(of) if found > 0 and of else None  ->  return None"),
        (9, "found > 0 and of  ->  found > 0 or of"),
        (9, "found > 0  ->  found >= 0"),
        (9, "0  ->  1"),
        (9, "found / len(of)  ->  found * len(of)"),
    ]


def test_a_mutant_is_the_whole_module_with_one_change() -> None:
    [mutant] = mutants("def is_low(x: float) -> bool:\n    limit = x\n    assert x < limit\n    return\n")
    assert "assert x <= limit" in mutant.source and "x: float" in mutant.source


def test_the_tests_of_a_module_are_its_mirror_and_whatever_imports_what_it_defines() -> None:
    found = mutate.tests_of(Path("src/autorubric/llm/executor.py"))
    assert found[-1] == "src/autorubric/llm/executor.py"  # its doctests
    assert {"tests/llm/test_executor_budget.py", "tests/llm/test_ending.py"} <= {*found}  # its mirror
    assert "tests/llm/records/test_lock.py" not in found
    # `Rubric` is imported from `autorubric`.
    assert "tests/cli/test_grade.py" in mutate.tests_of(Path("src/autorubric/core/rubric.py"))
