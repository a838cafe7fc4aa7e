"""A worker of a cluster without the cluster: what it tells the driver, and what it leaves on its machine."""

from __future__ import annotations

import json
import math
import pwd
import socket
import sqlite3
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.errors import InputError
from autorubric.jobs.cluster.ray_worker import ClusterWorker, make_ledger_folder
from autorubric.llm import budget, limits
from autorubric.llm.records.database import connect
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.llm.records.union import add_rows
from autorubric.runs.run_folder import open_ledger
from tests.cli.in_process import NearEndpoint
from tests.jobs.test_processes import ITEMS, graded, many_essays


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which a worker replaces


def heard(worker: ClusterWorker, folder: Path, url: str, told: int = 0) -> list[dict[str, Any]]:
    """The words of a worker that is given one block of the essays."""
    settings = {"data": str(many_essays(folder)), "judge": [f"a@{url}"], "shard": "1/1", "concurrency": 4}
    order = {"command": "grade", "settings": settings, "processes": 1, "input": None, "base": None, "round": 0}
    order["left"] = (math.inf, math.inf)
    worker.begin({**order, "folder": str(Path.cwd()), "addresses": {}}, told)
    words: list[dict[str, Any]] = []
    blocks = iter([0, None])
    while not any("end" in word for word in words):
        for word in worker.wait_for_messages():
            words.append(word)
            if "want" in word:
                worker.deliver({"block": next(blocks)})
    return words


def sums(words: list[dict[str, Any]]) -> tuple[list[Any], list[bytes], Mapping[str, Any]]:
    rows = [row for word in words for row in word.get("rows", ())]
    lines = [line for word in words for line in word.get("lines", ())]
    return rows, lines, next(word["end"] for word in words if "end" in word)


def test_a_worker_answers_a_block_with_calls_that_the_driver_adds_once(tmp_path: Path) -> None:
    main = tmp_path / "main"
    with open_ledger(main):
        pass
    with NearEndpoint() as endpoint:
        worker = ClusterWorker("run", "now", 1)
        told = worker.introduce(["NO_SUCH_KEY"], str(main / "ledger"))
        assert (told["missing"], told["resumes"], told["has_base"]) == (["NO_SUCH_KEY"], False, True)
        rows, lines, end = sums(heard(worker, tmp_path, endpoint.base_url))
        assert (len(rows), len(lines)) == (ITEMS, ITEMS)
        assert end == {"stopped": None, "interrupted": False}
        notes = {limits.NOTE: [["judge", "a", [4096], 0]], budget.NOTE: {"a": [10, 0]}}
        with closing(connect(main / "ledger" / LEDGER_FILE)) as connection:
            assert add_rows(connection, told["name"], rows[:10], notes) == 10
            assert add_rows(connection, told["name"], rows, {}) == ITEMS - 10
        with open_ledger(main) as ledger:
            assert (ledger.count, ledger.find_note(budget.NOTE)) == (ITEMS, {"a": [10, 0]})
            assert all(ledger.find(row[1]) is not None for row in rows)
        # Killed now, the worker is started again, reads its own ledger, and answers with what the driver lacks.
        again = ClusterWorker("run", "now", 1)
        assert again.introduce([], "")["resumes"]
        rows, lines, _ = sums(heard(again, tmp_path, endpoint.base_url, told=ITEMS - 3))
        assert (len(rows), len(lines)) == (3, ITEMS)
        assert endpoint.stats()["requests"] == ITEMS


def test_a_worker_on_another_machine_finds_what_the_driver_has_recorded_before(tmp_path: Path) -> None:
    with NearEndpoint() as endpoint:
        words = ["grade", str(many_essays(tmp_path)), "--judge", f"a@{endpoint.base_url}"]
        assert run([*words, "-o", str(tmp_path / "run")]) == 0
        worker = ClusterWorker("run", "now", 1)
        assert not worker.introduce([], str(tmp_path / "missing"))["has_base"]
        with closing(sqlite3.connect(tmp_path / "run" / "ledger" / "ledger.sqlite")) as connection:
            connection.execute("VACUUM INTO ?", (str(tmp_path / "copy"),))
        content = (tmp_path / "copy").read_bytes()
        for place, part in ((0, content), (0, content[:1000]), (1000, content[1000:])):  # the first one broke off
            worker.receive("ledger.sqlite", place, part)
        rows, lines, _ = sums(heard(worker, tmp_path, endpoint.base_url))
        assert (rows, len(lines)) == ([], ITEMS)
        assert endpoint.stats()["requests"] == ITEMS


def test_the_next_session_takes_in_what_a_killed_one_has_left(tmp_path: Path) -> None:
    with NearEndpoint() as endpoint:
        killed = ClusterWorker("run", "before", 1)
        name = killed.introduce([], "")["name"]
        heard(killed, tmp_path, endpoint.base_url)
    worker = ClusterWorker("run", "now", 1)
    assert worker.list_leftovers() == ["before-1"]
    assert worker.recover("before-1") == name
    assert len(worker.read_calls(0, "before-1")[0]) == ITEMS
    worker.remove("before-1")
    assert worker.list_leftovers() == []


def test_one_process_takes_in_what_workers_have_left_on_its_machine_and_names_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The driver was killed, and nobody passes `--engine ray` again."""
    with NearEndpoint() as endpoint:
        killed = ClusterWorker("run", "before", 1)
        folder = Path(killed.introduce([], "")["folder"])
        heard(killed, tmp_path, endpoint.base_url)
        spool = tmp_path / "run" / "ledger" / "shards" / "00c0ffee"
        spool.mkdir(parents=True)
        machines = [(socket.gethostname(), str(folder.parent)), ("node-7", "/scratch/run")]
        (spool / "machines").write_text("".join(json.dumps(machine) + "\n" for machine in machines))
        words = [
            "grade",
            str(many_essays(tmp_path)),
            "--judge",
            f"a@{endpoint.base_url}",
            "-o",
            str(tmp_path / "run"),
        ]
        assert run(words) == 0
        assert "Ray workers on node-7 may have replies that" in capsys.readouterr().err
        assert graded(tmp_path / "run") == list(range(ITEMS))
        assert endpoint.stats()["requests"] == ITEMS
    assert not folder.parent.exists()
    assert not spool.exists()


def test_a_user_without_a_name_has_a_folder_for_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert make_ledger_folder("run").parent.name == "autorubric-ray-unnamed"


def test_the_ledgers_of_workers_are_in_no_folder_of_somebody_else(tmp_path: Path) -> None:
    place = make_ledger_folder("run")
    assert place.parent.stat().st_mode & 0o777 == 0o700
    place.rmdir()
    target = place.parent.rename(tmp_path / "elsewhere")
    place.parent.symlink_to(target)
    with pytest.raises(InputError, match="belongs to another user; set TMPDIR where Ray is started"):
        make_ledger_folder("run")
