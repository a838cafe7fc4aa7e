"""Replies that were cut off: the next larger limit, never the same one twice, and nothing that is paid for lost."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autorubric.llm.billing import Bill
from autorubric.llm.budget import Budget
from autorubric.llm.executor import Executor
from autorubric.llm.limits import Limit, ModelEstimate
from autorubric.llm.records.call_rows import CallRow, compute_key
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Message, Reply, Request, Unreadable, Usage
from autorubric.llm.structured import read_json, read_text
from autorubric.testing import ScriptedModel
from tests.offenders import each, offenders

WHOLE = '{"items": [1, 2]}'
UNBILLED = Bill(Usage(), None, None, None)


class Writer(ScriptedModel):
    """A model whose replies take `needs` tokens and are cut off below that."""

    def __init__(
        self, own: int | None = 1000, needs: int = 1000, *, fixed: bool = True, ceiling: int = 32_768
    ) -> None:
        super().__init__(self._write, max_tokens=own, price=(1.0, 1.0))
        self._limit = Limit(own, ceiling, fixed)
        self.needs = needs

    @property
    def limit(self) -> Limit:
        return self._limit

    @property
    def asked(self) -> list[int | None]:
        return [request.max_tokens for request in self.requests]

    def _write(self, request: Request) -> Reply:
        allowed = request.max_tokens or self._limit.own or 500
        if allowed < self.needs:
            return Reply(WHOLE[:5], "length", usage=Usage(10, allowed))
        return Reply(WHOLE, usage=Usage(10, self.needs))


def ask(query: str = "Why?", *, room: int = 0) -> Request:
    return Request((Message("user", query),), "merge", room=room)


def read(reply: Reply) -> Answer[Any] | Unreadable:
    return read_json(reply, "object")


async def asked_of(
    model: ScriptedModel, ledger: Ledger, *requests: Request, budget: Budget | None = None
) -> list[Any]:
    executor = Executor(ledger, budget)
    return [await executor.ask_for(model, request, read) for request in requests]


async def test_a_limit_is_doubled_until_the_reply_is_whole_and_the_next_request_starts_there() -> None:
    model = Writer(needs=3500)
    with Ledger.in_memory() as ledger:
        answers = await asked_of(model, ledger, ask("one"), ask("two"))
    assert all(isinstance(answer, Answer) for answer in answers)
    assert model.asked == [None, 2000, 4000, 4000]


async def test_a_later_session_starts_where_the_last_one_ended_and_finds_what_was_answered_before(
    tmp_path: Path,
) -> None:
    short, long = Writer(), Writer(needs=3500)
    with Ledger.open(tmp_path) as ledger:
        await asked_of(short, ledger, ask("short"))
        await asked_of(long, ledger, ask("long"))
    assert long.asked == [None, 2000, 4000]
    with Ledger.open(tmp_path) as ledger:
        await asked_of(long, ledger, ask("short"), ask("long"), ask("new"))
    assert long.asked[3:] == [4000]


async def test_every_executor_on_a_shared_ledger_learns_the_limits_that_another_process_has_found(
    tmp_path: Path,
) -> None:
    """The other process is asked "Why?" until 4,000 tokens suffice, and "How?" with 4,000 at once."""
    writers = [Writer(needs=2500) for _ in range(3)]
    with Ledger.open(tmp_path, shared=True) as ledger, Ledger.open(tmp_path, shared=True) as elsewhere:
        executors = [Executor(ledger), Executor(ledger)]
        for query in ("Why?", "How?"):
            await Executor(elsewhere).ask_for(writers[2], ask(query), read)
        assert writers[2].asked == [None, 2000, 4000, 4000]
        for executor, writer in zip(executors, writers, strict=False):
            assert isinstance(await executor.ask_for(writer, ask("How?"), read), Answer)
    assert [writer.asked for writer in writers[:2]] == [[], []]


async def test_an_old_ledger_with_a_truncated_reply_leads_to_the_next_limit_without_a_call() -> None:
    model, request = Writer(needs=1500), ask()
    with Ledger.in_memory() as ledger:
        cut = Reply(WHOLE[:5], "length", usage=Usage(10, 1000))
        await ledger.record(CallRow.build(compute_key(model, request), model, request, cut, UNBILLED))
        (answer,) = await asked_of(model, ledger, request)
    assert isinstance(answer, Answer)
    assert model.asked == [2000]


async def test_what_an_older_version_was_answered_after_a_truncated_reply_is_found() -> None:
    model, request = Writer(needs=1500), ask()
    again = Request(request.messages, request.role, reask=1)
    with Ledger.in_memory() as ledger:
        for asked, reply in ((request, Reply(WHOLE[:5], "length")), (again, Reply(WHOLE))):
            await ledger.record(CallRow.build(compute_key(model, asked), model, asked, reply, UNBILLED))
        (answer,) = await asked_of(model, ledger, request)
    assert isinstance(answer, Answer)
    assert model.asked == []


async def test_of_recorded_replies_with_different_limits_the_last_is_found() -> None:
    model, request = Writer(needs=1500), ask()
    cut, larger = Reply(WHOLE[:5], "length", limit=1000), replace(request, max_tokens=2000)
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        assert executor.find(model, request) is None
        for asked, reply in ((request, cut), (larger, Reply(WHOLE))):
            await ledger.record(CallRow.build(compute_key(model, asked), model, asked, reply, UNBILLED))
            found = executor.find(model, request)
            assert found is not None and found.text == reply.text
    assert model.asked == []


@pytest.mark.parametrize(("own", "limit"), [(1000, 1000), (None, 500)])  # without a limit, what the reply took
async def test_a_truncated_reply_is_recorded_with_its_limit(own: int | None, limit: int) -> None:
    model, request = Writer(own, needs=600 if own is None else 1500), ask()
    with Ledger.in_memory() as ledger:
        await asked_of(model, ledger, request)
        recorded = [ledger.find(compute_key(model, replace(request, max_tokens=asked))) for asked in model.asked]
    assert [reply and (reply.finish_reason, reply.limit) for reply in recorded] == [("length", limit), ("stop", None)]


async def test_at_the_ceiling_a_failure_names_the_flag_and_a_later_session_does_not_ask_again(tmp_path: Path) -> None:
    model = Writer(needs=9000, ceiling=3000)
    for _ in range(2):
        with Ledger.open(tmp_path) as ledger:
            (failure,) = await asked_of(model, ledger, ask())
        assert isinstance(failure, Failure)
        assert (failure.kind, "--max-tokens-ceiling" in failure.message) == ("truncated", True)
    assert model.asked == [None, 2000, 3000]


@pytest.mark.parametrize(
    ("own", "fixed", "room", "first"),
    [
        (2048, False, 2000, None),  # it fits
        (2048, False, 2049, 4096),  # the next power of two
        (2048, False, 100_000, 32_768),  # the ceiling
        (2048, True, 100_000, None),  # a user's limit is kept at first
        (None, False, 100_000, None),  # a model without a limit is not given one
    ],
)
async def test_a_request_starts_with_the_room_its_reply_needs(
    own: int | None, fixed: bool, room: int, first: int | None
) -> None:
    model = Writer(own, needs=1, fixed=fixed)
    with Ledger.in_memory() as ledger:
        await asked_of(model, ledger, ask(room=room))
    assert model.asked == [first]


async def test_a_larger_limit_is_reserved_in_the_budget_before_it_is_sent() -> None:
    model = Writer(needs=1500)
    with Ledger.in_memory() as ledger:
        # 1,010 tokens are spent on the first reply; the next one may take 2,000 and its prompt.
        (failure,) = await asked_of(model, ledger, ask(), budget=Budget(tokens=3000))
        assert isinstance(failure, Failure)
        assert failure.kind == "budget"
        assert model.asked == [None]
        (answer,) = await asked_of(model, ledger, ask(), budget=Budget(tokens=3100, spent=ledger.sum_spent()))
    assert isinstance(answer, Answer)
    assert model.asked == [None, 2000]


async def test_a_reply_that_a_larger_limit_does_not_make_longer_is_left_to_a_later_session(tmp_path: Path) -> None:
    full = ScriptedModel(lambda request: Reply("[", "length", usage=Usage(10, 700)), max_tokens=1000)
    with Ledger.open(tmp_path) as ledger:
        (failure,) = await asked_of(full, ledger, ask())
    assert isinstance(failure, Failure)
    assert "did not make it longer" in failure.message
    assert [request.max_tokens for request in full.requests] == [None, 2000]
    with Ledger.open(tmp_path) as ledger:
        await asked_of(full, ledger, ask())
    assert [request.max_tokens for request in full.requests] == [None, 2000, 4000]


async def test_an_endpoint_without_a_limit_is_asked_for_more_than_it_wrote() -> None:
    model = Writer(None, needs=3000)
    with Ledger.in_memory() as ledger:
        (answer,) = await asked_of(model, ledger, ask())
    assert isinstance(answer, Answer)
    assert model.asked == [None, 2048, 4096]


async def test_a_larger_limit_counts_as_a_reask_in_the_ledger(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        await asked_of(Writer(needs=3500), ledger, ask())
    with sqlite3.connect(tmp_path / "ledger.sqlite") as rows:
        assert rows.execute("SELECT reask FROM calls ORDER BY id").fetchall() == [(0,), (1,), (2,)]
    rows.close()


@each(
    ("reply", "message"),
    [
        (Reply("", "length", reasoning="Hm.", usage=Usage(10, 2048)), "2,048 tokens of reasoning and no answer"),
        (Reply("<think>Hm, 4", "length", usage=Usage(10, 900, 0, 890)), "890 tokens of reasoning and no answer"),
        (Reply("<think>Hm.</think>", "length"), "the reply is reasoning and no answer"),
        (Reply("Hm.\n</think>\n", "length", usage=Usage(10, 7)), "7 tokens of reasoning and no answer"),
        (Reply("", "length"), "the reply is empty"),
        (Reply("[1, ", "length", limit=50), "the reply was cut off at 50 tokens"),
        (Reply("[1, ", "length", limit=50, usage=Usage(10, 30)), "the reply was cut off at 30 tokens"),
        (Reply("[1, ", "length", limit=50, usage=Usage(10, 70)), "the reply was cut off at 50 tokens"),
    ],
)
def test_a_reply_without_an_answer_says_what_it_is(reply: Reply, message: str) -> None:
    found = read_text(reply)
    assert isinstance(found, Unreadable)
    assert (found.kind, found.message) == ("truncated", message)


def test_an_estimate_counts_a_chinese_character_as_three_quarters_of_a_token_and_four_of_english_as_one() -> None:
    # Characters and their bytes in UTF-8: 12 of one byte, 8 of three (潮), 8 of two (П), 2 of four (😀).
    cases = [("tides, tides", 3.0), ("潮" * 8, 6.0), ("П" * 8, 4.0), ("😀😀", 2.0), ("", 0.0)]
    with offenders() as case:
        for text, tokens in cases:
            with case(text):
                row = ModelEstimate(ScriptedModel({}))
                row.add(Request((Message("user", text),), role="judge"), 120)
                assert row.prompt_tokens == tokens
