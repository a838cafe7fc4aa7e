"""`run_data_synthesis.sh`: the command that it makes of its variables, and what this command does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.in_process import Finished, NearEndpoint, finish
from tests.cli.test_synthesize_process import lines, queries
from tests.offenders import offenders
from tests.processes import environment
from tests.warm_commands import forked_python

ROOT = Path(__file__).parents[2]
NAME = "run_data_synthesis.sh"
ROLES = ("REFERENCE_MODEL", "RESPONSE_MODEL_A", "RESPONSE_MODEL_B", "RUBRIC_MODEL_A", "MERGE_MODEL", "AUGMENT_MODEL")
RECORDED = '#!/bin/sh\nprintf "%s\\0" "$@" > "$(dirname "$0")/words"\n'


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The script in a folder without an environment, where `python3` records its arguments."""
    folder = tmp_path / "copied"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    shutil.copy(ROOT / NAME, folder)
    (folder / "python3").write_text(RECORDED)
    (folder / "python3").chmod(0o755)
    return folder


def script(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder / NAME)],
        capture_output=True,
        text=True,
        env=environment(PATH=f"{folder}:/usr/bin:/bin", **settings),
        check=False,
        timeout=600,
    )


def words(folder: Path, out: Path, **settings: str) -> list[str]:
    """The arguments that the script gives to Python."""
    done = script(folder, OUTPUT_DIR=str(out), **settings)
    assert done.returncode == 0, done.stderr
    return (folder / "words").read_text().split("\0")[:-1]


def run_script(folder: Path, out: Path, **settings: str) -> Finished:
    """The end of the command that the script starts, run in this process."""
    return finish([sys.executable, *words(folder, out, **settings)])


def test_what_is_filled_in_stands_under_the_published_heading_at_the_top() -> None:
    """The public pipeline's README says: edit "1) Fill here" at the top of the script, then run it."""
    text = (ROOT / NAME).read_text()
    top = text[text.index("# 1) Fill here\n") : text.index("# 2) Run\n")]
    for name in (
        "INPUT_JSONL",
        "OUTPUT_DIR",
        "RUBRIC_MODEL_B",
        "RUBRIC_B_BASE_URL",
        "SAVE_EVERY",
        "MAX_CRITERIA",
        *ROLES,
    ):
        assert f"${{{name}:=" in top, name


def test_the_script_runs_with_nothing_filled_in_and_says_that_no_model_was_asked(
    copied: Path, tmp_path: Path
) -> None:
    done = run_script(copied, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("builtin/offline is a stand-in")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert set(manifest["models"].values()) == {"builtin/offline"}
    assert manifest["stand_ins"][0].startswith("builtin/offline is a stand-in")
    assert len(lines(tmp_path / "out" / "final.jsonl")) >= 25


def test_the_script_asks_for_models_where_the_input_is_the_users_own(copied: Path, tmp_path: Path) -> None:
    done = script(copied, INPUT_JSONL=str(queries(tmp_path, 2)))
    assert done.returncode == 2
    for name in ROLES:
        assert name in done.stderr
    assert not (copied / "words").exists()


def test_the_script_prints_a_line_that_resumes_it_and_no_key(copied: Path, tmp_path: Path) -> None:
    """Seven roles ask an endpoint that refuses every call; the printed line asks one that answers."""
    python = copied / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {forked_python()} "$@"\n')
    python.chmod(0o755)
    out = tmp_path / "out"
    settings = {"INPUT_JSONL": str(queries(tmp_path, 2)), "ID_COLUMN": "id", "REFERENCE_API_KEY": "sk-planted"}
    with NearEndpoint("--fault", "500=1.0") as broken:
        port = broken.base_url.split(":")[2].split("/")[0]
        settings |= dict.fromkeys(ROLES, "m") | {"RETRY": "0"}
        for part in ("REFERENCE", "RESPONSE_A", "RESPONSE_B", "RUBRIC_A", "MERGE", "AUGMENT"):
            settings[f"{part}_BASE_URL"] = broken.base_url
        done = script(copied, OUTPUT_DIR=str(out), **settings)
        assert done.returncode == 1, done.stderr
    again = done.stdout.split("with:\n")[1].strip().splitlines()[0]
    assert 'REFERENCE_API_KEY="$REFERENCE_API_KEY"' in again
    assert "sk-planted" not in done.stdout + done.stderr
    with NearEndpoint("--reply-chars", "600", "--port", port):
        known = environment(REFERENCE_API_KEY="sk-planted")
        ended = subprocess.run(["/bin/bash", "-c", again], env=known, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(lines(out / "final.jsonl")) == 2


def test_the_script_takes_one_model_and_one_address_for_all_roles(copied: Path, tmp_path: Path) -> None:
    settings = {"INPUT_JSONL": str(queries(tmp_path, 2)), "ID_COLUMN": "id", "MODEL": "m"}
    with NearEndpoint("--reply-chars", "600") as endpoint:
        done = run_script(copied, tmp_path / "out", **settings, BASE_URL=endpoint.base_url)
        assert done.returncode == 0, done.stderr
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        assert set(manifest["models"].values()) == {"m"} and len(manifest["models"]) == 7
        assert len(lines(tmp_path / "out" / "final.jsonl")) == 2
        again = run_script(copied, tmp_path / "out", **{**settings, "MODEL": f"m@{endpoint.base_url}"})
        assert again.returncode == 0, again.stderr
        assert endpoint.stats()["completed_calls"] == 2 * 7  # the same requests: nothing is asked again


def test_the_script_takes_every_variable_from_the_environment_and_no_key_into_argv(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(json.dumps({"key": i, "q": f"Query {i}?"}) + "\n" for i in range(8))
    (tmp_path / "in.jsonl").write_text(rows)
    settings = {"INPUT_JSONL": str(tmp_path / "in.jsonl"), "QUESTION_COLUMN": "q", "ID_COLUMN": "key"}
    settings |= {"CONCURRENCY": "4", "MAX_CRITERIA": "3", "RETRY": "1"}
    settings |= {"RUBRIC_MAX_TOKENS": "700", "TEMPERATURE": "0.1", "RESPONSE_TEMPERATURE": "0.9", "TIMEOUT": "30"}
    with NearEndpoint("--reply-chars", "600") as endpoint:
        for slot in ("REFERENCE", "RESPONSE_A", "RESPONSE_B", "RUBRIC_A", "MERGE", "AUGMENT"):
            part, _, letter = slot.partition("_")
            settings[f"{part}_MODEL" + (f"_{letter}" if letter else "")] = f"m-{slot.lower()}"
            settings |= {f"{slot}_BASE_URL": endpoint.base_url, f"{slot}_API_KEY": f"sk-planted-{slot.lower()}"}
            monkeypatch.setenv(f"{slot}_API_KEY", f"sk-planted-{slot.lower()}")
        done = run_script(copied, tmp_path / "out", **settings)
        assert done.returncode == 0, done.stderr
        # One rubric model: six slots less the merge, which it stands for.
        assert endpoint.stats()["completed_calls"] == 8 * 5
    arguments = (copied / "words").read_text()
    assert arguments.startswith("-m\0autorubric\0synthesize\0")
    final = lines(tmp_path / "out" / "final.jsonl")
    assert len(final) == 8
    assert all(len(row["rubrics"]) == 3 for row in final)  # type: ignore[arg-type]
    everything = [
        *(arguments, done.stdout, done.stderr),
        *(p.read_text(errors="replace") for p in (tmp_path / "out").glob("*.json*")),
    ]
    assert not any("sk-planted" in text for text in everything)


OFFLINE = dict.fromkeys(ROLES, "builtin/offline")
WRONG = [
    # An address or a key is filled in: whoever does that means a model of their own, not the offline one.
    ({"BASE_URL": "http://localhost:8000/v1"}, "no model; pass --models"),
    ({"RUBRIC_B_API_KEY": "sk-planted"}, "no model; pass --models"),
    ({**OFFLINE, "INPUT_JSONL": "nowhere.jsonl"}, "not found: nowhere.jsonl"),
    ({**OFFLINE, "MERGE_MODEL": "m", "MERGE_BASE_URL": "ftp://x/v1"}, "ftp://x/v1"),
]


def test_wrong_variables_end_with_status_2_and_a_message(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with offenders() as case:
        for settings, says in WRONG:
            with case(says), monkeypatch.context() as patch:
                for name in (name for name in settings if name.endswith("_API_KEY")):
                    patch.setenv(name, settings[name])
                done = run_script(copied, tmp_path / "out", **settings)
                assert done.returncode == 2, done.stderr
                assert says in done.stderr
                assert "Traceback" not in done.stderr
                assert not (tmp_path / "out" / "manifest.json").exists()
