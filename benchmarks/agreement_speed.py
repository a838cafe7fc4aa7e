"""Agreement of a run with its labels: CPU and memory of the command as runs grow, and the cost of a bootstrap.

Each figure of the command is that of a process of its own, start-up included; limits are those of the project:
100,000 pairs of item and criterion in 2 s of CPU and 200 MB, a million in 1 GB.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from autorubric import (
    Criterion,
    CriterionVerdict,
    DataItem,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    JudgeVote,
    Rubric,
    RubricDataset,
)
from autorubric.metrics import compare_judges, compute_metrics
from autorubric.runs.items_file import dump_report
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE, ExperimentManifest
from benchmarks.record import Record

_WORDS = (CriterionVerdict.MET, CriterionVerdict.UNMET)
_REASON = "The submission states this in its second paragraph, with a date, a place and a name for each of them. "


def graded(items: int, criteria: int, seed: int = 0) -> tuple[Any, RubricDataset]:
    """A run whose judge errs on one verdict in five, and its labels; equal entries are one object."""
    rng = np.random.default_rng(seed)
    rubric = Rubric([Criterion(name=f"C{n}", weight=n + 1, requirement=f"Has {n}") for n in range(criteria)])
    truth = np.random.default_rng(0).integers(0, 2, (items, criteria))
    said = np.where(rng.random((items, criteria)) < 0.2, 1 - truth, truth)
    entries = _entries(rubric)
    weights = np.arange(1, criteria + 1) / np.arange(1, criteria + 1).sum()
    scores = (1 - said) @ weights
    data = RubricDataset("Explain.", rubric)
    data.items = [
        DataItem(f"Text {n}. " + "It began in Britain. " * 20, "", [_WORDS[w] for w in row])
        for n, row in enumerate(truth)
    ]
    results = [
        SimpleNamespace(
            item_idx=n,
            item=data.items[n],
            error=None,
            report=EnsembleEvaluationReport.model_construct(
                score=float(scores[n]), report=[entries[c][w] for c, w in enumerate(row)], error=None, judge_scores={}
            ),
        )
        for n, row in enumerate(said)
    ]
    return SimpleNamespace(item_results=results), data


def _entries(rubric: Rubric) -> list[list[EnsembleCriterionReport]]:
    return [
        [
            EnsembleCriterionReport(
                criterion=criterion,
                final_verdict=word,
                final_reason=_REASON,
                votes=[JudgeVote(judge_id="default", verdict=word, reason=_REASON)],
            )
            for word in _WORDS
        ]
        for criterion in rubric
    ]


def write_run(directory: Path, items: int, criteria: int) -> None:
    """A run directory as `autorubric grade` writes it."""
    made, data = graded(items, criteria)
    data.to_file(directory / DATASET_FILE)
    parts = [
        [entry.model_dump_json(exclude_defaults=True) for entry in of] for of in _entries(data.rubric or Rubric([]))
    ]
    with (directory / ITEMS_FILE).open("w", encoding="utf-8") as file:
        for result in made.item_results:
            whole = dump_report(EnsembleEvaluationReport(score=result.report.score, judge_scores={}))
            said = ",".join(parts[c][_WORDS.index(e.final_verdict)] for c, e in enumerate(result.report.report))
            head = f'{{"item_idx":{result.item_idx},"duration_seconds":1.000000,"error":null'
            file.write(f'{head},"report":{whole[:-1]},"criterion_reports":[{said}]}}}}\n')
    now = datetime.now(UTC)
    settings = {"normalize": True, "cannot_assess": {"strategy": "skip"}}
    ExperimentManifest(
        directory.name, now, None, "0", items, "completed", set(range(items)), grader_config=settings
    ).save(directory)


_MEASURED = """
import os, sys, time
from autorubric.cli.app import run
status = run(sys.argv[1:])
print(time.process_time(), next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")),
      file=sys.stderr)
sys.exit(status)
"""


def resources(*command: str) -> tuple[float, float]:
    """CPU seconds and peak megabytes of a command in a separate process, start-up included."""
    done = subprocess.run([sys.executable, "-c", _MEASURED, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr}")
    seconds, kilobytes = done.stderr.split()[-2:]
    return float(seconds), int(kilobytes) / 1024


MOST_CPU, MOST_MEMORY = 12.0, 700.0
"""Guards for a million pairs: times `json.loads` of the run, and MB, of which a fifth is the interval of mean κ."""


def run() -> Record:
    """CPU and memory of `agree` as a run grows, against `json.loads` of its lines; and the resampling."""
    record, rows = Record("10 criteria; CPU with start-up; floor: json.loads of items.jsonl"), []
    for items in (1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "run"
            directory.mkdir()
            write_run(directory, items, 10)
            floor = _floor(directory / ITEMS_FILE)
            size = (directory / ITEMS_FILE).stat().st_size / 1e6
            cpu, memory = resources("agree", str(directory))
            rows.append([f"{items * 10:,}", f"{size:.0f}", f"{floor:.2f}", f"{cpu:.2f}", f"{memory:.0f}"])
        if items == 10_000:
            record.limit("agree: s of CPU of 100,000 pairs", cpu, most=2.0)
            record.limit("agree: MB of 100,000 pairs", memory, most=200.0)
    record.limit("agree: CPU of a million pairs, times the floor", cpu / floor, most=MOST_CPU)
    record.limit("agree: MB of a million pairs", memory, most=MOST_MEMORY)
    record.table("agree", ["pairs", "run, MB", "floor s of CPU", "s of CPU", "peak MB"], rows)
    made, data = graded(1_000, 5)
    started = time.perf_counter()
    compute_metrics(made, data, bootstrap=True, n_bootstrap=1_000, seed=1)
    record.figure("intervals", f"{time.perf_counter() - started:.2f} s")
    other, _ = graded(1_000, 5, seed=2)
    started = time.perf_counter()
    compare_judges(made, other, data, n_replicates=1_000, seed=1)
    record.figure("comparison", f"{time.perf_counter() - started:.2f} s")
    return record


def _floor(path: Path) -> float:
    started = time.process_time()
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            json.loads(line)
    return time.process_time() - started


if __name__ == "__main__":
    if sys.argv[1:]:
        Path(sys.argv[1]).mkdir(parents=True)
        write_run(Path(sys.argv[1]), int(sys.argv[2]), 10)
    else:
        run()
