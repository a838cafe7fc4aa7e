"""Who receives a key: one variable may not send its key to several owners of endpoints."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.providers import AZURE_HOSTS, find_provider_name, resolve, resolve_address
from autorubric.llm.http.secrets import is_private

_NO_KEY = "not-sent"
_REGION = re.compile(r"(?:[a-z]+-)+(?:north|south|east|west|central)[a-z]*-?\d")
"""A label of a cloud's hosts; the keys of Bedrock and Hugging Face are valid in all regions."""


def check_key_owners(
    key_env: str, models: Iterable[tuple[str, str | None]], environ: Mapping[str, str] | None = None
) -> None:
    """Refuse to send the key in one variable to several owners; `models` are names and base URLs.

    Example:
        >>> check_key_owners("MY_KEY", [("openai/gpt-5.1", None), ("vllm/qwen", None), ("m", "http://localhost/v1")])
        >>> check_key_owners("MY_KEY", [("openai/gpt-5.1", None), ("m", "https://llm.example.com/v1")])
        Traceback (most recent call last):
        autorubric.errors.ConfigError: the key in MY_KEY would be sent to openai and example.com; set the key ...
    """
    owners: dict[str | None, None] = {}
    for name, base_url in models:
        model, address = resolve_address(name, base_url)
        config = LLMConfig(model, api_base=address, api_key=_NO_KEY, allow_plain_http=True)
        owners[_find_owner(urlsplit(resolve(config, environ).base_url).hostname or "")] = None
    names = [owner for owner in owners if owner and not any(owner.endswith(f".{other}") for other in owners)]
    if len(names) > 1:
        raise ConfigError(
            f"the key in {key_env} would be sent to {' and '.join(names)}; set the key variable of each provider "
            "(such as OPENAI_API_KEY) or role instead, pass one --base-url for all, or use host names of one domain"
        )


def _find_owner(host: str) -> str | None:
    """The provider at a host, else its domain, whose hosts and regions may share a key; None in private networks."""
    if is_private(host):
        return None
    if host.endswith(AZURE_HOSTS):
        return "azure"
    labels = host.split(".")
    domain = ["*" if _REGION.fullmatch(label) else label for label in labels[1:]]
    is_name = len(labels) > 2 and not labels[-1].isdigit()
    return find_provider_name(host) or (".".join(domain) if is_name else host)
