"""Answers that cannot be read: one fails its request alone, and a server that gives no other ends the run early."""

from __future__ import annotations

import asyncio
import gzip
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from autorubric import Criterion, CriterionGrader, DataItem, EvalResult, LLMConfig, Rubric, RubricDataset, evaluate
from autorubric.llm.http import negotiation
from autorubric.llm.http.address import MOST_BROKEN
from autorubric.llm.http.negotiation import FEWEST_FAILED, MOST_HELD
from autorubric.llm.http.retry import Fault
from autorubric.llm.trials import MOST_ATTEMPTS
from tests.offenders import offenders

if TYPE_CHECKING:
    from tests.llm.http.chat.conftest import Loopback

VERDICT = '{"explanation": "Seen.", "criterion_status": "MET"}'
ITEMS, CONCURRENCY = 60, 8


async def encoded(endpoint: Loopback, body: bytes, encoding: str) -> web.StreamResponse:
    assert endpoint.raw_request is not None
    response = web.StreamResponse(headers={"Content-Encoding": encoding, "Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(endpoint.raw_request)
    await response.write(body)
    return response


async def reset(endpoint: Loopback) -> web.StreamResponse:
    assert endpoint.raw_request is not None and endpoint.raw_request.transport is not None
    endpoint.raw_request.transport.abort()
    return endpoint.ok()


BROKEN = {
    "brotli": lambda endpoint: encoded(endpoint, b"\x0b\x02\x80not", "br"),
    "broken gzip": lambda endpoint: encoded(endpoint, gzip.compress(b'{"choices": []}')[:9] + b"\xff" * 40, "gzip"),
    "reset": reset,
}


async def graded(endpoint: Loopback, folder: Path, budget: int | None = None, **settings: Any) -> EvalResult:
    config = LLMConfig(
        "judge",
        api_base=endpoint.url,
        api_key=endpoint.key,
        max_tokens=100,
        max_parallel_requests=CONCURRENCY,
        **{"retry_min_wait": 0.0, "retry_max_wait": 0.0, **settings},
    )
    dataset = RubricDataset(
        "Why?", Rubric([Criterion(requirement="Is kind.")]), [DataItem(f"So {n}.", "") for n in range(ITEMS)]
    )
    grader = CriterionGrader(judge_model_config=config, budget_tokens=budget)
    return await evaluate(dataset, grader, experiments_dir=folder, experiment_name="e", show_progress=False)


async def test_a_server_that_gives_no_readable_answer_ends_the_run_early_and_it_can_be_resumed(
    endpoint: Loopback, tmp_path: Path
) -> None:
    with offenders() as case:
        for name, broken in BROKEN.items():
            with case(name):
                endpoint.bodies.clear()
                endpoint.answer = lambda n, body, broken=broken: broken(endpoint)
                result = await graded(endpoint, tmp_path / name)
                assert result.stopped is not None and "no readable response so far" in result.stopped
                assert ("the server may expect https://" in result.stopped) == (name == "reset")
                least = 1 if name == "brotli" else MOST_BROKEN
                assert least <= len(endpoint.bodies) < least + CONCURRENCY
                endpoint.bodies.clear()
                endpoint.answer = lambda n, body: endpoint.ok(VERDICT)
                result = await graded(endpoint, tmp_path / name)
                assert (result.stopped, result.get_scores()) == (None, [1.0] * ITEMS)
                assert len(endpoint.bodies) == ITEMS


async def test_an_answer_that_cannot_be_read_is_asked_for_again_and_costs_no_other_call(
    endpoint: Loopback, tmp_path: Path
) -> None:
    with offenders() as case:
        for name, broken in BROKEN.items():
            with case(name):
                endpoint.bodies.clear()

                def answer(number: int, body: dict[str, Any], broken: Any = broken) -> Any:
                    return broken(endpoint) if number % 20 == 7 else endpoint.ok(VERDICT)

                endpoint.answer = answer
                result = await graded(endpoint, tmp_path / name)
                assert (result.stopped, result.get_scores()) == (None, [1.0] * ITEMS)
                assert len(endpoint.bodies) == ITEMS + 3


FAILING = {
    "the same words": lambda endpoint: endpoint.error(500, "no worker"),  # twice is final; the others are retried
    "a page": lambda endpoint: web.Response(status=502, text="<h1>Bad Gateway</h1>", content_type="text/html"),
    "an error under status 200": lambda endpoint: web.json_response({"error": {"message": "overloaded"}}),
}


async def test_a_server_that_never_replies_ends_the_run_and_a_short_outage_costs_no_judgment(
    endpoint: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiation, "PATIENCE", 0.0)
    with offenders() as case:
        for name, failing in FAILING.items():
            with case(name):
                is_500 = name == "the same words"  # may be about one text, so several requests have to fail
                # Without waits between retries, some requests follow while the last ones are being recorded.
                least, most = MOST_ATTEMPTS if is_500 else FEWEST_FAILED, 2 * ITEMS
                why = "judge requests ended without a usable" if is_500 else "judge: no reply in the first 8 attempts"
                endpoint.answer = lambda n, body, failing=failing: failing(endpoint)
                for _ in range(1 if is_500 else 3):  # a later run meets the requests of the first one again
                    endpoint.bodies.clear()
                    result = await graded(endpoint, tmp_path / name)
                    assert least <= len(endpoint.bodies) <= most, len(endpoint.bodies)
                    assert why in (result.stopped or "") and "; the last: HTTP " in (result.stopped or "")
                    assert result.summary is not None and not result.summary.refused
                    assert result.get_scores() == []
                endpoint.bodies.clear()
                endpoint.answer = lambda n, body, failing=failing: (
                    failing(endpoint) if n < 2 else endpoint.ok(VERDICT)
                )
                result = await graded(endpoint, tmp_path / name)
                assert (result.stopped, result.get_scores()) == (None, [1.0] * (ITEMS - result.failed_items))
                assert result.failed_items == (name == "the same words")
                assert len(endpoint.bodies) == ITEMS - result.failed_items + 2


async def test_a_run_gets_past_items_that_failed_in_an_earlier_session(endpoint: Loopback, tmp_path: Path) -> None:
    texts: list[str] = []

    def answer(number: int, body: dict[str, Any]) -> Any:
        texts.append(str(body["messages"]))
        is_odd = texts[-1] in odd or not odd
        return endpoint.error(500, "cannot parse") if is_odd else endpoint.ok(VERDICT)

    endpoint.answer, odd = answer, set[str]()
    first = await graded(endpoint, tmp_path)
    assert "the first 8 judge requests ended without a usable reply" in (first.stopped or "")
    odd.update(texts)
    second = await graded(endpoint, tmp_path)
    assert (second.stopped, second.failed_items, len(second.get_scores())) == (None, len(odd), ITEMS - len(odd))


async def test_a_server_that_never_replies_is_not_asked_one_by_one_for_ever(endpoint: Loopback) -> None:
    # Each call is made twice; calls that wait for each other give the order 0 0 1 1 2 2. Faults of gateways concern
    # no single call, so that others go first.
    with offenders() as case:
        for status, repeats in ((500, True), (503, False)):
            with case(str(status)):
                endpoint.answer = lambda n, body, status=status: endpoint.error(status, "overloaded")
                for _ in range(2):  # a second run waits as the first one did
                    endpoint.bodies.clear()
                    model = endpoint.model(max_retries=1)
                    asked = (model.complete(endpoint.ask(str(n))) for n in range(60))
                    await asyncio.gather(*asked, return_exceptions=True)
                    order = [body["messages"][0]["content"] for body in endpoint.bodies]
                    in_pairs = [order[n] == order[n + 1] for n in range(0, 120, 2)]
                    first = in_pairs[: MOST_HELD + 1] if repeats else [order[0] != order[1]]
                    assert len(order) == 120 and all(first) and not any(in_pairs[-20:]), order


async def test_an_endpoint_that_replied_once_is_waited_for(
    endpoint: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiation, "PATIENCE", 0.0)
    endpoint.answer = lambda n, body: endpoint.ok(VERDICT) if n < 4 or n >= 24 else endpoint.error(500, "no worker")
    assert len((await graded(endpoint, tmp_path)).get_scores()) == ITEMS


async def test_calls_outside_of_runs_are_retried_however_long_an_outage_lasts(
    endpoint: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiation, "OUTAGE_PATIENCE", 0.0)
    model = endpoint.model(max_retries=1, timeout=0.2, retry_min_wait=0.0, retry_max_wait=0.0)
    await model.complete(endpoint.ask())
    endpoint.answer = lambda n, body: endpoint.error(502, "no upstream")
    calls = (model.complete(endpoint.ask(item=str(n))) for n in range(FEWEST_FAILED))
    await asyncio.gather(*calls, return_exceptions=True)
    time.sleep(0.2)
    failed = len(endpoint.bodies)
    endpoint.answer = lambda n, body: endpoint.ok() if n > failed else endpoint.error(502, "no upstream")
    assert (await model.complete(endpoint.ask(item="last"))).text == "fine"


def test_only_failures_of_the_server_end_a_run_and_more_than_one_request_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = negotiation.Gate()
    server, limited, of_text, slow_text = (
        Fault("server", "HTTP 502", 502),
        Fault("rate_limit", "HTTP 429"),
        Fault("server", "", 500),
        Fault("timeout", "no complete answer within 9 s", maybe_billed=True),
    )
    config, slow = LLMConfig("m", timeout=0.01), LLMConfig("m", timeout=1000.0)
    for fault in [of_text, slow_text, server] * FEWEST_FAILED:
        gate.note_fault(fault, "1", time.monotonic())
    assert gate.find_end("m", server, config) is None  # all in less than a second
    monkeypatch.setattr(negotiation, "PATIENCE", 0.0)
    ends = [
        gate.find_end("m", fault, replace(config, max_retries=retries))
        for fault, retries in ((server, 3), (server, 50), (limited, 3), (of_text, 3))
    ]
    assert [end and end.message for end in ends] == [
        "m: no reply in the first 8 attempts; the last: HTTP 502",
        *[None] * 3,
    ]
    gate.note_reply(0.0)
    assert gate.find_end("m", server, config) is None
    monkeypatch.setattr(negotiation, "OUTAGE_PATIENCE", 0.0)
    for item in ("1", "1", "2", "3", "3", "3", "3", "4"):
        assert not gate.is_down
        gate.note_fault(server, item, time.monotonic())
    time.sleep(0.02)
    assert gate.find_end("m", server, slow) is None
    held = [gate.must_hold(fault, is_patient=True) for fault in (server, of_text, slow_text)]
    assert held == [True, True, False]  # calls without an answer fail after their retries, side by side
    found = gate.find_end("m", server, config)
    assert found is not None
    assert found.message == "m: no reply for 0 minutes, in the last 8 attempts; the last: HTTP 502"
    assert gate.find_end("m", slow_text, config) is None
    gate.note_fault(slow_text, "4", time.monotonic())
    assert gate.find_end("m", slow_text, config) is not None
    gate.note_fault(limited, "4", time.monotonic())  # the endpoint asks to wait, so it works
    for number in range(negotiation.FEWEST_ITEMS_WITH_500):
        assert not gate.is_down
        gate.note_fault(of_text, str(number), time.monotonic())
    assert gate.is_down


async def test_items_that_fail_while_others_have_replies_end_no_run(
    endpoint: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiation, "OUTAGE_PATIENCE", 0.0)
    odd = [f"So {n}." for n in (11, 22, 33, 44, 55)]
    endpoint.answer = lambda n, body: (
        endpoint.error(503, "overloaded") if any(text in str(body) for text in odd) else endpoint.ok(VERDICT)
    )
    # The retries come when nothing else is left to do.
    result = await graded(endpoint, tmp_path, max_retries=2, retry_min_wait=1.0, retry_max_wait=1.0)
    assert (result.stopped, result.failed_items, len(result.get_scores())) == (None, len(odd), ITEMS - len(odd))
    assert len(endpoint.bodies) == ITEMS + 2 * len(odd)


async def test_calls_wait_until_a_server_is_back_or_the_run_ends_and_can_be_resumed(
    endpoint: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = 10
    outages = {
        "bad gateway": lambda: endpoint.error(502, "no upstream"),
        "reset": lambda: reset(endpoint),
        "reset under a budget": lambda: reset(endpoint),
        "HTTP 500": lambda: endpoint.error(500, "Internal Server Error"),
    }
    monkeypatch.setattr(negotiation, "FEWEST_ITEMS_WITH_500", CONCURRENCY)
    with offenders() as case:
        for name, failing in outages.items():
            with case(name):
                budget = 10**7 if "budget" in name else None
                endpoint.bodies.clear()
                monkeypatch.setattr(negotiation, "OUTAGE_PATIENCE", 900.0)
                down = range(before, before + 4 * CONCURRENCY + 20)  # more than all attempts of the calls in flight
                endpoint.answer = lambda n, body, failing=failing, down=down: (
                    failing() if n in down else endpoint.ok(VERDICT)
                )
                result = await graded(endpoint, tmp_path / name, budget)
                assert (result.stopped, result.get_scores()) == (None, [1.0] * ITEMS)
                assert len(endpoint.bodies) == ITEMS + len(down)

                endpoint.bodies.clear()
                monkeypatch.setattr(negotiation, "OUTAGE_PATIENCE", 0.0)
                endpoint.answer = lambda n, body, failing=failing: failing() if n >= before else endpoint.ok(VERDICT)
                result = await graded(endpoint, tmp_path / f"{name} for good", budget, timeout=0.3)
                assert "judge: no reply for 0 minutes, in the last " in (result.stopped or "")
                assert len(result.get_scores()) == before
                endpoint.bodies.clear()
                endpoint.answer = lambda n, body: endpoint.ok(VERDICT)
                result = await graded(endpoint, tmp_path / f"{name} for good", budget, timeout=0.3)
                assert (result.stopped, result.get_scores()) == (None, [1.0] * ITEMS)
                assert len(endpoint.bodies) == ITEMS - before
