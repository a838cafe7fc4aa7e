"""The package in a real Jupyter kernel, where an event loop is running already."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
README = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def executed(folder: Path, *cells: str) -> list[list[Any]]:
    """The outputs of each cell, run one after the other in one kernel."""
    setup = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (setup, *cells)])  # type: ignore[no-untyped-call]
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [cell.outputs for cell in notebook.cells[1:]]


def text_of(outputs: list[Any]) -> str:
    return "".join(output.get("text", "") for output in outputs)


def readme() -> str:
    assert README is not None
    return README[1]


def test_the_example_of_the_readme_runs_as_a_script(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(readme())
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 1 items graded" in done.stdout


def test_the_example_of_the_readme_runs_in_a_notebook(tmp_path: Path) -> None:
    [outputs] = executed(tmp_path, readme())
    assert "1 of 1 items graded" in text_of(outputs)
    assert (tmp_path / "graded" / "items.jsonl").exists()
