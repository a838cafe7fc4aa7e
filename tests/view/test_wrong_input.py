"""Runs that are gone, broken, huge or odd; other processes; full disks."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from autorubric.cli.app import run
from autorubric.view.index.schema import FILE_NAME
from tests.offenders import offenders
from tests.processes import wait_until
from tests.view.viewing import RUBRIC, STORED, item, judged, line, viewing, write_run

CAUSE, BRIEF = RUBRIC


def small(folder: Path, **head: object) -> Path:
    lines = [line(n, 0.5, [judged(CAUSE, "MET"), judged(BRIEF, "UNMET")]) for n in range(3)]
    return write_run(folder, [item(n) for n in range(3)], lines, **head)


def test_directories_without_a_run_are_all_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert run(["view", *(str(tmp_path / name) for name in ("empty", "file", "nowhere")), "--port", "0"]) == 2
    told = capsys.readouterr().err
    assert all(
        name in told
        for name in ("empty is not a run directory", "file is not a run directory", "nowhere does not exist")
    )


def test_a_folder_of_runs_stands_for_the_runs_in_it(tmp_path: Path) -> None:
    first, *_ = (small(tmp_path / "all" / name) for name in ("one-2", "one-10", "٢"))
    (tmp_path / "all" / "empty").mkdir()
    with viewing(tmp_path / "all", first) as viewer:
        found = viewer.indexed(0, 1, 2).data("/")["runs"]
        assert [row["name"] for row in found] == ["one-2", "one-10", "٢"]


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with viewing(small(tmp_path / "run")) as viewer:
        port = viewer.url.rpartition(":")[2]
        assert run(["view", str(tmp_path / "run"), "--port", port]) == 2
        assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_run_that_is_deleted_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    one, two = small(tmp_path / "one"), small(tmp_path / "two")
    with viewing(one, two) as viewer:
        viewer.indexed(0, 1)
        shutil.rmtree(one)
        for path in ("/r/0/", "/r/0/items", "/r/0/items/1", "/r/0/agreement", "/r/0/live"):
            assert viewer.page(path).status == 410
        assert viewer.page("/").status == viewer.page("/r/1/").status == 200
        assert "(deleted)" in viewer.page("/").text


def test_an_index_that_is_deleted_is_made_anew(tmp_path: Path) -> None:
    folder = small(tmp_path / "run")
    with viewing(folder) as viewer:
        viewer.indexed()
        shutil.rmtree(folder / ".view")
        wait_until((folder / ".view" / FILE_NAME).exists, "no index is made")
        assert viewer.indexed().data("/r/0/items")["count"] == 3


def test_torn_and_damaged_lines_are_named_and_the_list_goes_on(tmp_path: Path) -> None:
    good = [line(n, 0.5, [judged(CAUSE, "MET")]) for n in range(4)]
    torn = good[3][:80]
    folder = write_run(tmp_path / "run", [item(n) for n in range(4)], [good[0], good[1][:70] + "}", good[2]])
    with (folder / "items.jsonl").open("a") as file:
        file.write(torn)
    with viewing(folder) as viewer:
        data = viewer.indexed().data("/r/0/items")
        assert [row["item"] for row in data["items"]] == [0, 2]
        assert data["damaged"] == [{"line": 2, "item": 1}]
        page = viewer.page("/r/0/items/1")
        assert page.status == 200 and "Line 2 of items.jsonl is damaged" in page.text
        assert viewer.page("/r/0/items/3").status == 404


def test_a_line_that_names_no_item_is_named_where_an_item_is_missing(tmp_path: Path) -> None:
    good = [line(n, 0.5, [judged(CAUSE, "MET")]) for n in range(3)]
    folder = write_run(tmp_path / "run", [item(n) for n in range(3)], [good[0], "[]", good[2]])
    with viewing(folder) as viewer:
        found = viewer.indexed().page("/r/0/items/1")
        assert found.status == 404 and "its line in items.jsonl is damaged (line 2)" in found.text


def test_a_run_that_died_is_not_running(tmp_path: Path) -> None:
    folder = small(tmp_path / "run")
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"completed"', '"running"'))
    with viewing(folder) as viewer:
        viewer.indexed()
        assert viewer.data("/")["runs"][0]["status"] == viewer.data("/r/0/")["status"] == "died"
        live = viewer.data("/r/0/live")
        assert (live["status"], live["running"]) == ("died", False)
        assert "This run is not complete (status: died)" in viewer.page("/r/0/label").text
        assert "To resume the run, run the same command again" in viewer.page("/r/0/").text


def test_a_ledger_of_another_version_costs_only_what_needs_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(STORED / "grade" / "run", folder)
    with sqlite3.connect(folder / "ledger" / "ledger.sqlite") as connection:
        connection.execute("UPDATE meta SET value = 999 WHERE name = 'version'")
        assert connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone() == (999,)
    connection.close()
    with viewing(folder) as viewer:
        viewer.indexed()
        summary = viewer.data("/r/0/")
        assert summary["scores"]["items"] == 7
        assert "the ledger cannot be read" in summary["costs"]["problem"]
        calls = viewer.data("/r/0/items/0/calls")
        assert calls["prompt"]["messages"] and "the ledger cannot be read" in calls["problem"]


def test_odd_sizes_and_texts_are_shown(tmp_path: Path) -> None:
    many = [{"name": f"K{n}", "weight": 1.0, "requirement": f"Requirement {n}."} for n in range(10_000)]
    lone = line(0, 0.5, [judged(CAUSE, "MET", reason="half \ud800 character, NUL \x00, \u05e9\u05dc\u05d5\u05dd")])
    runs = {
        "criteria": write_run(
            tmp_path / "criteria", [item(0)], [line(0, 0.5, [judged(c, "MET") for c in many])], rubric=many
        ),
        "empty": write_run(tmp_path / "empty", [], []),
        "word": write_run(
            tmp_path / "word",
            [item(0, submission="x" * 300_000)],
            [line(0, 1.0, [judged({**CAUSE, "requirement": "z " * 3500}, "MET", reason="y" * 300_000)])],
        ),
        "lone": write_run(
            tmp_path / "lone",
            [item(0, submission="\u202b\u05e9\u05dc\u05d5\u05dd \x00 \u200b", id="\u202eid")],
            [lone],
        ),
    }
    with viewing(*runs.values()) as viewer, offenders() as case:
        viewer.indexed(0, 2, 3)
        for number, name in enumerate(runs):
            for page in ("", "items", "criteria", "agreement", "live", "label", "items/0", "items/0/calls"):
                if name == "empty" and page.startswith("items/"):
                    continue
                with case(f"{name}: {page}"):
                    found = viewer.page(f"/r/{number}/{page}")
                    assert found.status == 200, found.text[-300:]
                    assert len(found.text.encode()) <= 100_000
                    assert not any(char in found.text for char in "\x00\u202b\u202e\u200b\ud800")
                    assert viewer.page(f"/r/{number}/{page}?format=json").json["title"]
        with case("the last of 10,000 criteria"):
            assert viewer.data("/r/0/items/0?criteria=9950")["criteria"][-1]["name"] == "K9999"
        with case("a criterion that is cut says so"):
            assert "The first 6,000 of 7,000 characters" in viewer.page("/r/2/criteria/0").text
        with case("the last characters of a long text"):
            last = viewer.data("/r/2/items/0?submission=288000")["texts"][1]
            assert (last["start"], len(last["text"])) == (288_000, 12_000)


def test_a_process_that_is_told_to_end_ends(tmp_path: Path) -> None:
    folder = small(tmp_path / "run")
    with viewing(folder) as viewer:
        viewer.indexed()
        viewer.process.send_signal(signal.SIGTERM)
        assert viewer.process.wait(timeout=600) == 0


def test_two_views_read_one_run_until_one_of_them_labels(tmp_path: Path) -> None:
    folder = small(tmp_path / "run")
    with viewing(folder) as one, viewing(folder) as two:
        assert one.indexed().data("/r/0/items") == two.indexed().data("/r/0/items")
        assert one.post("/r/0/label/open", {"annotator": "ana"}).status == 200
        refused = two.post("/r/0/label/open", {"annotator": "bo"})
        assert refused.status == 409
        assert f"process {one.process.pid}" in refused.json["problem"]
        assert str(one.process.pid) in two.data("/r/0/label")["holder"]
        assert two.page("/r/0/items").status == 403  # so that no annotator sees verdicts here


def test_a_label_that_finds_no_room_on_disk_is_not_saved(tmp_path: Path) -> None:
    folder = small(tmp_path / "run")
    with viewing(folder) as viewer:
        viewer.indexed()
        viewer.post("/r/0/label/open", {"policy": "random"})
        task = viewer.post("/r/0/label/next", {"annotator": "ana"}).json["task"]
        pair = {"annotator": "ana", "index": task["index"], "place": task["place"], "verdict": "MET"}
        largest = max(path.stat().st_size for path in (folder / "labels").iterdir())
        resource.prlimit(viewer.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        refused = viewer.post("/r/0/label/label", pair)
        assert refused.status == 507, refused.text
        assert largest > 1
        resource.prlimit(viewer.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert viewer.post("/r/0/label/label", pair).status == 200


def test_without_its_packages_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('starlette', 'uvicorn'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from autorubric.cli.app import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    done = refused(code, ["view", str(small(tmp_path / "run"))])
    assert done.returncode == 2
    assert "pip install 'autorubric-hub[ui]'" in done.stderr


def refused(code: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_a_directory_that_cannot_be_written_is_shown_all_the_same(tmp_path: Path) -> None:
    for name in ("one", "two", "two/three"):
        small(tmp_path / name / "run")
    (tmp_path / "one" / "run" / ".view").write_text("a file in the way")
    (tmp_path / "two" / "run" / ".view").mkdir(0o555)  # as another user made it
    (tmp_path / "temporary").mkdir()
    runs = sorted(tmp_path.glob("**/run"))
    with viewing(*runs, variables={"TMPDIR": str(tmp_path / "temporary")}) as viewer:
        viewer.indexed(0, 1, 2)
        assert [row["name"] for row in viewer.data("/")["runs"]] == ["one/run", "two/run", "three/run"]
        assert viewer.data("/r/0/items")["count"] == viewer.data("/r/1/items")["count"] == 3
        viewer.process.send_signal(signal.SIGTERM)
        assert viewer.process.wait(timeout=600) == 0
        assert viewer.process.stderr is not None and not viewer.process.stderr.read()
    assert not list((tmp_path / "temporary").iterdir())
