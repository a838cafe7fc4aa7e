"""The package in a real Jupyter kernel, where an event loop is running already."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient

from tests.warm_commands import warm_folder

ROOT = Path(__file__).parents[1]
README = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def text_of(outputs: list[Any]) -> str:
    return "".join(output.get("text", "") for output in outputs)


def readme() -> str:
    assert README is not None
    return README[1]


GRADED = """
from autorubric import Criterion, CriterionGrader, LLMConfig, Rubric, RubricDataset, evaluate, evaluate_sync
from autorubric.eval import fill_ground_truth_sync
dataset = RubricDataset("Why?", Rubric([Criterion(name="<b>Short</b>", requirement="Contains at most 5 words.")]))
for number in range(3):
    dataset.add_item(f"So {number}.", f"<i>{number}</i>")
grader = CriterionGrader(judge_model_config=LLMConfig("builtin/offline"))
"""
SYNCHRONOUS = """
result = evaluate_sync(dataset, grader, experiments_dir='two', show_progress=True)
report = dataset.rubric.grade_sync('So.', grader)
filled = fill_ground_truth_sync(dataset, grader, show_progress=False)
"""
SLOW = """
import os, signal, threading
from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint
dataset.to_file("d.json")
with LoopbackEndpoint(latency="fixed:2").in_thread() as endpoint:
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    status = run(["grade", "d.json", "--judge", f"m@{endpoint.base_url}", "-o", "slow"])
print("status", status)
"""


class Notebook(NamedTuple):
    """What one kernel has run in a folder, one cell after the other: the outputs of each."""

    folder: Path
    readme: list[Any]
    awaited: list[Any]
    synchronous: list[Any]
    shown: list[Any]
    slow: list[Any]
    after: list[Any]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    folder = tmp_path_factory.mktemp("notebook")
    cells = [
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})",
        readme(),
        GRADED + "result = await evaluate(dataset, grader, experiments_dir='one')",
        SYNCHRONOUS,
        "result",
        SLOW,
        "print(evaluate_sync(dataset, grader).get_scores())",
    ]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))  # a home may be read-only
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(made, timeout=300, kernel_name="python3", resources=resources).execute()
    return Notebook(folder, *(cell.outputs for cell in made.cells[1:]))


def test_the_example_of_the_readme_runs_as_a_script(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(readme())
    script = "import runpy; runpy.run_path('example.py', run_name='__main__')"
    done = subprocess.run(
        [str(warm_folder() / "forked-python"), "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 items graded" in done.stdout


def test_the_example_of_the_readme_runs_in_a_notebook(notebook: Notebook) -> None:
    assert "2 of 2 items graded" in text_of(notebook.readme)
    assert (notebook.folder / "ice" / "items.jsonl").exists()


def test_functions_of_both_kinds_work_in_a_notebook_and_show_their_progress(notebook: Notebook) -> None:
    for outputs in (notebook.awaited, notebook.synchronous):
        # One output, which was updated in place; nothing on standard error.
        [output] = outputs
        assert output["output_type"] == "display_data"
        assert output["data"]["text/plain"].startswith("3/3 done; graded 3; this session: 3 calls ")
    [value] = notebook.shown
    assert value["data"]["text/plain"].startswith("<EvalResult")
    assert "&lt;i&gt;2&lt;/i&gt;" in value["data"]["text/html"]
    assert "<i>" not in value["data"]["text/html"]


def test_an_interrupted_cell_ends_and_the_kernel_goes_on(notebook: Notebook) -> None:
    assert "status 130" in text_of(notebook.slow)
    assert "[1.0, 1.0, 1.0]" in text_of(notebook.after)
