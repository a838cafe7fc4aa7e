"""Files of open batches that are cut, changed or lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from autorubric.errors import LedgerError
from autorubric.llm.batches.batch_store import BatchStore
from autorubric.runs.run_status import read_run_status
from tests.llm.batches.test_batch_runs import ASKED, ITEMS, graded, recorded, serving
from tests.offenders import each, offenders

DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda content: None,
    "emptied": lambda content: b"",
    "cut in the middle": lambda content: content[: len(content) // 2],
    "cut by a line": lambda content: b"".join(content.splitlines(keepends=True)[:-1]),
    "another key": lambda content: content.replace(content[2:4], b"00" if content[2:4] != b"00" else b"11", 1),
    "another limit": lambda content: content.replace(b",0,0,", b",0,1,", 1),
}


def damage(path: Path, how: str) -> None:
    changed = DAMAGE[how](path.read_bytes())
    path.unlink() if changed is None else path.write_bytes(changed)


def test_an_open_batch_whose_rows_are_damaged_is_named_and_paid_again_only_by_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch) as endpoint, offenders() as case:
        for number, how in enumerate(DAMAGE):
            folder = tmp_path / str(number)
            folder.mkdir()
            graded(folder, batch_detach=True)
            [path] = (folder / "run/ledger/batches").glob("*.rows")
            kept = path.read_bytes()
            damage(path, how)
            with case(how):
                left = str(graded(folder).stopped)
                assert left.startswith("a file of a batch is damaged: batch batch_"), left
                assert f"{path} " in left
                assert len(endpoint.books.jobs) == number + 1
                [record] = read_run_status(folder / "run", {}).batches
                assert record.trouble.startswith("a file of a batch is damaged: ")
                if number % 2:
                    path.write_bytes(kept)
                else:
                    given_up = str(graded(folder, batch_cancel=True, budget_usd=1000.0).stopped)
                    assert f"so its {ASKED} requests without a saved reply count at their worst case" in given_up
                    assert recorded(folder)[2] >= record.cost > 0
                    endpoint.books.jobs.popitem()
                assert graded(folder).get_scores() == [1.0] * ITEMS
                assert len(endpoint.books.jobs) == number + 1


def test_a_batch_without_its_record_is_said_before_its_requests_are_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch) as endpoint:
        graded(tmp_path, batch_detach=True)
        [path] = (tmp_path / "run/ledger/batches").glob("*.json")
        path.unlink()
        with pytest.raises(LedgerError, match=rf"{path.name} is missing, .* If you remove {path.stem}.rows too"):
            graded(tmp_path)
        path.with_suffix(".rows").unlink()
        assert graded(tmp_path).get_scores() == [1.0] * ITEMS
        assert len(endpoint.books.jobs) == 2


def test_a_plan_that_a_kill_cut_short_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch) as endpoint:
        graded(tmp_path, batch_detach=True)
        folder = tmp_path / "run/ledger/batches"
        for name in ("a.rows.draft", "a.requests.draft"):
            (folder / name).write_text("[")
        assert graded(tmp_path).get_scores() == [1.0] * ITEMS
        assert [path.suffix for path in folder.iterdir()] == [".json"]
        assert len(endpoint.books.jobs) == 1


def test_batches_can_be_listed_while_others_are_planned(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)

    def plan() -> None:
        for _ in range(50):
            record = store.begin("openai/m", "m", "https://api.openai.com/v1")
            store.keep_plan(store.open_writer(record).close())

    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(plan)
        while not planned.done():
            store.read_records()
    planned.result()
    assert len(store.read_records()) == 50


@each(
    "changes",
    [{"id": "another"}, {"state": "cent"}, {"state": None}, {"count": 1, "state": []}],
)
def test_a_record_with_another_id_or_an_unknown_state_is_an_error(changes: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        store = BatchStore(Path(folder))
        record = store.keep(store.begin("openai/m", "m", "https://api.openai.com/v1"))
        path = Path(folder, "batches", f"{record.id}.json")
        path.write_bytes(json.dumps(json.loads(path.read_bytes()) | changes).encode())
        with pytest.raises(LedgerError, match="the record of a batch cannot be read"):
            store.read_records()
