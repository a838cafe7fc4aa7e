"""How many functions, in how many files of the package, one criterion and two commands pass through.

Counted with a profiler that sees every call; comprehensions, lambdas and class bodies are no functions. Python starts
each case afresh, so that nothing is loaded beforehand; functions that run while modules load are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import autorubric

SOURCE = str(Path(autorubric.__file__).parent)
CASES = {"grade": 70, "agree": 150, "synthesize": 150}
"""The cases, and the number of functions that each should stay within."""


class Passed:
    """The functions of the package that run inside a `with` block, in all threads."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            if code in self.codes or _is_import(frame):
                return
            self.codes.add(code)

    def __enter__(self) -> Passed:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def files(self) -> set[str]:
        """The files of these functions."""
        return {code.co_filename for code in self.codes}


def _is_import(frame: FrameType | None) -> bool:
    """Whether a call is part of loading a module or of making a class."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(SOURCE):
            return not frame.f_code.co_filename.endswith("__main__.py")
        # The qualified name of a class body is the class's own; it has no arguments and is not optimised.
        if not frame.f_code.co_flags & 0x2 and not frame.f_code.co_name.startswith("<"):
            return True
        frame = frame.f_back
    return False


def _submissions(folder: Path) -> Path:
    dataset = autorubric.RubricDataset(
        "Explain.", autorubric.Rubric([autorubric.Criterion(name="Brief", requirement="Contains at most 5 words.")])
    )
    for number in range(40):
        dataset.add_item("word " * (number % 10 + 1), "", ["MET" if number % 10 < 5 else "UNMET"])
    dataset.to_file(folder / "dataset.json")
    return folder / "dataset.json"


def _command(*arguments: str) -> Callable[[], None]:
    def command() -> None:
        from autorubric.cli.app import run

        if run(list(arguments)):
            raise SystemExit(f"{arguments} failed")

    return command


def _one_criterion() -> Callable[[], object]:
    """One more criterion for a grader that has judged another, so that what is set up once does not count."""
    import asyncio

    from autorubric import Criterion, LLMConfig, Rubric
    from autorubric.graders import CriterionGrader

    grader = CriterionGrader(judge_model_config=LLMConfig(model="builtin/offline"))
    loop = asyncio.new_event_loop()

    def judged(requirement: str) -> object:
        rubric = Rubric([Criterion(name="C", requirement=requirement)])
        return loop.run_until_complete(rubric.grade("Thank you for the question.", grader=grader))

    judged("Is kind.")
    return lambda: judged("Mentions a question.")


def _case(name: str, folder: Path) -> Callable[[], object]:
    """What is measured; what it needs is done before."""
    if name == "grade":
        return _one_criterion()
    if name == "agree":
        _command("grade", str(_submissions(folder)), "--judge", "builtin/offline", "-o", str(folder / "run"))()
        return _command("agree", str(folder / "run"))
    (folder / "queries.jsonl").write_text('{"id": "1", "query": "Why does ice float?"}\n')
    queries, out = str(folder / "queries.jsonl"), str(folder / "rubrics")
    return _command("synthesize", queries, "--models", "builtin/offline", "--out", out)


def measure(name: str, listed: bool = False) -> str:
    """One line for a case; with `listed`, also the functions."""
    with tempfile.TemporaryDirectory() as folder:
        case = _case(name, Path(folder))
        with Passed() as passed:
            case()
    lines = [f"{name:<10} {len(passed.codes):>4} functions in {len(passed.files):>3} files (at most {CASES[name]})"]
    if listed:
        found = sorted((code.co_filename.removeprefix(SOURCE), code.co_qualname) for code in passed.codes)
        lines += [f"  {file.lstrip('/')}: {function}" for file, function in found]
    return "\n".join(lines)


def run() -> None:
    for name in CASES:
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.functions_passed", name], capture_output=True, text=True, check=False
        )
        told = found.stderr.strip().splitlines()
        print(found.stdout.strip().splitlines()[-1] if found.returncode == 0 else f"{name:<10} failed: {told[-1:]}")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(measure(sys.argv[1], "--list" in sys.argv))
    else:
        run()
