from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from autorubric.errors import LedgerError
from autorubric.llm.batches.setting import Batching, use_batches
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, CallError, Failure, FailureKind, Message, Reply, Request, Unreadable, Usage

Outcome: TypeAlias = "Reply | Failure"
Rule: TypeAlias = Callable[[Request], "Outcome | Awaitable[Outcome]"]


class RuleModel:
    """Answers by a rule, and keeps what it was asked. A call can cost 100 tokens, $0.50, and costs 30."""

    name = "test/rule"

    def __init__(self, rule: Rule | None = None) -> None:
        self.asked: list[Request] = []
        self._rule = rule or (lambda request: Reply(request.messages[-1].content, usage=Usage(10, 20)))

    def identity(self) -> tuple[Any, ...]:
        return ("http://localhost/v1", self.name, {"temperature": 0.0})

    def ceiling(self, request: Request) -> Usage | None:
        return Usage(10, 90)

    def cost(self, usage: Usage) -> float | None:
        return usage.total_tokens * 0.005

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        await asyncio.sleep(0)
        outcome = self._rule(request)
        if not isinstance(outcome, Reply | Failure):
            outcome = await outcome
        if isinstance(outcome, Failure):
            raise CallError(outcome)
        return outcome

    async def close(self) -> None: ...


def question(text: str = "Why?", role: str = "judge", draw: int = 0) -> Request:
    return Request((Message("user", text),), role, item="q1", draw=draw)


def text_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Reply), outcome
    return outcome.text


def failed(outcome: object) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


async def test_a_request_is_paid_for_once_in_this_session_and_in_every_later_one(tmp_path: Path) -> None:
    model = RuleModel()
    for fresh in (True, False):
        with Ledger.open(tmp_path) as ledger:
            executor = Executor(ledger)
            for _ in range(2):
                reply = await executor.ask(model, question())
                assert text_of(reply) == "Why?"
                assert isinstance(reply, Reply)
                assert (reply.fresh, reply.cost) == (fresh, 0.15)
    assert len(model.asked) == 1


async def test_another_draw_is_another_call() -> None:
    model = RuleModel()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        await executor.ask(model, question())
        await executor.ask(model, question(draw=1))
    assert [request.draw for request in model.asked] == [0, 1]


async def test_a_reply_is_durable_before_it_is_handed_on(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger, Ledger.open(tmp_path) as onlooker:
        await Executor(ledger).ask(RuleModel(), question())
        # A second connection sees what is committed and nothing else.
        assert onlooker.count == 1


async def test_two_who_ask_the_same_at_the_same_time_make_one_call() -> None:
    model = RuleModel()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        replies = await asyncio.gather(*(executor.ask(model, question()) for _ in range(5)))
        judge = executor.snapshot()["judge"]
    assert [text_of(reply) for reply in replies] == ["Why?"] * 5
    assert len(model.asked) == 1
    assert (judge.paid, judge.hits, judge.in_flight, judge.cost) == (1, 4, 0, 0.15)
    assert (judge.prompt_tokens, judge.completion_tokens) == (10, 20)


async def test_one_who_is_cancelled_does_not_cancel_the_call_of_the_others() -> None:
    answer_now = asyncio.Event()

    async def rule(request: Request) -> Outcome:
        await answer_now.wait()
        return Reply("late")

    with Ledger.in_memory() as ledger:
        executor, model = Executor(ledger), RuleModel(rule)
        first, second = (asyncio.create_task(executor.ask(model, question())) for _ in range(2))
        while not model.asked:
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0)
        answer_now.set()
        assert text_of(await second) == "late"
        assert first.cancelled()
    assert len(model.asked) == 1


async def test_a_call_that_all_have_left_is_recorded_all_the_same() -> None:
    model = RuleModel()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        asking = asyncio.create_task(executor.ask(model, question()))
        await asyncio.sleep(0)
        asking.cancel()
        await executor.drain()
        assert asking.cancelled()
        assert text_of(await executor.ask(model, question())) == "Why?"
    assert len(model.asked) == 1


def test_a_call_cut_off_by_the_end_of_the_loop_counts_with_its_worst_case(tmp_path: Path) -> None:
    async def rule(request: Request) -> Outcome:
        await asyncio.sleep(60)
        return Reply("never")

    async def main(ledger: Ledger) -> None:
        model = RuleModel(rule)
        asking = asyncio.create_task(Executor(ledger).ask(model, question()))
        while not model.asked:
            await asyncio.sleep(0.01)
        asking.cancel()

    with Ledger.open(tmp_path) as ledger:
        asyncio.run(main(ledger))
    with Ledger.open(tmp_path) as ledger:
        # 10 + 90 tokens at half a cent
        assert ledger.sum_spent() == (1, 100, 0.5, 0, 0)
        assert failed(next(ledger.read_failures()).outcome).kind == "stopped"


async def test_a_failed_call_is_a_value_a_row_and_not_a_hit() -> None:
    answers: list[Outcome] = [Failure("server", "HTTP 503", status=503, attempts=4), Reply("at last")]
    model = RuleModel(lambda request: answers.pop(0))
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        assert failed(await executor.ask(model, question())).status == 503
        assert text_of(await executor.ask(model, question())) == "at last"
        assert (executor.snapshot()["judge"].failures, executor.snapshot()["judge"].paid) == (1, 1)
        (call,) = ledger.read_failures()
        failure = failed(call.outcome)
        assert (failure.kind, failure.message, failure.attempts) == ("server", "HTTP 503", 4)


@pytest.mark.parametrize("kind", ["auth", "quota", "no_model"])
async def test_a_failure_that_no_later_call_can_avoid_is_met_once(kind: FailureKind) -> None:
    broken, sound = RuleModel(lambda request: Failure(kind, "no")), RuleModel()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        for text in ("a", "b", "c"):
            assert failed(await executor.ask(broken, question(text))).kind == kind
        assert text_of(await executor.ask(sound, question("d"))) == "d"
        assert executor.snapshot()["judge"].refused == 2
    assert (len(broken.asked), len(sound.asked)) == (1, 1)


async def test_in_a_run_such_a_failure_stops_the_requests_that_follow_before_anybody_has_read_it() -> None:
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, detached=False)
        broken, sound = RuleModel(lambda request: Failure("quota", "no")), RuleModel()
        ended = [
            failed(await executor.ask(model, question(text))).kind for model, text in ((broken, "a"), (sound, "b"))
        ]
        assert (ended, len(sound.asked)) == (["quota", "stopped"], 0)


async def test_after_a_stop_only_hits_are_answered_and_calls_in_flight_finish() -> None:
    answer_now = asyncio.Event()

    async def rule(request: Request) -> Outcome:
        await answer_now.wait()
        return Reply(request.messages[0].content)

    model = RuleModel(rule)
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        sent = asyncio.create_task(executor.ask(model, question("a")))
        while not model.asked:
            await asyncio.sleep(0)
        queued = asyncio.create_task(executor.ask(model, question("b")))
        await asyncio.sleep(0)  # its call has a task, which has not begun
        executor.stop("interrupted")
        answer_now.set()
        assert text_of(await sent) == "a"
        assert (failed(await queued).kind, failed(await queued).message) == ("stopped", "interrupted")
        assert failed(await executor.ask(model, question("c"))).kind == "stopped"
        assert text_of(await executor.ask(model, question("a"))) == "a"
    assert len(model.asked) == 1


async def test_a_replay_ends_each_request_as_it_ended_when_it_was_sent(tmp_path: Path) -> None:
    def rule(request: Request) -> Outcome:
        asked = request.messages[-1].content
        failures: dict[str, FailureKind] = {"server": "server", "quota": "quota"}
        if asked in failures:
            return Failure(failures[asked], "down", 500)
        return Reply("" if asked == "empty" else asked, usage=Usage(10, 20))

    def read(reply: Reply) -> Answer[str] | Unreadable:
        return Answer(reply.text, reply) if reply.text else Unreadable("empty", "the reply is empty")

    model, texts = RuleModel(rule), ("fine", "empty", "server", "quota")
    with Ledger.open(tmp_path) as ledger:
        first = [await Executor(ledger).ask_for(model, question(text), read) for text in texts]
    sent = len(model.asked)
    with Ledger.open(tmp_path) as ledger:
        executor = Executor(ledger)
        executor.replay("over", ledger.read_failures())
        again = [await executor.ask_for(model, question(text), read) for text in (*texts, "new")]
    assert len(model.asked) == sent == 1 + 3 + 1 + 1
    # What ended a run may be answered in another one.
    assert [str(found) for found in again[1:]] == [
        "empty: the reply is empty",
        "server: down",
        *2 * ["stopped: over"],
    ]
    assert [str(found) for found in first[1:3]] == [str(found) for found in again[1:3]]
    assert isinstance(again[0], Answer)
    assert again[0].value == "fine"


async def test_a_fault_in_the_models_code_is_no_failure_of_the_call() -> None:
    def rule(request: Request) -> Outcome:
        raise ZeroDivisionError("a bug")

    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        with pytest.raises(ZeroDivisionError):
            await executor.ask(RuleModel(rule), question())
        assert text_of(await executor.ask(RuleModel(), question())) == "Why?"


async def test_a_ledger_that_cannot_write_stops_the_calls(tmp_path: Path) -> None:
    model = RuleModel()
    with Ledger.open(tmp_path) as ledger:
        executor = Executor(ledger)
        with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
            connection.execute("ALTER TABLE calls RENAME TO elsewhere")
        for _ in range(3):
            with pytest.raises(LedgerError, match="cannot be written"):
                await executor.ask(model, question())
    assert len(model.asked) == 1


async def test_finding_makes_no_call() -> None:
    model = RuleModel()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        assert executor.find(model, question()) is None
        await executor.ask(model, question())
        assert executor.find(model, question()) is not None
    assert len(model.asked) == 1


async def test_a_model_without_batches_is_asked_at_once_in_a_run_that_sends_batches(tmp_path: Path) -> None:
    model = RuleModel()

    async def ahead() -> AsyncIterator[tuple[RuleModel, Request]]:
        yield model, question()

    with Ledger.open(tmp_path) as ledger, use_batches(Batching()):
        executor = Executor(ledger)
        assert text_of(await executor.ask(model, question("Now?"))) == "Now?"
        await executor.send_ahead(ahead())
        assert [request.messages[-1].content for request in model.asked] == ["Now?"]
        assert text_of(await executor.ask(model, question())) == "Why?"


# Asking until the reply can be read


def read_number(reply: Reply) -> Answer[int] | Unreadable:
    if reply.text.isdigit():
        return Answer(int(reply.text), reply)
    return Unreadable("unreadable", f"{reply.text!r} is not a number", again=reply.text != "never")


def by_reask(*texts: str) -> RuleModel:
    return RuleModel(lambda request: Reply(texts[request.reask]))


async def test_an_unreadable_reply_is_asked_again_under_the_next_reask() -> None:
    model = by_reask("seven", "VII", "7")
    with Ledger.in_memory() as ledger:
        answer = await Executor(ledger).ask_for(model, question(), read_number)
    assert isinstance(answer, Answer)
    assert (answer.value, answer.reply.text) == (7, "7")
    assert [request.reask for request in model.asked] == [0, 1, 2]


async def test_after_the_last_reask_the_unreadable_reply_is_a_failure_and_is_kept() -> None:
    model = by_reask("a", "b", "c", "7")
    with Ledger.in_memory() as ledger:
        failure = failed(await Executor(ledger, max_reasks=2).ask_for(model, question(), read_number))
    assert (failure.kind, failure.message) == ("unreadable", "'c' is not a number; the reply begins: 'c'")
    assert failure.reply is not None
    assert failure.reply.text == "c"
    assert len(model.asked) == 3


async def test_a_later_session_goes_on_with_the_next_reask_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    # 1 + 1 asks a session; the fifth reply is the first that can be read.
    model = by_reask("a", "b", "c", "d", "7")
    found: list[object] = []
    for _ in range(3):
        with Ledger.open(tmp_path) as ledger:
            outcome = await Executor(ledger, max_reasks=1).ask_for(model, question(), read_number)
            found.append(outcome.value if isinstance(outcome, Answer) else outcome.message)
    assert found == [f"{said!r} is not a number; the reply begins: {said!r}" for said in "bd"] + [7]
    assert [request.reask for request in model.asked] == [0, 1, 2, 3, 4]


async def test_a_second_asker_in_the_same_session_gets_the_same_failure_for_nothing() -> None:
    model = by_reask("a", "b", "7")
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, max_reasks=1)
        first = failed(await executor.ask_for(model, question(), read_number))
        second = failed(await executor.ask_for(model, question(), read_number))
    assert first == second
    assert len(model.asked) == 2


async def test_a_reply_that_asking_again_cannot_mend_is_asked_again_by_the_next_session_only(tmp_path: Path) -> None:
    model = by_reask("never", "never", "7")
    for session in (1, 2):
        with Ledger.open(tmp_path) as ledger:
            failure = failed(await Executor(ledger).ask_for(model, question(), read_number))
            assert failure.kind == "unreadable"
        assert len(model.asked) == session


async def test_a_cut_off_reply_that_no_longer_limit_can_mend_is_not_asked_again() -> None:
    model = RuleModel(lambda request: Reply("half", finish_reason="length", usage=Usage(10, 20)))
    with Ledger.in_memory() as ledger:
        failure = failed(
            await Executor(ledger).ask_for(
                model, question(), lambda reply: Unreadable("truncated", "nothing but steps", again=False)
            )
        )
    assert (failure.kind, failure.message) == ("truncated", "nothing but steps")
    assert failure.reply is not None and failure.reply.text == "half"
    assert len(model.asked) == 1


async def test_a_failed_call_is_returned_as_it_is_and_not_asked_again() -> None:
    model = RuleModel(lambda request: Failure("timeout", "no answer in 60 s"))
    with Ledger.in_memory() as ledger:
        failure = failed(await Executor(ledger).ask_for(model, question(), read_number))
    assert failure == Failure("timeout", "no answer in 60 s")
    assert len(model.asked) == 1


async def test_notes_of_the_reader_come_through() -> None:
    def read(reply: Reply) -> Answer[str]:
        return Answer(reply.text, reply, notes=("a comma was overlooked",))

    with Ledger.in_memory() as ledger:
        answer = await Executor(ledger).ask_for(RuleModel(), question(), read)
    assert isinstance(answer, Answer)
    assert answer.notes == ("a comma was overlooked",)
