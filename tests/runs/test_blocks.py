"""The records of a run, and the blocks of them that a worker of a cluster is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from autorubric.llm.billing import Reservation
from autorubric.llm.budget import Budget
from autorubric.llm.sharing import Amount
from autorubric.runs.blocks import BLOCK, Feed, Room, feed, feed_records, note_ended, work_through

GROUPS = [[2 * n, 2 * n + 1] if n < 3 else [n + 3] for n in range(BLOCK + 2)]
"""Three pairs of equal records, and single ones: 69 records in 66 groups, so two blocks."""


async def taken(blocks: Sequence[int | None], ended: Sequence[int]) -> tuple[list[int], list[dict[str, Any]]]:
    """The records of a worker that is given some blocks, and its words; those in `ended` end."""
    words: list[dict[str, Any]] = []
    own = Feed(lambda **word: words.append(word))
    feed.set(own)
    for block in blocks:
        own.give(block)
    async with aclosing(feed_records(range(69), int, lambda: GROUPS)) as records:
        found = [record async for record in records]
    for record in ended:
        note_ended(record, f"line {record}")
    assert own.take_lines() == [f"line {record}".encode() for record in ended]
    assert own.take_lines() == []
    return found, words


async def test_a_run_elsewhere_takes_every_record_in_order() -> None:
    async with aclosing(feed_records(range(69), int, lambda: GROUPS)) as records:
        assert [record async for record in records] == list(range(69))
    note_ended(5)  # tells nobody


async def test_a_worker_takes_the_blocks_it_is_given_equal_records_together() -> None:
    """Block 0 has groups 0 to 63: three pairs and 61 single records, 0 to 66. Block 1 has records 67 and 68."""
    want: dict[str, Any] = {"want": True}
    found, words = await asyncio.create_task(taken([1, 0, 2, None], [68, 67, *range(67)]))
    assert found == [67, 68, *range(67)]
    assert words[:6] == [{"ready": True}, want, want, want, {"beyond": 2}, {"done": 2}]
    assert words[6:] == [want, {"done": 1}, {"done": 0}]


async def test_a_block_is_done_when_its_last_record_has_ended() -> None:
    found, words = await asyncio.create_task(taken([1, None], [67]))
    assert found == [67, 68]
    assert not any("done" in word for word in words)


async def test_an_error_of_a_record_or_its_source_is_raised_when_the_other_open_records_have_ended() -> None:
    """A worker whose record fails waits for a block that the driver assigns only when this record has ended."""

    async def read() -> AsyncGenerator[int, None]:
        yield 67
        yield 68
        raise OSError("the disk fails")

    async def grade(record: int) -> None:
        await asyncio.sleep(0.01)
        if record == failing:
            raise OSError("the disk fails")
        await asyncio.sleep(0.01)
        ended.append(record)

    own = Feed(lambda **word: None)
    feed.set(own)
    own.give(1)
    sources = {67: feed_records(range(69), int, lambda: GROUPS), None: read()}
    for failing, records in sources.items():
        ended: list[int] = []
        with pytest.raises(OSError, match="the disk fails"):
            await asyncio.wait_for(work_through(records, grade, Room(8)), 5)
        assert ended == [record for record in (67, 68) if record != failing]


async def test_a_record_is_opened_only_if_the_budget_covers_what_the_open_ones_are_expected_to_cost() -> None:
    """Records cost 300 each, in two calls; at first, 450 are expected."""
    budget, begun = Budget(tokens=1900), 0
    ended: list[int] = []
    most: list[int] = []

    async def read() -> AsyncGenerator[int, None]:
        for number in range(6):
            yield number

    async def work(number: int) -> None:
        nonlocal begun
        begun += 1
        most.append(begun - len(ended))
        for _ in range(2):
            held = await budget.reserve(Reservation(budget, Amount(160)))
            assert isinstance(held, Reservation)
            await asyncio.sleep(0.01)
            budget.settle(held, Amount(150))
        ended.append(number)

    await work_through(read(), work, Room(8, budget, Amount(450)))
    # 1900 cover three records of 450 and a call of 160. When these have ended, 1000 are left, which cover two of 300
    # and a call, but not three.
    assert most == [1, 2, 3, 1, 2, 1]
    assert ended == [0, 1, 2, 3, 4, 5]
    assert (budget.spent, budget.costs) == (Amount(1800), {})
