"""Token counts of replies, in the forms of all usual endpoints and in forms that cannot be right."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from autorubric.llm.request import Usage

if TYPE_CHECKING:
    from tests.llm.http.chat.conftest import Loopback

READABLE: dict[str, tuple[dict[str, Any], Usage]] = {
    "OpenAI": (
        {
            "prompt_tokens": 1000,
            "completion_tokens": 200,
            "total_tokens": 1200,
            "prompt_tokens_details": {"cached_tokens": 400},
            "completion_tokens_details": {"reasoning_tokens": 150},
        },
        Usage(1000, 200, 400, 150),
    ),
    "floats": ({"prompt_tokens": 830.0, "completion_tokens": 12.0}, Usage(830, 12)),
    "strings": ({"prompt_tokens": "830", "completion_tokens": "12", "total_tokens": "842"}, Usage(830, 12)),
    "DeepSeek": (
        {"prompt_tokens": 90, "completion_tokens": 5, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 26},
        Usage(90, 5, 64),
    ),
    # xAI: the total has the reasoning tokens, the completion has not. 90 + 5 named, 295 in total.
    "reasoning in the total only": (
        {
            "prompt_tokens": 90,
            "completion_tokens": 5,
            "total_tokens": 295,
            "completion_tokens_details": {"reasoning_tokens": 200},
        },
        Usage(90, 205, 0, 200),
    ),
    "reasoning in no sum": (
        {
            "prompt_tokens": 90,
            "completion_tokens": 5,
            "total_tokens": 95,
            "completion_tokens_details": {"reasoning_tokens": 200},
        },
        Usage(90, 205, 0, 200),
    ),
    # Anthropic counts neither what it reads from a cache nor what it writes to one: 20 + 100 + 800.
    "Anthropic": (
        {
            "input_tokens": 20,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 800,
            "output_tokens": 7,
        },
        Usage(920, 7, 800, 0, 100),
    ),
    "Anthropic without a cache": (
        {
            "input_tokens": 20,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
            "output_tokens": 7,
        },
        Usage(20, 7),
    ),
    "Responses API": (
        {
            "input_tokens": 900,
            "input_tokens_details": {"cached_tokens": 640},
            "output_tokens": 70,
            "output_tokens_details": {"reasoning_tokens": 60},
            "total_tokens": 970,
        },
        Usage(900, 70, 640, 60),
    ),
    # LiteLLM: OpenAI's form, which holds the cached part, with Anthropic's fields next to it.
    "two forms at once": (
        {
            "prompt_tokens": 920,
            "completion_tokens": 7,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 800,
            "prompt_tokens_details": {"cached_tokens": 800},
        },
        Usage(920, 7, 800, 0, 100),
    ),
    "zeros in the other form": (
        {"prompt_tokens": 0, "completion_tokens": 0, "input_tokens": 90, "output_tokens": 5},
        Usage(90, 5),
    ),
    "no completion but a total": ({"prompt_tokens": 90, "total_tokens": 97}, Usage(90, 7)),
    # A cached part larger than the prompt is no cached part: all is charged in full.
    "more cached than sent": (
        {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 10_000}},
        Usage(90, 5),
    ),
    "a cached part that is no count": (
        {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": -4}},
        Usage(90, 5),
    ),
}


@pytest.mark.parametrize("form", READABLE)
async def test_token_counts_are_read_in_every_usual_form(endpoint: Loopback, form: str) -> None:
    stated, read = READABLE[form]
    endpoint.answer = lambda n, body: endpoint.ok("Yes.", usage=stated)
    assert (await endpoint.model().complete(endpoint.ask())).usage == read


@pytest.mark.parametrize(
    ("metadata", "read"),
    [
        (
            {
                "promptTokenCount": 900,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 60,
                "cachedContentTokenCount": 640,
                "totalTokenCount": 980,
            },
            Usage(900, 80, 640, 60),
        ),
        # Only thoughts, and a tool's output in the prompt.
        ({"promptTokenCount": 900, "toolUsePromptTokenCount": 50, "thoughtsTokenCount": 60}, Usage(950, 60, 0, 60)),
    ],
)
@pytest.mark.parametrize("name", ["usageMetadata", "usage"])
async def test_the_metadata_of_gemini_are_read(
    endpoint: Loopback, name: str, metadata: dict[str, Any], read: Usage
) -> None:
    endpoint.answer = lambda n, body: endpoint.ok("Yes.", **{name: metadata})
    assert (await endpoint.model().complete(endpoint.ask())).usage == read


UNUSABLE: list[Any] = [
    None,
    {},
    [],
    "830",
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": -830, "completion_tokens": 12},
    {"prompt_tokens": 830, "completion_tokens": -12},
    {"prompt_tokens": 830, "completion_tokens": "many"},
    {"prompt_tokens": 830.5, "completion_tokens": 12},
    {"prompt_tokens": "830 tokens", "completion_tokens": "12"},
    {"prompt_tokens": True, "completion_tokens": True},
    {"prompt_tokens": 10**400, "completion_tokens": 12},
    {"prompt_tokens": 830},
    {"completion_tokens": 12},
    {"total_tokens": 842},
    {"input_tokens": 20, "cache_read_input_tokens": -800, "output_tokens": 7},
    {"input_tokens": None, "output_tokens": 7},
    {"prompt_tokens": [830], "completion_tokens": {"count": 12}},
    # Text without a token.
    {"prompt_tokens": 830, "completion_tokens": 0},
]


@pytest.mark.parametrize("stated", UNUSABLE, ids=repr)
async def test_what_is_no_positive_count_is_no_usage(endpoint: Loopback, stated: Any) -> None:
    endpoint.answer = lambda n, body: endpoint.ok("Yes, it is.", usage=stated)
    reply = await endpoint.model(prices={"input": 2.0, "output": 10.0}).complete(endpoint.ask())
    assert (reply.text, reply.usage, reply.cost) == ("Yes, it is.", None, None)


async def test_a_reply_without_text_may_have_taken_no_tokens(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: endpoint.ok("", usage={"prompt_tokens": 9, "completion_tokens": 0})
    assert (await endpoint.model().complete(endpoint.ask())).usage == Usage(9, 0)


@pytest.mark.parametrize(
    ("text", "reasoning", "prompt", "stated", "believed"),
    [
        ("The sky is blue. " * 300, None, "Hi", (9, 1), False),  # 5,100 characters
        ("The sky is blue. " * 300, None, "Hi", (9, 1500), True),
        ("天空是蓝色的。" * 100, None, "Hi", (9, 500), True),
        ("Yes.", "The sky is blue. " * 300, "Hi", (9, 1), False),
        ("Yes.", None, "The sky is blue. " * 300, (9, 1), False),
        ("Yes.", None, "The sky is blue. " * 300, (1500, 1), True),
        # Tokenizers have tokens for long runs of one character.
        ("Yes." + " " * 5000, None, "Hi", (9, 41), True),
    ],
)
async def test_fewer_tokens_than_a_text_must_have_are_no_usage(
    endpoint: Loopback, text: str, reasoning: str | None, prompt: str, stated: tuple[int, int], believed: bool
) -> None:
    usage = {"prompt_tokens": stated[0], "completion_tokens": stated[1]}
    endpoint.answer = lambda n, body: endpoint.ok(text, usage=usage, message={"reasoning_content": reasoning})
    reply = await endpoint.model().complete(endpoint.ask(prompt))
    assert reply.usage == (Usage(*stated) if believed else None)


async def test_unusable_counts_are_reported_once_in_the_endpoints_words(
    endpoint: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = lambda n, body: endpoint.ok(usage={"prompt_tokens": -5, "completion_tokens": -5})
    model = endpoint.model()
    with caplog.at_level(logging.WARNING, "autorubric.llm"):
        for number in range(3):
            await model.complete(endpoint.ask(f"question {number}"))
    (record,) = caplog.records
    assert record.getMessage().startswith("served-name: a reply has no plausible token counts (usage: {")
    assert '"prompt_tokens": -5' in record.getMessage()


@pytest.mark.parametrize(
    ("counted", "characters", "is_told"),
    [
        (4096, 30_000, True),  # Ollama's usual context, all of it
        (2050, 30_000, True),  # and half of it
        (4096, 18_000, False),  # 4.4 characters a token
        (4099, 30_000, False),
        (2, 30, False),
    ],
)
async def test_a_prompt_that_the_endpoint_seems_to_have_cut_off_is_told_once(
    endpoint: Loopback, caplog: pytest.LogCaptureFixture, counted: int, characters: int, is_told: bool
) -> None:
    endpoint.answer = lambda n, body: endpoint.ok(usage={"prompt_tokens": counted, "completion_tokens": 5})
    model = endpoint.model()
    with caplog.at_level(logging.WARNING, "autorubric.llm"):
        for _ in range(2):
            await model.complete(endpoint.ask("The moon pulls the water. " * (characters // 26)))
    told = [record.getMessage() for record in caplog.records if "cut the prompt off" in record.getMessage()]
    assert len(told) == is_told
    assert all("OLLAMA_CONTEXT_LENGTH" in message for message in told)


async def test_a_stream_without_usage_is_a_reply_without_token_counts(endpoint: Loopback) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        chunks = [{"choices": [{"index": 0, "delta": {"content": part}}]} for part in ("Yes", ".")]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return web.Response(text="".join([*lines, "data: [DONE]\n\n"]), content_type="text/event-stream")

    endpoint.answer = answer
    reply = await endpoint.model().complete(endpoint.ask())
    assert (reply.text, reply.usage) == ("Yes.", None)
