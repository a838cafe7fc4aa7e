"""One target under atheris, in a process of its own, since libFuzzer ends its process: `python -m fuzz.hunt NAME`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

from fuzz.mutation import mutated

LONGEST_INPUT = 65_536
SLOWEST_SECONDS = 10
MOST_MEGABYTES = 3000


def _change(data: bytes, max_size: int, seed: int) -> bytes:
    """A change that leaves JSON whole, or every third time one of libFuzzer's own."""
    if seed % 3:
        changed = mutated(data, seed)
        if changed is not None and len(changed) <= max_size:
            return changed
    return bytes(atheris.Mutate(data, max_size))


def hunt(name: str, seconds: int, folder: Path) -> None:
    """Search until the time is over or something is found; the corpus and a finding stay in `folder`."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(folder)  # libFuzzer ends the process without clearing up
    with atheris.instrument_imports(include=["autorubric", "json_repair"]):
        from fuzz.targets import TARGETS

        target = TARGETS[name]
        for number, seed in enumerate(target.seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
            target.attempt(seed)  # what is imported on need is imported now, while imports are instrumented
    options = {
        "max_total_time": seconds,
        "max_len": LONGEST_INPUT,
        "keep_seed": 1,
        "reduce_inputs": 0,  # a smaller input that reaches the same code has less in it to change
        "timeout": SLOWEST_SECONDS,
        "rss_limit_mb": MOST_MEGABYTES,
        "artifact_prefix": f"{folder}/",
        "print_final_stats": 1,
    }
    arguments = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], target.attempt, custom_mutator=_change)
    atheris.Fuzz()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(prog="python -m fuzz.hunt")
    parser.add_argument("name")
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    hunt(given.name, given.seconds, given.folder)
