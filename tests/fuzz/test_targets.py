"""The targets of `make fuzz`: they take their seeds, and stand what changes in JSON can do to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from autorubric.errors import AutorubricError, InputError
from autorubric.files import parse_json
from fuzz.__main__ import main
from fuzz.mutation import mutated
from fuzz.target import Target, of_bytes
from fuzz.targets import TARGETS
from tests.offenders import each

ROOT = Path(__file__).parents[2]
EXAMPLES = int(os.environ.get("AUTORUBRIC_EXAMPLES", "20"))


def changed(target: Target, random: Random) -> bytes:
    data = random.choice(target.seeds)
    for _ in range(random.randint(1, 4)):
        data = mutated(data, random.randrange(2**30)) or data
    return data


@each("name", TARGETS)
def test_a_target_reads_one_of_its_seeds_to_the_end(name: str) -> None:
    refusals = []
    for seed in TARGETS[name].seeds:
        try:
            TARGETS[name].read(seed)
        except AutorubricError as error:
            refusals.append(str(error))
    assert len(refusals) < len(TARGETS[name].seeds), refusals


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.filterwarnings("default")
def test_a_target_stands_changes_in_its_seeds(name: str) -> None:
    random = Random(name)
    for _ in range(EXAMPLES):
        data = changed(TARGETS[name], random)
        try:
            TARGETS[name].attempt(data)
        except Exception as error:
            raise AssertionError(f"{name} on {data[:2000]!r}") from error


def test_changes_find_a_reader_that_trusts_its_input() -> None:
    planted = of_bytes(lambda data: parse_json(data.decode())["a"]["weight"] + 1, ['{"a": {"weight": 1}}'])
    random = Random(3)
    found = set()
    for _ in range(200):
        try:
            planted.attempt(changed(planted, random))
        except Exception as error:
            found.add(type(error))
    assert {KeyError, TypeError} <= found


def test_a_refusal_without_words_is_a_finding() -> None:
    def refuse(data: bytes) -> None:
        raise InputError(" ")

    with pytest.raises(AssertionError, match="InputError without a message"):
        Target(refuse, ()).attempt(b"")


def test_a_change_leaves_json_whole_and_what_stands_around_it() -> None:
    reply = b'Here it is:\n```json\n{"criteria": [{"title": "Dose", "weight": 9}]}\n```\nDone.'
    for seed in range(100):
        text = (mutated(reply, seed) or b"").decode("utf-8", "surrogatepass")
        assert text.startswith("Here it is:\n```json\n") and text.endswith("\n```\nDone.")
        json.loads(text[20:-10])


def test_a_value_too_deep_to_copy_is_left_to_other_changes() -> None:
    depth = sys.getrecursionlimit() * 9 // 10  # parsed, but not copied
    deep = b"[" * depth + b"]" * depth
    assert None in [mutated(deep, seed) for seed in range(100)]


def fuzz(*names: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "AUTORUBRIC_FUZZ_SECONDS": "2"}
    command = [sys.executable, "-m", "fuzz", *names]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_target_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reply-jsn"]) == 2
    assert "no target reply-jsn; there are: reply-json," in capsys.readouterr().err


@pytest.mark.skipif(find_spec("atheris") is not None, reason="atheris is installed")
def test_without_atheris_the_command_says_that_it_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (main([]), list(tmp_path.iterdir())) == (0, [])
    assert "did NOT run: atheris is not installed" in capsys.readouterr().out


PLANTED = """
import json, sys
from pathlib import Path
import atheris
from fuzz import hunt, targets
from fuzz.target import of_bytes

@atheris.instrument_func
def read(data):
    try:
        value = json.loads(data)
    except ValueError:
        return
    if value == {"a": None}:
        raise ZeroDivisionError("planted")

targets.TARGETS["planted"] = of_bytes(read, ['{"a": [1, 2]}'])
hunt.hunt("planted", 60, Path(sys.argv[1]))
"""


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed (extra 'fuzz')")
def test_a_hunt_finds_a_planted_fault_and_keeps_the_input(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-W", "ignore", "-c", PLANTED, str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    assert ended.returncode != 0
    assert "ZeroDivisionError: planted" in ended.stdout + ended.stderr
    (kept,) = tmp_path.glob("crash-*")
    assert json.loads(kept.read_bytes()) == {"a": None}


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed (extra 'fuzz')")
def test_a_bounded_run_prints_its_figures(tmp_path: Path) -> None:
    ended = fuzz("settings", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    name, runs, edges, finding = ended.stdout.splitlines()[-1].split()
    assert (name, finding) == ("settings", "none")
    assert int(runs.replace(",", "")) > 0 and int(edges) > 0
