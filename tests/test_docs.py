"""Every command and every example of the README and the guides runs."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mypy import api

from autorubric.cli.app import run
from benchmarks.batch_services.endpoint import BatchEndpoint
from tests.processes import free_port, write_command_with_packages
from tests.remote.s3 import serving
from tests.warm_commands import warm_folder

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_UV = "uv pip install -q --offline --no-cache --no-deps --no-build-isolation"
_INSTALL = f"{_UV} --python {shlex.quote(sys.executable)} --target site "
"""A package of the examples goes into a directory of the test."""
_BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(path: Path, written: str = "bash") -> list[tuple[str, str | None]]:
    """The blocks of a guide in a language, each with the block of output that comes next, before any other block."""
    parts = re.split(r"^```(\w*)[^\n]*\n(.*?)^```$", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    fenced = list(zip(parts[1::3], parts[2::3], strict=True))
    following = [*fenced[1:], ("", "")][: len(fenced)]
    return [
        (script, text if kind in ("text", "json") else None)
        for (language, script), (kind, text) in zip(fenced, following, strict=True)
        if language == written
    ]


def assert_shown(expected: str, printed: str) -> None:
    """Check that the output contains a block of a guide; '...' and '…' match anything."""
    parts = re.split(r"\.\.\.|…", " ".join(expected.split()))
    pattern = r".*?".join(re.escape(part.strip()) for part in parts)
    assert re.search(pattern, " ".join(printed.split())), (
        f"the guide shows\n{expected}\nthe command printed\n{printed}"
    )


def blocks(path: Path, language: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(path.read_text(encoding="utf-8")) if found == language]


def guides_with(language: str) -> list[object]:
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in GUIDES if blocks(path, language)]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, and an endpoint for the providers in the documentation."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copy(ROOT / "run_data_synthesis.sh", tmp_path)
    settings = tmp_path / "examples" / "grade.yaml"
    settings.write_text(settings.read_text("utf-8").replace("budget_usd: 5", "budget_tokens: 1000000"), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", guides_with("python"))
def test_the_python_examples_of_a_guide_run_in_order(
    path: Path, workshop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {"__name__": "guide"}
    for block, shown in commands(path, "python"):
        if block.lstrip().startswith(">>>"):
            example = doctest.DocTestParser().get_doctest(block, names, path.name, path.name, 0)
            result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
                example, clear_globs=False
            )
            names.update(example.globs)
            assert result.failed == 0, block
        else:
            capsys.readouterr()
            exec(compile(block, path.name, "exec"), names)
            if shown is not None:
                assert_shown(shown, capsys.readouterr().out)


def test_the_first_examples_pass_a_strict_type_check(tmp_path: Path) -> None:
    """The project's settings of mypy are used, so that it finds the modules that `make lint` has checked."""
    written = []
    for path in (ROOT / "README.md", ROOT / "docs" / "quickstart.md"):
        found = "".join(
            doctest.script_from_examples(block) if block.startswith(">>>") else block
            for block in blocks(path, "python")
        )
        written.append(tmp_path / f"{path.stem.lower()}_examples.py")
        written[-1].write_text(found, "utf-8")
    printed, errors, status = api.run(["--config-file", str(ROOT / "pyproject.toml"), *map(str, written)])
    assert status == 0, printed + errors


@contextmanager
def storage(guide: Path) -> Iterator[dict[str, str]]:
    """The environment of an S3 server with the examples in `my-bucket`, for a guide that names an S3 address."""
    if "s3://my-bucket" not in "".join(script for script, _ in commands(guide)):
        yield {}
        return
    with serving() as (_, environment), pytest.MonkeyPatch.context() as patch:
        from botocore.session import Session

        for name, value in environment.items():
            patch.setenv(name, value)
        client = Session().create_client("s3")
        client.create_bucket(Bucket="my-bucket")
        for example in (ROOT / "examples").glob("*.*"):
            client.put_object(Bucket="my-bucket", Key=example.name, Body=example.read_bytes())
        client.close()
        yield environment


@pytest.mark.parametrize("path", guides_with("bash"))
def test_the_commands_of_a_guide_run_in_order(path: Path, workshop: Path) -> None:
    commands_in = warm_folder()
    if "pip install ./" in path.read_text("utf-8"):
        commands_in = workshop / "bin"
        write_command_with_packages(workshop / "site", commands_in)
    if "30 of 30" not in path.read_text("utf-8") and "30 queries" not in path.read_text("utf-8"):
        queries = workshop / "examples" / "queries.jsonl"
        queries.write_text("".join(queries.read_text("utf-8").splitlines(keepends=True)[:8]), "utf-8")
    with BatchEndpoint().in_thread() as endpoint, storage(path) as in_cloud:
        environment = {
            **os.environ,
            **in_cloud,
            "PATH": os.pathsep.join([str(commands_in), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(workshop / "site")]),
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_KEY": "key-of-the-guides",
            "VLLM_BASE_URL": endpoint.base_url,
        }
        ports = {port: str(free_port()) for port in re.findall(r"--port (\d+)", path.read_text("utf-8"))}
        for block, shown in commands(path):
            # What make builds is what these tests run in; here it is enough that the target is there.
            script = re.sub(r"^make ", f"make -n -C {shlex.quote(str(ROOT))} ", block, flags=re.MULTILINE)
            # The endpoint of the tests has no prices, so a budget in dollars would be refused.
            script = re.sub(r"--budget-usd \S+", "--budget-tokens 1000000", script)
            script = re.sub(r"\b\d+\b", lambda number: ports.get(number[0], number[0]), script)
            script = re.sub(r"^pip install (?=\./)", _INSTALL, script, flags=re.MULTILINE)
            if shown is None:  # the guide shows no interval that fewer draws would change
                script = re.sub(r"(agree \S+ --simulate)$", r"\1 --replicates 100", script, flags=re.MULTILINE)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                capture_output=True,
                text=True,
                env=environment,
                cwd=workshop,
                check=False,
                timeout=600,
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            if shown is not None:
                assert_shown(shown, done.stdout)


def test_the_guide_shows_the_agreement_of_the_essays(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    essays = ROOT / "tests" / "data" / "essay_grading_dataset.json"
    assert run(["grade", str(essays), "--judge", "builtin/offline", "--out", "run"]) == 0
    capsys.readouterr()
    assert run(["agree", "run"]) == 0
    _, _, rest = (ROOT / "docs" / "agreement.md").read_text("utf-8").partition("## Reading the output")
    assert_shown(rest.split("```text\n")[1].partition("```")[0], capsys.readouterr().out)


def test_every_block_of_commands_is_found() -> None:
    assert [path for path in GUIDES if [one for one, _ in commands(path)] != blocks(path, "bash")] == []


def test_output_that_differs_from_the_guide_is_found() -> None:
    assert_shown("done  3 of ...\nspent … calls", "run\n done 3 of 30 rows\n spent 210 calls, $0.00")
    with pytest.raises(AssertionError, match="the guide shows"):
        assert_shown("done  4 of ... rows", "done 3 of 30 rows")


def test_the_guide_shows_the_code_of_the_example_package() -> None:
    guide = ROOT / "docs" / "howto" / "extend.md"
    package = ROOT / "examples" / "extension"
    shown = [block for block in blocks(guide, "python") if "difficulty" not in block]
    module = (package / "acme_rubrics.py").read_text("utf-8")
    statements = [part for block in shown for part in block.strip().split("\n\n\n")]
    lines = [line for part in statements for line in part.splitlines() if not line.startswith(("import ", "from "))]
    assert len(shown) == 6
    assert [line for line in lines if line not in module.splitlines()] == []
    settings = re.findall(r"^```toml\n(.*?)^```$", guide.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    metadata = (package / "pyproject.toml").read_text("utf-8")
    assert len(settings) == 6
    assert [text for text in settings if text.strip() not in metadata] == []
