"""Checks on code in a submission."""

from __future__ import annotations

import ast
import warnings
from typing import Literal

from autorubric.checks.fences import CodeBlock, fenced_blocks
from autorubric.checks.length import Count
from autorubric.checks.outcome import CannotCheck, CheckOutcome, judged_count
from autorubric.core.counted import counted

_LONGEST = 200_000
_PYTHON = ("python", "py", "python3")


def code_block(
    text: str,
    *,
    language: str | None = None,
    at_least: Count = 1,
    at_most: Count | None = None,
) -> CheckOutcome:
    r"""Passed when the number of fenced code blocks (of a language, where given) is within the bounds.

    Example:
        >>> code_block("```sql\nselect 1;\n```", language="sql").passed
        True
    """
    wanted = language.lower() if language is not None else None
    blocks = [block for block in fenced_blocks(text) if wanted in (None, block.language)]
    noun = "code block" if wanted is None else f"{wanted} code block"
    return judged_count(len(blocks), noun, at_least=at_least, at_most=at_most)


def python_parses(text: str, *, where: Literal["block", "whole"] = "block", at_least: Count = 1) -> CheckOutcome:
    r"""Passed when every Python code block parses, and there are enough of them; nothing is run.

    Blocks without a language count as Python where no block is marked as such. `whole` reads the entire
    submission as one program.

    Example:
        >>> python_parses("```python\nprint(1\n```")
        CheckOutcome(passed=False, reason="Python block 1, line 1: '(' was never closed")
    """
    blocks = [CodeBlock("python", text)] if where == "whole" else _python_blocks(text)
    for number, block in enumerate(blocks, 1):
        problem = _syntax_problem(block.body)
        if problem is not None:
            return CheckOutcome(False, f"Python block {number}, {problem}")
    if len(blocks) < at_least:
        return judged_count(len(blocks), "Python block", at_least=at_least, at_most=None)
    return CheckOutcome(True, f"{counted(len(blocks), 'Python block')} parsed")


def _python_blocks(text: str) -> list[CodeBlock]:
    blocks = fenced_blocks(text)
    marked = [block for block in blocks if block.language in _PYTHON]
    return marked or [block for block in blocks if not block.language]


def _syntax_problem(source: str) -> str | None:
    if len(source) > _LONGEST:
        raise CannotCheck(f"the code has {len(source)} characters; at most {_LONGEST} are parsed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful escape in the code is no fault of the caller
            ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except ValueError as error:
        return f"line 1: {error}"
    except (RecursionError, MemoryError):
        raise CannotCheck("the code is nested too deeply to be parsed") from None
    return None
