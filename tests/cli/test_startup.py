"""What a command loads before it can begin: what others need is left where it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOADED = """
import os, sys
import autorubric
autorubric.Criterion
print("LOADED", *sys.modules, flush=True)
from autorubric.cli.app import load_command, run
if not os.fork():
    status = run(["grade", "tides.json", "--judge", "builtin/offline", "--out", "graded"])
    print("LOADED", *sys.modules, flush=True)
    for name in ("status", "select", "serve", "merge", "view"):
        load_command(name)
    print("LOADED", *sys.modules, flush=True)
    os._exit(status)
if os.wait()[1]:
    sys.exit("grade failed")
for words in (sys.argv[1:], ["convert", "--list"]):
    if status := run(words):
        sys.exit(status)
    print("LOADED", *sys.modules)
"""


def test_what_is_not_needed_is_not_loaded(tmp_path: Path) -> None:
    """Not by the import of the package, nor by a grade, a basic synthesis, or a command without help."""
    shutil.copy(ROOT / "examples" / "tides.json", tmp_path)
    (tmp_path / "queries.jsonl").write_text('{"question": "Why?"}\n')
    synthesize = ["synthesize", "queries.jsonl", "--models", "builtin/offline", "--out", "merge"]  # not the command
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", LOADED, *synthesize]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    loaded = (line.split() for line in done.stdout.splitlines() if line.startswith("LOADED"))
    package, graded, others, basic, plain = loaded
    assert "autorubric.core.criterion" in package
    needless = ("autorubric.view", "autorubric.labels", "autorubric.charts", "starlette", "uvicorn")
    assert [name for name in package if name.startswith(needless)] == []
    assert "autorubric.runs.runner" in graded
    elsewhere = {"autorubric.jobs.workers", "autorubric.cli.merge", "autorubric.llm.batches.batch_queue"}
    assert not elsewhere & {*graded, *basic}
    statistics = {"numpy", "autorubric.metrics.results", "autorubric.linting.rules.undecidable"}
    assert statistics.isdisjoint(graded)
    assert "autorubric.jobs.serve" in others
    assert not {"numpy", "autorubric.training.evolution.live", "autorubric.training.reward_drift"} & {*others}
    assert "autorubric.synthesis.final_files" in basic
    full = ("formats", "metrics", "runs.runner", "synthesis.gates", "synthesis.quality")
    assert [name for name in full if f"autorubric.{name}" in basic] == []
    assert "typer" in plain and "autorubric.formats" in plain
    assert not {*plain} & {"typer.rich_utils", "rich.markdown", "pygments"}
