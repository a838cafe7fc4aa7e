from __future__ import annotations

import asyncio
import math
from typing import Any

from autorubric.llm.sharing import Amount, Lease, Sharing

Told = list[dict[str, Any]]


async def lend(held: Amount, missing: Amount) -> Amount | None:
    return missing


def a_lease(told: Told, now: list[float]) -> tuple[Sharing, Lease]:
    """A lease on account `a`, whose clock says the last of `now`."""
    shared = Sharing(2, None, lend, told.append)
    return shared, shared.open_lease("a", lambda: now[-1], lambda: None)


def test_sums_are_kept_apart_in_tokens_and_dollars() -> None:
    more, less = Amount.from_dollars(100, 0.5), Amount.from_dollars(30, 0.2)
    assert more.minus(less) == Amount.from_dollars(70, 0.3)
    assert more.plus(less) == Amount.from_dollars(130, 0.7)
    assert less.times(3) == Amount.from_dollars(90, 0.6)
    assert less.minus(more).clip() == Amount()
    assert Amount(math.inf, 1).clip() == Amount(0, 1)
    assert (
        not Amount.from_dollars(30, 0.6).is_within(more)
        and not Amount.from_dollars(130, 0.2).is_within(more)
        and more.is_within(more)
    )


def test_a_permit_that_is_not_used_within_half_a_second_goes_back() -> None:
    async def main() -> None:
        told, now = Told(), [10.0]
        shared, lease = a_lease(told, now)
        lease.add_permits([1, 2])
        now.append(10.5)
        shared.report()
        assert (told, lease.note_sent(10.5)) == ([], 1)
        now.append(10.6)
        shared.report()
        assert told == [{"a": {"withdrawn": [2]}}]

    asyncio.run(main())


def test_outcomes_are_told_soon_once_permits_are_needed_and_refusals_at_once_before() -> None:
    async def main() -> None:
        told, now = Told(), [0.0]
        _, lease = a_lease(told, now)
        lease.note_accepted(lease.note_sent(0.0))
        await asyncio.sleep(0.05)
        assert told == []
        lease.note_refused(lease.note_sent(0.0), 3.0)
        assert told == [{"a": {"sent": [(-1, 0.0), (-2, 0.0)], "passed": [-1], "refused": [(-2, 3.0)]}}]
        lease.add_permits([1, 2])
        await asyncio.sleep(0.05)
        for tell in (lease.note_accepted, lambda number: lease.note_refused(number, None)):
            told.clear()
            tell(lease.note_sent(0.0))
            assert told == []
            while not told:
                await asyncio.sleep(0.01)
        assert told == [{"a": {"refused": [(2, None)]}}]

    asyncio.run(main())


def test_permits_are_asked_for_once_and_again_when_they_are_used() -> None:
    async def main() -> None:
        told, now = Told(), [0.0]
        shared, lease = a_lease(told, now)
        lease.add_permits([])
        assert (lease.delay(3), lease.delay(3)) == (1.0, 1.0)
        shared.report()
        assert told.pop() == {"a": {"wanted": 3}}
        lease.add_permits([1, 2])
        assert lease.delay(3) == 0.0
        shared.report()
        assert told == []
        assert (lease.note_sent(0.0), lease.delay(100)) == (1, 0.0)
        shared.report()
        assert told.pop() == {"a": {"wanted": 30}}  # 32 at most are asked for or held: one of each

    asyncio.run(main())
