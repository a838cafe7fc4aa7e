"""The package as users get it: built, installed into a clean environment, imported."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
MOST_PACKAGES = 30
"""The packages that a base install brings."""

_LOOK = """
import autorubric, sys
from autorubric.prompts import package_prompts
from autorubric.llm.http.prices import load_prices
from autorubric.cli.app import run
print(autorubric.__version__, autorubric.__file__)
print(sorted(package_prompts().fingerprints()), len(load_prices()) > 0)
status = run(["synthesize", sys.argv[1], "--out", sys.argv[2], "--models", "builtin/offline"])
print("status", status)
print("misspelt", run(["grade", sys.argv[1], "--judge", "builtin/offline", "--aggregation", "majorty"]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in (source / "autorubric").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted


# Of files that match several rows, the first one counts. docs/design/view.md has the sizes.
SIZES: dict[str, tuple[int, tuple[str, ...]]] = {
    "report": (19_500, ("view/report", "view/templates/report", "view/static/report", "cli/report")),
    "pages for labelling": (
        11_000,
        ("view/label", "view/pages/labels", "view/templates/label", "view/templates/adjudicate"),
    ),
    "pages of agreement": (
        9_700,
        ("view/pages/agreement", "view/pages/comparison", "view/templates/agreement", "view/templates/comparison"),
    ),
    "view": (80_000, ("view/", "cli/view")),
    "labels": (55_000, ("labels/", "cli/labels", "jobs/labels", "jobs/label_next")),
    "charts": (14_000, ("charts/",)),
}


def test_the_view_the_labels_and_the_charts_add_to_the_wheel_what_the_guide_says(wheel: Path) -> None:
    found = dict.fromkeys(SIZES, 0)
    for entry in zipfile.ZipFile(wheel).infolist():
        name = entry.filename.removeprefix("autorubric/")
        part = next((part for part, (_, starts) in SIZES.items() if name.startswith(starts)), None)
        if part is not None:
            # Two headers of 30 and 46 bytes, each with the name.
            found[part] += entry.compress_size + 76 + 2 * len(entry.filename)
    assert all(found.values())
    assert {part: size for part, size in found.items() if size > SIZES[part][0]} == {}


def needed(requirements: list[str]) -> set[str]:
    """The packages that these requirements bring, each of a version that whoever needs it takes."""
    found: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            package = distribution(requirement.name)
            assert requirement.specifier.contains(package.version, prereleases=True), requirement
            assert not requirement.extras, requirement
            found |= {package.name, *needed(package.requires or [])}
    return found


def test_the_wheel_runs_the_main_job_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = str(home / "bin" / "python")
    uv = [sys.executable, "-m", "uv", "--quiet"]  # the environments of .ci/pythons have no pip
    subprocess.run([*uv, "pip", "install", "--python", python, "--no-deps", str(wheel)], check=True)
    (packages,) = home.glob("lib/*/site-packages")
    (installed,) = distributions(path=[str(packages)])
    # All that the wheel asks for, and nothing else. The files are here already: to unpack them would take 10 s.
    brought = needed(installed.requires or [])
    for name in brought:
        for top in {file.parts[0] for file in distribution(name).files or []} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    done = subprocess.run(
        [python, "-I", "-c", _LOOK, str(ROOT / "examples" / "queries.jsonl"), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(home) in done.stdout.splitlines()[0]
    assert "['augment', 'merge', 'merge_sets', 'pitfalls', 'reask', 'reference', 'rubric'] True" in done.stdout
    assert "status 0" in done.stdout
    assert "misspelt 2" in done.stdout and "did you mean 'majority'?" in done.stderr
    assert installed.name == "autorubric-hub"
    assert len(brought) <= MOST_PACKAGES, brought
