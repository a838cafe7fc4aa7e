"""A manifest with a value of the wrong kind: no internal error, and nothing is paid for again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from tests.offenders import offenders
from tests.stored_runs.stand import standing

STORED = Path(__file__).parents[1] / "stored_runs"
NESTED = ("grader_config", "eval_config")


def damaged(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The manifest with a number in the place of each value that is no text, by the name of that value."""
    whole = {name: {**manifest, name: -1} for name, value in manifest.items() if not isinstance(value, str)}
    parts = {
        f"{name}.{inner}": {**manifest, name: {**manifest[name], inner: -1}}
        for name in NESTED
        for inner in manifest.get(name, {})
    }
    return whole | parts


@pytest.mark.parametrize("kind", ["grade", "review", "synthesize_basic"])
def test_a_value_of_the_wrong_kind_in_a_manifest_costs_no_call(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / kind
    shutil.copytree(STORED / kind, folder)
    monkeypatch.chdir(folder)
    command = json.loads(Path("command.json").read_text(encoding="utf-8"))
    path = Path("run", "manifest.json")
    sound = path.read_text(encoding="utf-8")
    with standing() as stand, offenders() as case:
        for name, value in stand.environment.items():
            monkeypatch.setenv(name, value)
        for name, manifest in damaged(json.loads(sound)).items():
            with case(name):
                look = "agree" if name.startswith("grader_config") else "status"
                for words in ([look, "run"], command["arguments"]):
                    path.write_text(json.dumps(manifest), encoding="utf-8")
                    status = run(words)
                    told = capsys.readouterr().err
                    assert "internal error" not in told, (words[0], told)
                    assert status in {command["status"], 0, 2}, (words[0], told)
                assert stand.requests == []
