"""A firewall's page in place of an answer: one text is refused, or everything is."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from autorubric import Criterion, CriterionGrader, DataItem, EvalResult, LLMConfig, Rubric, RubricDataset, evaluate
from autorubric.llm.request import CallError, Failure
from autorubric.llm.trials import MOST_REJECTED

if TYPE_CHECKING:
    from tests.llm.http.chat.conftest import Loopback

VERDICT = '{"explanation": "Seen.", "criterion_status": "MET"}'


def page(status: int = 403) -> web.Response:
    text = "<!DOCTYPE html><style>a {}</style><title>Attention</title><h1>Sorry, you have been blocked</h1>"
    return web.Response(status=status, text=text, content_type="text/html")


def texts(endpoint: Loopback) -> list[str]:
    """What was sent, without the requests that have no text."""
    return [json.dumps(body["messages"]) for body in endpoint.bodies if "messages" in body]


def is_blocked(body: dict[str, Any]) -> bool:
    return "' OR 1=1" in json.dumps(body)


def filtering(endpoint: Loopback) -> None:
    """Let the endpoint stand behind a firewall that refuses some texts."""

    def answer(number: int, body: dict[str, Any]) -> web.Response:
        if is_blocked(body):
            return page()
        return endpoint.ok(VERDICT) if "messages" in body else endpoint.error(400, "messages: field required")

    endpoint.answer = answer


async def outcome(endpoint: Loopback, text: str, model: Any = None, **fields: Any) -> Failure | None:
    try:
        await (model or endpoint.model()).complete(endpoint.ask(text, **fields))
    except CallError as error:
        return error.failure
    return None


@pytest.mark.parametrize("status", [403, 405])
async def test_a_text_that_a_firewall_refuses_fails_alone_in_the_words_of_its_page(
    endpoint: Loopback, status: int
) -> None:
    endpoint.answer = lambda n, body: page(status) if n == 0 else endpoint.error(400, "messages: field required")
    failure = await outcome(endpoint, "SELECT")
    assert failure is not None
    assert (failure.kind, failure.status, failure.ends_run) == ("rejected", status, False)
    assert f"HTTP {status}: 'Attention Sorry, you have been blocked' (a firewall or proxy refuses" in failure.message
    assert endpoint.bodies[1:] == [{}]


@pytest.mark.parametrize(("first", "then"), [(403, 403), (405, 405), (403, 401)])
async def test_where_everything_is_refused_the_run_ends_after_two_requests(
    endpoint: Loopback, first: int, then: int
) -> None:
    endpoint.answer = lambda n, body: page(then if n else first)
    failure = await outcome(endpoint, "Hi")
    assert failure is not None
    assert (failure.ends_run, failure.status, len(endpoint.bodies)) == (True, first, 2)


async def test_texts_that_are_refused_together_cost_one_question_whether_others_pass(endpoint: Loopback) -> None:
    filtering(endpoint)
    model = endpoint.model()
    assert await outcome(endpoint, "Hi", model) is None
    found = await asyncio.gather(*(outcome(endpoint, f"' OR 1=1 {n}", model, item=str(n)) for n in range(40)))
    assert {failure and failure.kind for failure in found} == {"rejected"}
    assert len(texts(endpoint)) == 41
    assert len(endpoint.bodies) <= 41 + 5


async def run(endpoint: Loopback, folder: Path, submissions: list[str]) -> EvalResult:
    config = LLMConfig("judge", api_base=endpoint.url, api_key=endpoint.key)
    criteria = [Criterion(requirement="Is kind."), Criterion(requirement="Is brief.")]
    dataset = RubricDataset("Why?", Rubric(criteria), [DataItem(text, "") for text in submissions])
    grader = CriterionGrader(judge_model_config=config)
    return await evaluate(dataset, grader, experiments_dir=folder, experiment_name="e", show_progress=False)


async def test_a_run_grades_the_texts_that_a_firewall_lets_pass(endpoint: Loopback, tmp_path: Path) -> None:
    filtering(endpoint)
    # More in a row than a run may meet before its first reply; with that on record it goes on
    submissions = ["So.", *(f"' OR 1=1 {n}" for n in range(MOST_REJECTED + 5)), "Thus."]
    for _ in range(2):
        result = await run(endpoint, tmp_path, submissions)
        assert (result.get_scores(), result.failed_items, result.stopped) == ([1.0] * 2, MOST_REJECTED + 5, None)
    assert sum("So." in text or "Thus." in text for text in texts(endpoint)) == 4


async def test_a_run_whose_every_prompt_a_firewall_refuses_ends(endpoint: Loopback, tmp_path: Path) -> None:
    endpoint.answer = lambda n, body: page() if "messages" in body else endpoint.error(400, "no messages")
    result = await run(endpoint, tmp_path, [f"So {n}." for n in range(300)])
    asked = {word for text in texts(endpoint) for word in re.findall(r"So \d+", text)}
    assert MOST_REJECTED <= len(asked) < 250  # some follow while the last ones are being recorded
    assert len(texts(endpoint)) < 2 * MOST_REJECTED
    assert result.stopped is not None
    assert "judge requests ended without a usable reply; the last: HTTP 403: 'Attention" in result.stopped
    assert "(a firewall or proxy refuses this text, and lets other requests pass; ask its operator" in result.stopped


async def test_a_firewall_that_refuses_everything_after_a_reply_is_not_taken_for_a_wrong_key(
    endpoint: Loopback, tmp_path: Path
) -> None:
    endpoint.answer = lambda n, body: endpoint.ok(VERDICT) if n < 4 else page()
    result = await run(endpoint, tmp_path, [f"So {n}." for n in range(40)])
    assert result.stopped is not None and result.summary is not None
    assert "refuses all requests now, though it accepted some before; ask its operator" in result.stopped
    said = " ".join((result.stopped, *(group.format_line("judgment") for group in result.summary.failures)))
    assert "key" not in said
