from __future__ import annotations

from pathlib import Path

import pytest

from autorubric.errors import ConfigError, MissingFileError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.prices import Price, find_price, load_prices, read_price_file
from autorubric.llm.http.providers import PROVIDERS, Endpoint
from autorubric.llm.request import Usage


def at_openai(model: str, base_url: str = "https://api.openai.com/v1") -> Endpoint:
    return Endpoint(f"openai/{model}", "openai", model, base_url)


def test_every_price_belongs_to_a_known_provider() -> None:
    assert {name.partition("/")[0] for name in load_prices()} <= PROVIDERS.keys()


def test_a_dated_snapshot_costs_what_its_model_costs() -> None:
    table = load_prices()
    assert find_price(at_openai("gpt-4.1-2025-04-14"), table) == table["openai/gpt-4.1"]
    dated = Endpoint("a", "anthropic", "claude-haiku-4-5-20251001", PROVIDERS["anthropic"].base_url)
    assert find_price(dated, table) == table["anthropic/claude-haiku-4-5"]


def test_an_unknown_model_or_another_address_has_no_price() -> None:
    table = load_prices()
    assert find_price(at_openai("gpt-99"), table) is None
    assert find_price(at_openai("gpt-4.1", "http://localhost:4000"), table) is None


def test_cached_tokens_cost_the_full_price_where_no_other_is_known() -> None:
    usage = Usage(1_000_000, 0, cached_tokens=1_000_000)
    assert Price(3.0, 15.0).compute_dollars(usage) == 3.0
    assert Price(3.0, 15.0, 0.3).compute_dollars(usage) == pytest.approx(0.3)
    assert Price(0.0, 0.0).compute_dollars(usage) == 0.0


def test_tokens_written_to_a_cache_have_a_price_of_their_own() -> None:
    # 200,000 x 3 + 500,000 x 0.3 + 300,000 x 3.75 per million
    usage = Usage(1_000_000, 0, cached_tokens=500_000, cache_write_tokens=300_000)
    assert Price(3.0, 15.0, 0.3, 3.75).compute_dollars(usage) == pytest.approx(1.875)
    assert Price(3.0, 15.0, 0.3).compute_dollars(usage) == pytest.approx(1.65)


def test_a_prompt_above_a_threshold_raises_the_price_of_all_tokens() -> None:
    price = Price(1.0, 10.0, tiers=((200_000, Price(2.0, 15.0)), (1_000_000, Price(4.0, 20.0))))
    assert price.compute_dollars(Usage(200_000, 100_000)) == pytest.approx(0.2 + 1.0)
    assert price.compute_dollars(Usage(200_001, 100_000)) == pytest.approx(0.400002 + 1.5)
    assert price.compute_dollars(Usage(2_000_000, 100_000)) == pytest.approx(8.0 + 2.0)


def test_a_users_table_is_put_over_the_builtin_one(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("openai/gpt-4.1: {input: 1, output: 2}\nopenai/mine: {input: 0, output: 0}\n")
    table = read_price_file(path)

    def dollars(name: str) -> float | None:
        config = LLMConfig(name, api_key="k", prices=table.get(name))
        return ChatModel(config, environ={}).cost(Usage(1_000_000, 1_000_000))

    assert dollars("openai/gpt-4.1") == 1.0 + 2.0
    assert dollars("openai/mine") == 0.0
    builtin = load_prices()["openai/gpt-5.1"].compute_dollars(Usage(1_000_000, 1_000_000))
    assert "openai/gpt-5.1" not in table and dollars("openai/gpt-5.1") == builtin


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/b: {input: 1}", "a/b: expected 'input' and 'output'"),
        ("a/b: {input: -1, output: 2}", "input=-1"),
        ("a/b: {input: .nan, output: 2}", "a/b.input is nan"),
        ("a/b: {input: free, output: 2}", "input='free'"),
        ("- 1", "prices by 'provider/model'"),
        ("a: [", "prices.yaml: "),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_price_file(path)
    assert message in str(caught.value)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"Price file \(--prices\) not found: .*none\.yaml"):
        read_price_file(tmp_path / "none.yaml")
