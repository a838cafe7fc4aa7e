"""Every command and every example of the README and the guides runs."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autorubric.testing import LoopbackEndpoint

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path, language: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(path.read_text(encoding="utf-8")) if found == language]


def guides_with(language: str) -> list[object]:
    return [pytest.param(path, id=path.name) for path in GUIDES if blocks(path, language)]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples in it, and an endpoint where the documentation names a provider."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copy(ROOT / "run_data_synthesis.sh", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", guides_with("python"))
def test_the_python_examples_of_a_guide_run_in_order(path: Path, workshop: Path) -> None:
    names: dict[str, object] = {"__name__": "guide"}
    for block in blocks(path, "python"):
        if block.lstrip().startswith(">>>"):
            example = doctest.DocTestParser().get_doctest(block, names, path.name, path.name, 0)
            result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
                example, clear_globs=False
            )
            names.update(example.globs)
            assert result.failed == 0, block
        else:
            exec(compile(block, path.name, "exec"), names)


@pytest.mark.parametrize("path", guides_with("bash"))
def test_the_commands_of_a_guide_run_in_order(path: Path, workshop: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_KEY": "key-of-the-guides",
            "VLLM_BASE_URL": endpoint.base_url,
        }
        for block in blocks(path, "bash"):
            # What make builds is what these tests run in; here it is enough that the target is there.
            script = re.sub(r"^make ", f"make -n -C {ROOT} ", block, flags=re.MULTILINE)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                capture_output=True,
                text=True,
                env=environment,
                cwd=workshop,
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
