"""A file that cannot be written once replies were paid for: they are kept, and it is no wrong input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from tests.faults.commands import COMMANDS, Command
from tests.faults.scene import Scene
from tests.offenders import offenders

LAST = {
    "synthesize": "final.jsonl",
    "grade": "manifest.json",
    "select": "selected.jsonl",
    "select --sample": "selected.jsonl",
    "review": "review.json",
    "improve": "rubric.json",
}


def end_in_the_way(scene: Scene, command: Command, folder: Path, *flags: str) -> Path:
    """Run the command in a new directory in which something takes the place of a file while the model is called."""
    taken = folder / "out" / LAST[command.name]

    def take(body: dict[str, Any]) -> None:
        if not taken.is_dir():
            taken.unlink(missing_ok=True)
            taken.mkdir(parents=True)

    scene.meets = take
    assert run(command.words(folder, flags or ["-j", "1"])) == 1
    return taken


def test_what_was_paid_for_outlives_a_file_that_cannot_be_written(scene: Scene) -> None:
    with offenders() as case:
        for number, command in enumerate(COMMANDS):
            with case(command.name):
                folder = scene.folder / str(number)
                folder.mkdir()
                before = scene.endpoint.counts.requests
                taken = end_in_the_way(scene, command, folder)
                told = scene.read().err
                assert f"{taken}: cannot be written: it is a folder; progress is saved; fix this and run" in told
                taken.rmdir()
                scene.meets = lambda body: None
                assert run(command.words(folder, [])) == 0
                assert scene.endpoint.counts.requests - before == command.calls


@pytest.mark.usefixtures("forked")
def test_what_several_processes_paid_for_outlives_it_too(scene: Scene) -> None:
    [command] = [command for command in COMMANDS if command.name == "grade"]
    end_in_the_way(scene, command, scene.folder, "--processes", "2").rmdir()
    scene.meets = lambda body: None
    assert run(command.words(scene.folder, ["--processes", "2"])) == 0
    assert scene.endpoint.counts.requests == command.calls


def test_a_refused_run_removes_its_own_directory_and_no_run_next_to_it(scene: Scene) -> None:
    [command] = [command for command in COMMANDS if command.name == "grade"]
    neighbour = scene.folder / "out" / "neighbour"

    def refuse(body: dict[str, Any]) -> str:
        neighbour.mkdir(parents=True)
        return "401"

    scene.meets = refuse
    words = command.words(scene.folder, [])
    assert run([*words, "-o", str(scene.folder / "out" / "deep" / "run")]) == 2
    assert [path.name for path in (scene.folder / "out").iterdir()] == ["neighbour"]
