"""Which providers offer batches, in which dialect, and at what part of the list price."""

from __future__ import annotations

from typing import NamedTuple

from autorubric.errors import ConfigError
from autorubric.llm.batches.anthropic import AnthropicDialect
from autorubric.llm.batches.dialect import BatchDialect, Limits
from autorubric.llm.batches.gemini import GeminiDialect
from autorubric.llm.batches.openai import MistralDialect, OpenAIDialect, OpenRouterDialect
from autorubric.llm.http.providers import Endpoint


class Service(NamedTuple):
    """A provider's batch service: its dialect, and what it charges as a part of the list price."""

    dialect: BatchDialect
    price: float = 1.0


SERVICES: dict[str, Service] = {
    "openai": Service(OpenAIDialect(), 0.5),
    "anthropic": Service(AnthropicDialect(), 0.5),
    "gemini": Service(GeminiDialect(), 0.5),
    "mistral": Service(MistralDialect(), 0.5),
    "openrouter": Service(OpenRouterDialect(), 0.5),
    "together": Service(OpenAIDialect(Limits(bytes=100_000_000), False, "/files/upload", "batch-api"), 0.5),
    "groq": Service(OpenAIDialect(), 0.5),
    "dashscope": Service(OpenAIDialect(), 0.5),
}

_ELSEWHERE = Service(OpenAIDialect())
"""Any other address may offer batches in OpenAI's form, at a price that is not known to be lower."""


def find_service(endpoint: Endpoint) -> Service:
    """The batch service of an endpoint.

    Raises:
        ConfigError: its provider offers none that is known.

    Example:
        >>> from autorubric.llm.config import LLMConfig
        >>> from autorubric.llm.http.providers import resolve
        >>> find_service(resolve(LLMConfig("deepseek/deepseek-chat"), {"DEEPSEEK_API_KEY": "k"}))
        Traceback (most recent call last):
        autorubric.errors.ConfigError: deepseek/deepseek-chat: deepseek offers no batches; ...
    """
    if endpoint.provider is None:
        return _ELSEWHERE
    service = SERVICES.get(endpoint.provider)
    if service is None:
        raise ConfigError(
            f"{endpoint.name}: {endpoint.provider} offers no batches; leave out --batch (in Python: batch), or use a "
            f"model of {', '.join(SERVICES)}, or an address of your own that takes OpenAI's batches"
        )
    return service
