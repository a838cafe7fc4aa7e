"""The mutation runner changes what runs, one thing at a time, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tools import mutate
from tools.mutant_runs import changed_code
from tools.mutate import chosen_tests, mutants

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


def test_a_mutant_gets_the_tests_that_run_its_statement_then_those_that_start_processes() -> None:
    module = Path("src/low.py")
    [default, compared, *_] = mutants("def is_low(x=0):\n    if (\n        x < 1\n    ):\n        return True\n")
    assert (default.span, compared.span) == (range(2, 6), range(2, 5))
    traced = {
        "slow": {"seconds": 3.0, "forks": False, "lines": {"src/low.py": [3]}},
        "quick": {"seconds": 1.0, "forks": False, "lines": {"src/low.py": [2, 3, 5]}},
        "elsewhere": {"seconds": 1.0, "forks": False, "lines": {"src/low.py": [1, 5]}},
        "process": {"seconds": 1.0, "forks": True, "lines": {}},
    }
    assert list(chosen_tests(compared, module, traced, 10.0)) == ["quick", "slow", "process"]
    assert list(chosen_tests(compared, module, traced, 2.0)) == ["quick", "process"]


def test_only_the_functions_that_a_mutant_changes_get_new_code() -> None:
    source = "HIGH = 9\ndef low(x):\n    return filter(lambda y: y < 1, x)\ndef high(x):\n    return x > HIGH\n"

    def changed(old: str, new: str) -> list[str]:
        codes = (compile(text, "low.py", "exec") for text in (source, source.replace(old, new)))
        return [name for name, line in changed_code(*codes)]

    assert changed("< 1", "<= 1") == ["low", "low.<locals>.<lambda>"]
    assert changed("= 9", "= 10") == []  # what an import does: the module has to be imported again


def test_the_tests_of_a_module_are_its_mirror_and_whatever_imports_what_it_defines() -> None:
    found = mutate.tests_of(Path("src/autorubric/llm/executor.py"))
    assert found[-1] == "src/autorubric/llm/executor.py"  # its doctests
    assert {"tests/llm/test_executor_budget.py", "tests/llm/test_ending.py"} <= {*found}  # its mirror
    assert "tests/llm/records/test_lock.py" not in found  # it mirrors the package `llm.records`
    # `tests/synthesis/full` mirrors no package of its own.
    assert "tests/synthesis/full/test_rounds.py" in mutate.tests_of(Path("src/autorubric/synthesis/evolution.py"))
    # `Rubric` is imported from `autorubric`.
    assert "tests/cli/test_grade.py" in mutate.tests_of(Path("src/autorubric/core/rubric.py"))
