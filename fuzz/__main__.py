"""`make fuzz`: every target in turn, or the ones named, each for AUTORUBRIC_FUZZ_SECONDS (20).

Ends with status 1 where something was found, and says so where atheris is not installed and nothing ran.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fuzz.targets import TARGETS

FOLDER = Path("fuzz-out")
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_PROGRESS = re.compile(r"#\d+\s")
_REACHED = re.compile(r"cov: (\d+)")


class Outcome(NamedTuple):
    """What a hunt came to.

    Attributes:
        runs: inputs that were read; None where the process ended without its figures.
        reached: edges of the code that were reached.
        found: the text of the process where it ended with a finding, else empty.
    """

    runs: int | None
    reached: int
    found: str


def hunted(name: str, seconds: int) -> Outcome:
    """The outcome of one target's hunt."""
    command = [sys.executable, "-m", "fuzz.hunt", name, "--seconds", str(seconds), "--folder", str(FOLDER / name)]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    told = ended.stdout + ended.stderr
    runs, reached = _RUNS.search(told), _REACHED.findall(told)
    telling = "\n".join(line for line in told.splitlines() if not _PROGRESS.match(line))
    found = "" if ended.returncode == 0 and runs else telling
    return Outcome(int(runs[1]) if runs else None, int(reached[-1]) if reached else 0, found)


def main(names: list[str]) -> int:
    """The exit status."""
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        print(f"no target {', '.join(unknown)}; there are: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    if find_spec("atheris") is None:
        print("The coverage-guided part did NOT run: atheris is not installed (pip install -e '.[fuzz]').")
        return 0
    seconds = int(os.environ.get("AUTORUBRIC_FUZZ_SECONDS", "20"))
    print(f"{seconds} s a target; inputs stay in {FOLDER}/", flush=True)
    print(f"{'target':<20}{'runs':>12}{'edges':>8}  finding", flush=True)
    findings = 0
    for name in names or TARGETS:
        outcome = hunted(name, seconds)
        runs = "?" if outcome.runs is None else f"{outcome.runs:,}"
        print(f"{name:<20}{runs:>12}{outcome.reached:>8}  {'FOUND' if outcome.found else 'none'}", flush=True)
        if outcome.found:
            findings += 1
            print(outcome.found[-4000:], file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
