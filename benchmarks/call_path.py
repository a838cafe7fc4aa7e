"""How many functions in how many files one more criterion passes through when `autorubric.grade` grades it."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import autorubric
from autorubric import Criterion, Rubric, grade_async

_PACKAGE = Path(autorubric.__file__).parent
_FUNCTIONS, _FILES = 70, 22


def run() -> None:
    """Print the figures beside their targets, and the functions by file."""
    _graded(1)  # imports, templates and connections are made once
    passed = _graded(4) - _graded(3)
    files = Counter(path for path, _ in passed)
    print(f"one criterion: {len(passed)} functions (target {_FUNCTIONS}) in {len(files)} files (target {_FILES})")
    for path, count in sorted(files.items()):
        print(f"  {path}: {count}")


def _graded(criteria: int) -> Counter[tuple[str, str]]:
    """How often each function of the package is entered while one text is graded by so many criteria."""
    found: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and "<" not in code.co_name and code.co_filename.startswith(str(_PACKAGE)):
            path = str(Path(code.co_filename).relative_to(_PACKAGE))
            if not path.startswith(("testing", "llm/offline")):
                found[path, getattr(code, "co_qualname", code.co_name)] += 1

    rubric = Rubric([Criterion(name=f"c{n}", requirement=f"Names cause {n}.") for n in range(criteria)])
    with tempfile.TemporaryDirectory() as folder:
        sys.setprofile(note)
        try:
            asyncio.run(grade_async(["The tide rises."], rubric=rubric, judge="builtin/offline", out=folder))
        finally:
            sys.setprofile(None)
    return found
