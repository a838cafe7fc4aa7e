"""Folders from somebody else, whose files and folders are links to those of the user."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from autorubric import Criterion, Rubric, grade
from autorubric.errors import InputError
from autorubric.labels.label_store import label_store
from autorubric.view.sources import make_index_folder
from tests.offenders import offenders


def test_no_command_writes_through_a_link_out_of_a_run(tmp_path: Path) -> None:
    def run(out: Path) -> None:
        grade(
            ["The moon."], rubric=Rubric([Criterion(requirement="Names the moon.")]), judge="builtin/offline", out=out
        )

    run(tmp_path / "whole")
    outside = tmp_path / "outside"
    with offenders() as case:
        for name in ("manifest.json", "items.jsonl", "spent.json", "ledger", "ledger/ledger.sqlite", "labels"):
            with case(name):
                shutil.rmtree(outside, ignore_errors=True)
                outside.mkdir()
                out = shutil.copytree(tmp_path / "whole", tmp_path / name.replace("/", "-"))
                link = out / name
                if link.is_dir():
                    link.rename(outside / "target")
                elif link.exists():
                    shutil.move(link, outside / "target")
                else:
                    (outside / "target").mkdir()
                link.symlink_to(outside / "target")
                before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
                with pytest.raises(InputError, match="by a symbolic link"):
                    if name == "labels":
                        with label_store(out):
                            pass
                    else:
                        run(out)
                assert before == {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}


def test_the_index_of_a_run_whose_index_is_a_link_is_in_a_temporary_folder(tmp_path: Path) -> None:
    outside = tmp_path / "project"
    for place in (".view", ".view/.gitignore"):
        shutil.rmtree(outside, ignore_errors=True)
        outside.mkdir()
        (outside / ".gitignore").write_text("*.pyc\n")
        run = tmp_path / f"run{len(place)}"
        (run / place).parent.mkdir(parents=True)
        (run / place).symlink_to(outside / ".gitignore" if place.endswith("ignore") else outside)
        with ExitStack() as stack:
            assert make_index_folder(run, stack, in_run=True).parent != run
        assert [(path.name, path.read_text()) for path in outside.iterdir()] == [(".gitignore", "*.pyc\n")]


def test_a_folder_of_submissions_with_a_link_to_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("secret")
    folder = tmp_path / "submissions"
    folder.mkdir()
    (folder / "a.txt").write_text("The moon.")
    (folder / "b.txt").symlink_to("a.txt")
    blob = tmp_path / "blobs" / "0123456789abcdef0123456789abcdef01234567"  # nobody can guess the name
    blob.parent.mkdir()
    blob.write_text("The sun.")
    (folder / "hub.txt").symlink_to(f"../blobs/{blob.name}")
    rubric = Rubric([Criterion(requirement="Names the moon.")])
    assert len(grade(folder, rubric=rubric, judge="builtin/offline", out=tmp_path / "run").item_results) == 3
    (folder / "c.txt").symlink_to("../private.txt")
    with pytest.raises(InputError, match=r"c\.txt is outside .* by a symbolic link; put a copy in its place"):
        grade(folder, rubric=rubric, judge="builtin/offline", out=tmp_path / "other")
