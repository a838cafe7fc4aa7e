"""Token counts of a response, and what they cost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from autorubric.errors import ConfigError, InputError, MissingFileError
from autorubric.files import read_document
from autorubric.files.strict_json import decode_json
from autorubric.llm.config import find_price_problems
from autorubric.llm.http.providers import Endpoint, find_provider
from autorubric.llm.request import Reply, Request, Usage

_LARGEST_COUNT = 10**8  # far above any context window; sums still fit into the ledger
_WHOLE = re.compile(r"[0-9]{1,9}(?:\.0+)?")
_MOST_CHARACTERS_PER_TOKEN = 16
_USUAL_CHARACTERS_PER_TOKEN = 5.5
_CONTEXT_STEP, _CONTEXT_REST = 1024, 2
_RUN = re.compile(r"(.)\1+", re.DOTALL)
_LONGEST_QUOTE = 200


def read_usage(body: Mapping[str, Any]) -> Usage | None:
    """Return the token counts that a response states, or None if it states no plausible ones.

    Reads the forms of OpenAI chat completions, the OpenAI Responses API, Anthropic and Gemini. A count may be a float
    without a fraction or a string of digits. Reasoning tokens that an endpoint leaves out of its completion count are
    added to it, because they are billed as completion.
    """
    for key, form in _FORMS:
        stated = body.get(key)
        if isinstance(stated, dict) and (usage := form(stated)) is not None:
            return usage
    return None


def is_plausible(reply: Reply, request: Request) -> bool:
    """Return whether a reply has plausible token counts: at least one token for 16 characters of prompt and reply.

    No tokenizer averages more characters a token, runs of one character aside.
    """
    if reply.usage is None:
        return False
    texts = [text for text in (reply.text, reply.reasoning, reply.refusal) if text]
    asked = [content for _, content in request.messages]
    return _can_hold(reply.usage.completion_tokens, texts) and _can_hold(reply.usage.prompt_tokens, asked)


CUT_PROMPT = (
    "%s: the endpoint counted fewer tokens than a prompt must have, so it seems to have cut the prompt off at its "
    "context length, and to have judged or answered only a part. Raise the context length at the server (Ollama: "
    "OLLAMA_CONTEXT_LENGTH) and run again with --start-over."
)


def is_cut_prompt(reply: Reply, request: Request) -> bool:
    """Whether the endpoint seems to have cut the prompt off at its context length, as Ollama does without an error.

    It then counts 2048 or 4096 tokens, or a few more than half of them, where the text must have taken more: at most
    `_USUAL_CHARACTERS_PER_TOKEN` characters make a token of ordinary text.
    """
    counted = 0 if reply.usage is None else reply.usage.prompt_tokens
    if counted < _CONTEXT_STEP or counted % _CONTEXT_STEP > _CONTEXT_REST:
        return False
    return sum(len(content) for _, content in request.messages) > counted * _USUAL_CHARACTERS_PER_TOKEN


def quote_usage(body: bytes) -> str:
    """Return the usage that a response states, as quoted in a message; a stream's is not quoted."""
    try:
        found = decode_json(body)
    except (ValueError, RecursionError):  # an event stream
        return "none"
    stated = found.get("usage") or found.get("usageMetadata")
    return json.dumps(stated)[:_LONGEST_QUOTE] if stated else "none"


def _can_hold(tokens: int, texts: list[str]) -> bool:
    most = tokens * _MOST_CHARACTERS_PER_TOKEN
    # Runs are collapsed only if the text is too long: a tokenizer makes one token of 128 spaces.
    return sum(map(len, texts)) <= most or sum(len(_RUN.sub(r"\1", text)) for text in texts) <= most


def _read_chat(raw: Mapping[str, Any]) -> Usage | None:
    """OpenAI chat completions; the prompt includes its cached part."""
    details = raw.get("prompt_tokens_details")
    return _build_usage(
        _read_count(raw, "prompt_tokens"),
        _read_count(raw, "completion_tokens"),
        total=_read_count(raw, "total_tokens"),
        cached=_read_count(details, "cached_tokens") or _read_count(raw, "prompt_cache_hit_tokens"),
        reasoning=_read_count(raw.get("completion_tokens_details"), "reasoning_tokens"),
        written=_read_count(details, "cache_write_tokens") or _read_count(raw, "cache_creation_input_tokens"),
    )


def _read_input(raw: Mapping[str, Any]) -> Usage | None:
    """Anthropic, whose input excludes the cached part, and the Responses API, whose input includes it."""
    written, read = _read_part(raw, "cache_creation_input_tokens"), _read_part(raw, "cache_read_input_tokens")
    return _build_usage(
        _add(_read_count(raw, "input_tokens"), written, read),
        _read_count(raw, "output_tokens"),
        total=_read_count(raw, "total_tokens"),
        cached=read or _read_count(raw.get("input_tokens_details"), "cached_tokens"),
        reasoning=_read_count(raw.get("output_tokens_details"), "reasoning_tokens"),
        written=written,
    )


def _read_gemini(raw: Mapping[str, Any]) -> Usage | None:
    """Gemini's own; candidates are missing if the model only thought."""
    thoughts = _read_part(raw, "thoughtsTokenCount")
    answered = _read_part(raw, "candidatesTokenCount") if thoughts else _read_count(raw, "candidatesTokenCount")
    return _build_usage(
        _add(_read_count(raw, "promptTokenCount"), _read_part(raw, "toolUsePromptTokenCount")),
        _add(answered, thoughts),
        total=_read_count(raw, "totalTokenCount"),
        cached=_read_count(raw, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


_FORMS = (("usage", _read_chat), ("usage", _read_input), ("usageMetadata", _read_gemini), ("usage", _read_gemini))
"""Where responses state token counts, and what reads them."""


def _build_usage(
    prompt: int | None,
    completion: int | None,
    *,
    total: int | None,
    cached: int | None,
    reasoning: int | None,
    written: int | None = None,
) -> Usage | None:
    if not prompt:
        return None
    beyond = (total or 0) - prompt
    if completion is None and beyond <= 0:
        return None
    completion, reasoning = max(completion or 0, beyond), reasoning or 0
    if reasoning > completion:
        completion += reasoning
    cached, written = cached or 0, written or 0
    if cached + written > prompt:
        cached = written = 0
    return Usage(prompt, completion, cached, reasoning, written)


def _add(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _read_part(raw: Mapping[str, Any], name: str) -> int | None:
    """Return an optional count: 0 if it is missing, None if it is not a count."""
    return 0 if raw.get(name) is None else _read_count(raw, name)


def _read_count(raw: object, name: str) -> int | None:
    """Return a whole number from 0 up, however it is written; None for anything else."""
    value = raw.get(name) if isinstance(raw, dict) else None
    if value is None or (type(value) is int and 0 <= value < _LARGEST_COUNT):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST_COUNT:
        return None
    return value


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens; tokens read from or written to a cache cost `input` unless stated.

    `tiers` are the prices of calls whose prompt has more tokens than a threshold, lowest threshold first; `batch`
    is the price in the provider's batch service, if known.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    tiers: tuple[tuple[int, Price], ...] = ()
    batch: Price | None = None

    def compute_dollars(self, usage: Usage) -> float:
        """Return the price of one call's `usage`."""
        price = next((tier for above, tier in reversed(self.tiers) if usage.prompt_tokens > above), self)
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        written = min(usage.cache_write_tokens, usage.prompt_tokens - cached)
        whole = (
            (usage.prompt_tokens - cached - written) * price.input
            + cached * (price.input if price.cached is None else price.cached)
            + written * (price.input if price.cache_write is None else price.cache_write)
            + usage.completion_tokens * price.output
        )
        return whole / 1_000_000


def load_prices() -> Mapping[str, Price]:
    """Prices by `provider/model` that are in effect today; `LLMConfig.prices` overrides them."""
    return load_builtin_prices(date.today())


def find_price(endpoint: Endpoint, table: Mapping[str, Price]) -> Price | None:
    """The price of a model or of its dated snapshot at its provider's own address; None elsewhere or if unknown."""
    entry = find_provider(endpoint.provider)
    if entry is None or entry.base_url != endpoint.base_url:
        return None
    name = f"{endpoint.provider}/{endpoint.model}"
    return table.get(name) or table.get(_DATED.sub("", name))


_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")


@cache
def load_builtin_prices(day: date) -> Mapping[str, Price]:
    """Return the table that `make prices` writes, with the announced prices that are in effect on a day.

    Example:
        >>> load_builtin_prices(date(2026, 12, 31))["gemini/gemini-3.8-flash"].output
        3.75
        >>> load_builtin_prices(date(2027, 1, 1))["gemini/gemini-3.8-flash"].output
        7.5
    """
    file = decode_json(Path(__file__).with_name("prices.json").read_bytes())
    prices = {}
    for name, row in file["prices"].items():
        begun = [start for start in row.get("from", ()) if start <= day.isoformat()]
        prices[name] = read_price(row["from"][max(begun)] if begun else row)
    return prices


def read_price(row: Mapping[str, Any]) -> Price:
    """Return the price in a row of the table, or in a user's file or configuration."""
    tiers = tuple((tier["above"], read_price(tier)) for tier in row.get("tiers", ()))
    batch = read_price(row["batch"]) if "batch" in row else None
    return Price(row["input"], row["output"], row.get("cached"), row.get("cache_write"), tiers, batch)


def read_price_file(path: str | Path | None) -> dict[str, dict[str, float]]:
    """Return the prices in a user's YAML file by model, as `LLMConfig` takes them; none without a file.

    Raises:
        MissingFileError: the file does not exist.
        ConfigError: it is not a table of prices.
    """
    if path is None:
        return {}
    try:
        rows = read_document(path, what="Price file (--prices)")
    except MissingFileError:
        raise
    except InputError as error:
        raise ConfigError(error.problems) from None
    if not isinstance(rows, dict):
        raise ConfigError(f"{path}: expected prices by 'provider/model'")
    prices = {
        str(name): {key: value for key, value in row.items() if key != "as_of"} if isinstance(row, dict) else row
        for name, row in rows.items()
    }
    problems = [f"{path}: {name}: {why}" for name, row in prices.items() for why in find_price_problems(row)]
    if problems:
        raise ConfigError(problems)
    return prices
