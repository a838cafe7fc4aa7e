"""The built-in price table against its source, and against what the guides name."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price

from autorubric.llm.http.prices import find_price, load_prices
from autorubric.llm.http.providers import ALIASES, PROVIDERS, Endpoint
from autorubric.llm.request import Usage
from tests.offenders import each
from tools.price_table import FROM_LITELLM, TABLE, litellm_rows, price_rows, table_text

ROOT = Path(__file__).parents[3]
HOSTED = [name for name, provider in PROVIDERS.items() if provider.needs_key]
NAMED = re.compile(rf"(?<![\w/.-])({'|'.join([*HOSTED, *ALIASES])})[/:]([a-z0-9][\w.-]*(?:/[\w.-]+)*\w)")
PLACEHOLDERS = {"openai/my-model", "openai/v1", "openai/m", "openai/a", "mistral/7b"}


def file() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(TABLE.read_text())
    return content


def at_home(name: str) -> Endpoint:
    provider, _, model = name.partition("/")
    return Endpoint(name, provider, model, PROVIDERS[provider].base_url)


def test_the_table_is_what_make_prices_makes_of_the_data_of_its_day() -> None:
    table = file()
    day, source = date.fromisoformat(table["as_of"]), table["source"]
    assert source.partition(";")[0] == f"genai-prices {version('genai-prices')}", "run make prices"
    more = {name: row for name, row in table["prices"].items() if name.partition("/")[0] in FROM_LITELLM}
    assert TABLE.read_text() == table_text(day, {**price_rows(day), **more}, source)


def test_prices_from_litellm_are_dollars_per_million_tokens_with_their_tiers() -> None:
    tiers = [
        {"input_cost_per_token": 3e-7, "output_cost_per_token": 1.5e-6, "range": [0, 32000.0]},
        {"input_cost_per_token": 5e-7, "output_cost_per_token": 2e-6, "range": [32000.0, 1e6]},
    ]
    reasoning = {"output_cost_per_reasoning_token": 4e-6}
    assert litellm_rows(
        {
            "dashscope/tiered": {"mode": "chat", "tiered_pricing": tiers},
            "dashscope/thinks": {"mode": "chat", **tiers[0], **reasoning, "cache_read_input_token_cost": 1e-8},
            "dashscope/unpriced": {"mode": "chat"},
            "dashscope/draws": {"mode": "image_generation", **tiers[0]},
            "elsewhere/chats": {"mode": "chat", **tiers[0]},
        }
    ) == {
        "dashscope/thinks": {"input": 0.3, "output": 4.0, "cached": 0.01},
        "dashscope/tiered": {
            "input": 0.3,
            "output": 1.5,
            "tiers": [{"above": 32000, "input": 0.5, "output": 2.0}],
        },
    }


@each(
    "family",
    [
        "openai/gpt-",
        "openai/o",
        "anthropic/claude-",
        "gemini/gemini-",
        "mistral/mistral-",
        "deepseek/deepseek-",
        "xai/grok-",
        "dashscope/qwen",
        "volcengine/doubao-",
        "openrouter/qwen/",
        "openrouter/bytedance-seed/",  # Doubao
        "openrouter/meta-llama/",
        "openrouter/moonshotai/",
        "openrouter/z-ai/",
        "together/Qwen/",
        "groq/llama-",
        "groq/openai/gpt-oss-",
        "fireworks/accounts/fireworks/models/deepseek-",
        "cerebras/",
    ],
)
def test_every_usual_family_has_several_prices(family: str) -> None:
    assert len([name for name in load_prices() if name.startswith(family)]) >= 2


def test_every_model_that_a_guide_names_has_a_price() -> None:
    guides = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.*"), ROOT / "README.md"]
    found = {
        f"{ALIASES.get(provider, provider)}/{model}"
        for guide in guides
        for provider, model in NAMED.findall(guide.read_text())
    }
    assert "openai/gpt-5.1" in found
    assert [name for name in sorted(found - PLACEHOLDERS) if find_price(at_home(name), load_prices()) is None] == []


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (("openai", "gpt-4.1"), "openai/gpt-4.1"),
        (("openai", "gpt-5.1-2025-11-13"), "openai/gpt-5.1-2025-11-13"),
        (("anthropic", "claude-haiku-4-5-20251001"), "anthropic/claude-haiku-4-5-20251001"),
        (("anthropic", "claude-sonnet-4-5"), "anthropic/claude-sonnet-4-5"),
        (("google", "gemini-2.5-pro"), "gemini/gemini-2.5-pro"),
        (("mistral", "mistral-medium-latest"), "mistral/mistral-medium-latest"),
        (("deepseek", "deepseek-v3.2"), "deepseek/deepseek-v3.2"),
        (("x-ai", "grok-4"), "xai/grok-4"),
        (("openrouter", "qwen/qwen3-max"), "openrouter/qwen/qwen3-max"),
        (("groq", "openai/gpt-oss-120b"), "groq/openai/gpt-oss-120b"),
    ],
)
@pytest.mark.parametrize("prompt", [1000, 300_000])
def test_calls_cost_what_the_source_computes(theirs: tuple[str, str], ours: str, prompt: int) -> None:
    # 300,000 tokens are above the threshold of every model that has tiers.
    day = datetime.fromisoformat(file()["as_of"]).replace(hour=12, tzinfo=UTC)
    usage = PricedUsage(input_tokens=prompt, output_tokens=700, cache_read_tokens=200)
    expected = calc_price(usage, theirs[1], provider_id=theirs[0], genai_request_timestamp=day).total_price
    price = find_price(at_home(ours), load_prices())
    assert price is not None
    assert price.compute_dollars(Usage(prompt, 700, cached_tokens=200)) == pytest.approx(float(expected))


def test_batch_prices_are_known_and_lower() -> None:
    price = load_prices()["openai/gpt-5.1"]
    assert price.batch is not None
    assert price.batch.output < price.output


def test_no_tier_is_cheaper_than_the_one_below() -> None:
    # A worst case is priced at the ceiling of a prompt; it would be none if a longer prompt cost less.
    for name, price in load_prices().items():
        steps = [price, *(tier for _, tier in price.tiers)]
        assert all(a.input <= b.input and a.output <= b.output for a, b in pairwise(steps)), name
