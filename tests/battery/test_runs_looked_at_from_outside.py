"""`status` and `drift` in front of directories that are no runs, foreign, or damaged."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.battery.bench import COMMANDS, Bench, inventory
from tests.offenders import offenders

LEDGER = "rewards/ledger/ledger.sqlite"


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()


def another_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = 99 WHERE name = 'version'")
    connection.close()


def replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_text("my shopping list" * 100),
    "its head alone": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "cut in two": lambda path: os.truncate(path, path.stat().st_size // 2),
    "pages of zeros": lambda path: path.write_bytes(path.read_bytes()[:4096] + bytes(24_576)),
    "pages of noise": lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xa5" * 24_576),
    "another program's": foreign,
    "another version's": another_version,
    "a folder": replaced(Path.mkdir),
    "a pipe": replaced(os.mkfifo),
    "a link to nowhere": replaced(lambda path: path.symlink_to("nowhere")),
    "a link to itself": replaced(lambda path: path.symlink_to(path.name)),
    "a device": replaced(lambda path: path.symlink_to("/dev/zero")),
}


def test_a_ledger_that_is_none_is_named_and_left_alone(bench: Bench) -> None:
    with offenders() as case:
        for way, damage in DAMAGE.items():
            for command in ("status", "drift"):
                with case(f"{command} {way}"), bench.restored():
                    damage(bench.folder / LEDGER)
                    bench.refuses((command, "rewards"), "rewards/ledger/ledger.sqlite")


@pytest.mark.parametrize("command", ["status", "drift"])
def test_looking_at_a_run_leaves_nothing_behind(bench: Bench, command: str) -> None:
    before = inventory(bench.folder)
    bench.accepts((command, "rewards"))
    assert inventory(bench.folder) == before


def test_a_damaged_reward_is_no_reward(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with sqlite3.connect(bench.folder / LEDGER) as connection:
        connection.execute("UPDATE observations SET data = zeroblob(60) WHERE id = 3")
    connection.close()
    bench.accepts(("drift", "rewards"))
    assert "damaged and left out: recorded values of the kind 'reward' (1)" in caplog.text


@pytest.mark.parametrize("command", ["agree", "grade"])
def test_another_programs_database_is_left_as_it_is(bench: Bench, command: str) -> None:
    ledger = bench.folder / "run/ledger/ledger.sqlite"
    ledger.parent.mkdir(exist_ok=True)
    ledger.touch()
    foreign(ledger)
    before = ledger.read_bytes()
    if command == "agree":  # reads verdicts and labels, never the ledger
        bench.accepts(COMMANDS["agree"])
    else:
        words = (*COMMANDS["grade"], "--out", "run")
        bench.refuses(words, "run/ledger/ledger.sqlite is another program's database")
    assert ledger.read_bytes() == before


def test_agreement_leaves_nothing_behind(bench: Bench) -> None:
    before = inventory(bench.folder)
    bench.accepts(COMMANDS["agree"])
    assert inventory(bench.folder) == before


def test_a_run_of_another_kind_is_named_as_what_it_is(bench: Bench) -> None:
    bench.refuses(("agree", "rewards"), "rewards is a run of service; expected a run of `autorubric grade`")


WRONG: tuple[Any, ...] = (None, True, -1, 10**400, 1.5, "text", [], [[]], ["merge"], {"a": 1}, {"rows": "many"})


def test_a_manifest_of_wrong_values_is_no_fault_of_the_program(bench: Bench) -> None:
    keys = ("kind", "status", "counts", "models", "steps", "total_items", "error", "eval_config")
    values = (*WRONG, {"rows": 3, "finished": [], "failed": {}}, {"rows": -3, "finished": 1e300, "failed": True})
    with offenders() as case:
        for turn, (key, value) in enumerate(product(keys, values)):
            # Thirteen values: each key and each value meets every kind.
            kind = ("service", "synthesis", "evaluation")[turn % 3]
            with case(f"{kind} {key} {value!r:.40}"):
                sound = {"kind": kind, "status": "unfinished", "counts": {"rows": 3, "finished": 1, "failed": 0}}
                (bench.folder / "rewards" / "manifest.json").write_text(json.dumps({**sound, key: value}))
                ended = bench.type("status", "rewards")
                assert ended.status in (0, 2), ended
                assert "Traceback" not in ended.err


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.write_bytes(b"\xff\0{")])
def test_a_manifest_that_cannot_be_read_costs_only_what_it_said(bench: Bench, make: Callable[[Path], object]) -> None:
    path = bench.folder / "rewards" / "manifest.json"
    path.unlink()
    make(path)
    assert "rewards: unknown" in bench.accepts(("status", "rewards")).out


def test_a_foreign_folder_an_empty_one_and_a_file_are_no_runs(bench: Bench) -> None:
    (bench.folder / "empty").mkdir()
    for name in ("empty", "prompts", "queries.jsonl", "queries.jsonl/under", "/proc", "/dev/null"):
        said = f"{name} {'does not exist' if 'under' in name else 'is not a run directory'}"
        bench.refuses(("status", name), said)
        bench.refuses(("drift", name), said)
