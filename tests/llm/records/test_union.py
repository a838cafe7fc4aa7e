"""Ledgers copied into one: every call once, with its cost, its reply and its item."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from autorubric.errors import InputError
from autorubric.llm import budget
from autorubric.llm.records import union
from autorubric.llm.records.accounts import LOST, Spending
from autorubric.llm.records.call_rows import CallRow, SealedRow
from autorubric.llm.records.database import connect
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.llm.records.union import add_ledger, add_rows, find_last_added, rename_items
from autorubric.llm.request import Reply, Usage


def a_row(number: int, role: str = "judge") -> CallRow:
    reply = Reply(f"reply {number}", usage=Usage(10, number), cost=0.5)
    return CallRow(number.to_bytes(16, "big"), f"q{number}", role, "local/tiny", 0, 0, reply, at=float(number))


async def written(directory: Path, *rows: CallRow, notes: Mapping[str, object] | None = None) -> Path:
    with Ledger.open(directory) as ledger:
        for row in rows:
            await ledger.record(row)
        for name, value in (notes or {}).items():
            ledger.keep_note(name, value)
    return directory


def items(directory: Path) -> list[tuple[int, str, str]]:
    with closing(connect(directory / LEDGER_FILE)) as connection:
        return connection.execute("SELECT id, item, role FROM calls ORDER BY id").fetchall()


@pytest.mark.parametrize("at_once", [1, 2, 50_000])
async def test_every_call_is_copied_once_however_often_and_in_however_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(union, "_AT_ONCE", at_once)
    whole = await written(tmp_path / "whole", a_row(1))
    first = await written(tmp_path / "first", a_row(2), a_row(3), a_row(4))
    second = await written(tmp_path / "second", a_row(5), a_row(6))
    for other, name in ((first, "1/2"), (second, "2/2"), (first, "1/2"), (second, "2/2")):
        add_ledger(whole, other, name)
    await written(first, a_row(7))
    add_ledger(whole, first, "1/2")
    with Ledger.open(whole) as ledger:
        found = [ledger.find(number.to_bytes(16, "big")) for number in range(1, 8)]
        assert [reply and reply.text for reply in found] == [f"reply {number}" for number in range(1, 8)]
        # Seven calls of 10 tokens, and 1 + 2 + ... + 7 = 28 more; 0.5 dollars each.
        assert (ledger.is_intact, ledger.sum_spent()) == (True, Spending(7, 98, 3.5))
    assert items(whole) == [(number, f"q{number}", "judge") for number in range(1, 8)]


async def test_lost_spending_is_summed_over_ledgers_and_counted_once(tmp_path: Path) -> None:
    whole = await written(tmp_path / "whole", a_row(1), notes={LOST: [1, 100, 1.0, 0, 0]})
    other = await written(tmp_path / "other", a_row(2), notes={LOST: [2, 30, 0.25, 1, 1]})
    for _ in range(2):
        add_ledger(whole, other, "1/1")
    with Ledger.open(whole) as ledger:
        assert ledger.find_note(LOST) == [3, 130, 1.25, 1, 1]
        # The two calls: 10 + 1 and 10 + 2 tokens, 0.5 dollars each.
        assert ledger.sum_spent() == Spending(5, 153, 2.25, 1, 1)
    await written(other, notes={LOST: [3, 40, 0.75, 1, 1]})
    add_ledger(whole, other, "1/1")
    with Ledger.open(whole) as ledger:
        assert ledger.find_note(LOST) == [4, 140, 1.75, 1, 1]


async def test_notes_are_united_and_those_on_starting_over_must_be_equal(tmp_path: Path) -> None:
    whole = await written(tmp_path / "whole", notes={"taken_over": {"rubric": 3}, budget.NOTE: {"m": [1, 9]}})
    other = {"taken_over": {"rubric": 2, "merge": 5}, budget.NOTE: {"m": [4, 0]}, "generation": 2}
    add_ledger(whole, await written(tmp_path / "first", a_row(1), notes=other), "1/2")
    with Ledger.open(whole) as ledger:
        assert ledger.find_note("taken_over") == {"rubric": 3, "merge": 5}
        assert ledger.find_note(budget.NOTE) == {"m": [4, 9]}
        assert ledger.find_note("generation") == 2
    second = await written(tmp_path / "second", a_row(2))
    with pytest.raises(InputError, match="requested again 0 times, and those of the other shards 2 times"):
        add_ledger(whole, second, "2/2")
    assert len(items(whole)) == 1


async def test_another_ledger_under_the_name_of_a_copied_one_is_refused(tmp_path: Path) -> None:
    whole = await written(tmp_path / "whole")
    add_ledger(whole, await written(tmp_path / "one", a_row(1)), "1/2")
    with pytest.raises(InputError, match="another ledger was merged as 1/2 before"):
        add_ledger(whole, await written(tmp_path / "two", a_row(2)), "1/2")
    with pytest.raises(InputError, match="another ledger was merged as 1/2 before"):
        add_ledger(whole, await written(tmp_path / "none"), "1/2")
    assert items(whole) == [(1, "q1", "judge")]


async def test_only_what_was_copied_since_the_last_renaming_gets_new_names(tmp_path: Path) -> None:
    whole = await written(tmp_path / "whole", a_row(1))
    other = await written(tmp_path / "other", a_row(1), a_row(2), a_row(3, "rubric"))
    add_ledger(whole, other, "1/1")
    rename_items(whole, "1/1", "judge", {"q1": "first", "q3": "third"})
    renamed = [(1, "q1", "judge"), (2, "first", "judge"), (3, "q2", "judge"), (4, "q3", "rubric")]
    assert items(whole) == renamed
    rename_items(whole, "1/1", "judge", {"first": "wrong", "q2": "wrong"})
    assert items(whole) == renamed
    await written(other, a_row(4))
    add_ledger(whole, other, "1/1")
    rename_items(whole, "1/1", "judge", {"q1": "wrong", "q2": "wrong", "q4": "fourth"})
    assert items(whole) == [*renamed, (5, "fourth", "judge")]


@pytest.mark.parametrize("at_once", [1, 50_000])
async def test_rows_of_another_machine_are_added_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(union, "_AT_ONCE", at_once)
    whole = await written(tmp_path / "whole", a_row(1))
    sealed = [SealedRow.pack(a_row(number)) for number in (2, 3, 4)]
    rows = [(at, *one.columns, one.data, one.digest) for at, one in enumerate(sealed, 1)]
    note = {budget.NOTE: {"m": [4, 0]}}
    with closing(connect(whole / LEDGER_FILE)) as connection:
        assert find_last_added(connection, "a") == 0
        assert add_rows(connection, "a", rows[:2], note) == 2
        assert add_rows(connection, "a", rows[:1], {budget.NOTE: {"m": [1, 7]}}) == 0
        assert (find_last_added(connection, "a"), find_last_added(connection, "b")) == (2, 0)
        assert add_rows(connection, "a", rows, {}) == 1
        assert add_rows(connection, "a", [], {}) == 0
        assert find_last_added(connection, "a") == 3
    with Ledger.open(whole) as ledger:
        assert ledger.find_note(budget.NOTE) == {"m": [4, 7]}
        found = [ledger.find(number.to_bytes(16, "big")) for number in range(1, 5)]
        assert [reply and reply.text for reply in found] == [f"reply {number}" for number in range(1, 5)]
        assert ledger.count == 4
