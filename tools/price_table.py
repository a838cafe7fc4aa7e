"""`make prices`: the built-in price table, from the data of genai-prices and, for two providers, of LiteLLM."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from genai_prices.data import providers
from genai_prices.types import ModelInfo, ModelPrice, Provider, StartDateConstraint, TieredPrices

Row: TypeAlias = dict[str, Any]

TABLE = Path(__file__).parents[1] / "src/autorubric/llm/http/prices.json"

# The provider's name in genai-prices, and ours.
_PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "gemini",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "x-ai": "xai",
    "openrouter": "openrouter",
    "together": "together",
    "groq": "groq",
    "fireworks": "fireworks",
    "cerebras": "cerebras",
    "perplexity": "perplexity",
}
# Providers that genai-prices lacks, under the name that LiteLLM and we give them.
FROM_LITELLM = ("dashscope", "volcengine")
_LITELLM_TABLE = "litellm/model_prices_and_context_window_backup.json"
_LITELLM_COLUMNS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cached": "cache_read_input_token_cost",
}
_COLUMNS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
# A model that bills these has no price in tokens of text alone.
_OTHER_UNITS = (
    "requests_kcount",
    "output_reasoning_mtok",
    "output_citation_mtok",
    "output_image_mtok",
    "output_audio_mtok",
    "output_video_mtok",
)


def price_rows(as_of: date) -> dict[str, Row]:
    """Prices by `provider/model` that hold on a day, with those announced for later days."""
    rows: dict[str, Row] = {}
    for provider in providers:
        ours = _PROVIDERS.get(provider.id)
        if ours is None:
            continue
        for model in provider.models:
            row = _row(model, as_of)
            if row is not None:
                rows.update({f"{ours}/{name}": row for name in _names(provider, model) if _is_ours(ours, name)})
    return dict(sorted(rows.items()))


def litellm_rows(models: Mapping[str, Mapping[str, Any]]) -> dict[str, Row]:
    """Prices of the providers that only LiteLLM has; a reasoning token costs what the dearest output token costs."""
    rows: dict[str, Row] = {}
    for name, model in sorted(models.items()):
        if name.startswith(tuple(f"{provider}/" for provider in FROM_LITELLM)) and model.get("mode") == "chat":
            tiers = sorted(model.get("tiered_pricing") or [model], key=lambda tier: tier.get("range", [0])[0])
            first, *others = [_litellm_columns(tier) for tier in tiers]
            if first:
                later = [{"above": int(tier["range"][0]), **row} for tier, row in zip(tiers[1:], others, strict=True)]
                rows[name] = {**first, "tiers": later} if later else first
    return rows


def table_text(as_of: date, rows: Mapping[str, Row], source: str) -> str:
    """The table as a JSON file with one model a line, so that changes can be reviewed."""
    head = {"as_of": as_of.isoformat(), "source": source}
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items())]
    return json.dumps(head)[:-1] + ', "prices": {\n' + ",\n".join(lines) + "\n}}\n"


def _litellm_columns(stated: Mapping[str, Any]) -> Row:
    row = {ours: _per_million(stated[field]) for ours, field in _LITELLM_COLUMNS.items() if stated.get(field)}
    if not {"input", "output"} <= row.keys():
        return {}
    return {**row, "output": max(row["output"], _per_million(stated.get("output_cost_per_reasoning_token") or 0))}


def _per_million(dollars: float) -> float:
    return float(round(Decimal(str(dollars)) * 1_000_000, 6))


def _is_ours(provider: str, name: str) -> bool:
    """Whether the provider's chat endpoint accepts a name."""
    if provider == "gemini":
        return name.startswith(("gemini-", "gemma-"))
    return "/" in name if provider == "openrouter" else ":" not in name


def _names(provider: Provider, model: ModelInfo) -> Iterator[str]:
    """The names that the model is called by."""
    for name in {model.id, *_spelt_out(model.match)}:
        if provider.find_model(name) is model:
            yield name


def _spelt_out(match: Any) -> Iterator[str]:
    for field in ("equals", "starts_with"):
        if hasattr(match, field):
            yield getattr(match, field).rstrip("-@")
    for field in ("or_", "and_"):
        for clause in getattr(match, field, ()):
            yield from _spelt_out(clause)


def _row(model: ModelInfo, day: date) -> Row | None:
    row = _prices_on(model, day)
    if row is None:
        return None
    later = {start: _prices_on(model, start) for start in _starts(model) if start > day}
    changes = {start.isoformat(): found for start, found in sorted(later.items()) if found and found != row}
    return {**row, "from": changes} if changes else row


def _starts(model: ModelInfo) -> Iterator[date]:
    conditional = model.prices if isinstance(model.prices, list) else []
    for found in (*conditional, *(model.price_variants or ())):
        if isinstance(found.constraint, StartDateConstraint):
            yield found.constraint.start_date


def _prices_on(model: ModelInfo, day: date) -> Row | None:
    """The highest prices of a day: some providers charge less at night."""
    row = _dearest(model, day, {})
    batch = _dearest(model, day, {"processing": "batch"})
    return {**row, "batch": batch} if row and batch and batch != row else row


def _dearest(model: ModelInfo, day: date, context: dict[str, str]) -> Row | None:
    hours = (datetime.combine(day, time(hour, 59), UTC) for hour in range(24))
    found = (_columns(model.get_prices(hour, context)) for hour in hours)
    return max((row for row in found if row), key=lambda row: (row["output"], row["input"]), default=None)


def _columns(prices: ModelPrice) -> Row | None:
    given = vars(prices)  # of a price that is not given, the attribute is looked for in all units that there are
    if any(given.get(unit) is not None for unit in _OTHER_UNITS):
        return None
    stated = {ours: value for ours, theirs in _COLUMNS.items() if (value := given.get(theirs)) is not None}
    if not {"input", "output"} <= stated.keys():
        return None
    row: Row = {name: float(_at(value, 0)) for name, value in stated.items()}
    starts = {tier.start for value in stated.values() if isinstance(value, TieredPrices) for tier in value.tiers}
    if starts:
        row["tiers"] = [
            {"above": start, **{name: float(_at(value, start + 1)) for name, value in stated.items()}}
            for start in sorted(starts)
        ]
    return row


def _at(value: Decimal | TieredPrices, prompt_tokens: int) -> Decimal:
    if isinstance(value, Decimal):
        return value
    return next((tier.price for tier in reversed(value.tiers) if prompt_tokens > tier.start), value.base)


def _main(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        more = litellm_rows(json.loads(archive.read(_LITELLM_TABLE)))
    today = date.today()
    rows = {**price_rows(today), **more}
    source = f"genai-prices {version('genai-prices')}; litellm {wheel.name.split('-')[1]} ({', '.join(FROM_LITELLM)})"
    TABLE.write_text(table_text(today, rows, source), encoding="utf-8")
    print(f"{TABLE}: {len(rows):,} models")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
