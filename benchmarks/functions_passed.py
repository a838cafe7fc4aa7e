"""How many functions, in how many files of the package, run for one criterion and for two commands.

A profiler sees every call. Comprehensions, lambdas and class bodies do not count, nor do functions that run while
modules load, nor what the built-in model calls, which stands in for an endpoint. Each case runs in a new process.
`grade` counts what runs more often when a text is graded by one criterion more, records and run directory included.
`python -m benchmarks.functions_passed grade --list` names the functions.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import autorubric
from autorubric import Criterion, Rubric, grade_async
from benchmarks.record import Record

SOURCE = str(Path(autorubric.__file__).parent)
CASES = {"grade": (70, 22), "agree": (150, None), "synthesize": (150, None)}
"""The cases, with the goals for functions and files."""
_ABOVE_THEIR_GOALS = ("synthesize",)
"""The numbers in the guide."""
GUARD = {"grade": 74, "agree": 150, "synthesize": 411}
"""Guards against growth: a few functions above the counts when these were last lowered."""
_STAND_IN = f"{SOURCE}/testing/"


class Passed:
    """How often each function of the package runs inside a `with` block, in all threads or in this one."""

    def __init__(self, threads: bool = True) -> None:
        self.codes: Counter[CodeType] = Counter()
        self._threads = threads

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<") or not code.co_filename.startswith(SOURCE):
            return
        if not _is_left_out(frame, code in self.codes):
            self.codes[code] += 1

    def __enter__(self) -> Passed:
        threading.setprofile(self._see if self._threads else None)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def _is_left_out(frame: FrameType | None, is_known: bool) -> bool:
    """Whether a call is part of the stand-in for an endpoint, of loading a module or of making a class."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_STAND_IN):
            return True
        if not is_known and code.co_name == "<module>" and code.co_filename.startswith(SOURCE):
            return not code.co_filename.endswith("__main__.py")
        # The qualified name of a class body is the class's own; it has no arguments and is not optimised.
        if not is_known and not code.co_flags & 0x2 and not code.co_name.startswith("<"):
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


def _graded(criteria: int) -> Counter[CodeType]:
    """What runs while one text is graded by so many criteria; how many commits the writer needs is chance."""
    rubric = Rubric([Criterion(name=f"c{n}", requirement=f"Names cause {n}.") for n in range(criteria)])
    with tempfile.TemporaryDirectory() as folder, Passed(threads=False) as passed:
        asyncio.run(grade_async(["The tide rises."], rubric=rubric, judge="builtin/offline", out=folder))
    return passed.codes


def _case(name: str, folder: Path) -> Counter[CodeType]:
    if name == "grade":
        _graded(1)  # imports, templates and connections are made once
        return _graded(4) - _graded(3)
    if name == "agree":
        _command("grade", str(_submissions(folder)), "--judge", "builtin/offline", "-o", str(folder / "run"))()
        command = _command("agree", str(folder / "run"))
    else:
        (folder / "queries.jsonl").write_text('{"id": "1", "query": "Why does ice float?"}\n')
        queries, out = str(folder / "queries.jsonl"), str(folder / "rubrics")
        command = _command("synthesize", queries, "--models", "builtin/offline", "--out", out)
    with Passed() as passed:
        command()
    return passed.codes


def measure(name: str, listed: bool = False) -> str:
    """One line for a case; with `listed`, also the functions."""
    with tempfile.TemporaryDirectory() as folder:
        codes = _case(name, Path(folder))
    files, (most, most_files) = {code.co_filename for code in codes}, CASES[name]
    limit = f"at most {most}" + (f" in {most_files}" if most_files else "")
    lines = [f"{name:<10} {len(codes):>4} functions in {len(files):>3} files ({limit})"]
    if listed:
        found = sorted((code.co_filename.removeprefix(SOURCE), code.co_qualname) for code in codes)
        lines += [f"  {file.lstrip('/')}: {function}" for file, function in found]
    return "\n".join(lines)


def run() -> Record:
    """The functions and files of each case; a count, which is the same on every machine and needs no floor."""
    record, rows = Record("functions of the package that run; a count, so without a floor"), []
    for name, (most, most_files) in CASES.items():
        command = [sys.executable, "-m", "benchmarks.functions_passed", name]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            raise SystemExit(f"{name} failed: {found.stderr.strip().splitlines()[-1:]}")
        _, functions, _, _, files, *_ = found.stdout.strip().splitlines()[-1].split()
        rows.append([name, functions, most, files, most_files or "–"])
        record.limit(f"{name}: functions, goal", int(functions), most=most, known=name in _ABOVE_THEIR_GOALS)
        record.limit(f"{name}: functions, guard", int(functions), most=GUARD[name])
        if most_files:
            record.limit(f"{name}: files, goal", int(files), most=most_files)
    record.table("passed", ["case", "functions", "goal", "files", "goal"], rows)
    return record


if __name__ == "__main__":
    if sys.argv[1:]:
        print(measure(sys.argv[1], "--list" in sys.argv))
    else:
        run()
