"""From what a user writes (`openai/gpt-5.1`, a base URL, environment variables) to one endpoint."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.secrets import (
    HiddenHeaders,
    Secret,
    checked_base_url,
    is_loopback,
    is_private,
    is_secret_header,
    split_address,
)


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider's OpenAI-compatible endpoint is and which variables speak about it.

    Attributes:
        base_url: the endpoint's address up to, not including, `/chat/completions`.
        key_env: variables that may hold the key, the first one that is set wins.
        base_url_env: the variable that moves the endpoint.
        needs_key: False for servers that people run themselves.
        in_served_name: True where `provider/` can be part of a name that a base URL serves.
    """

    base_url: str
    key_env: tuple[str, ...]
    base_url_env: str
    needs_key: bool = True
    in_served_name: bool = True


def _local(port: int, name: str) -> Provider:
    return Provider(
        f"http://localhost:{port}/v1", (f"{name}_API_KEY",), f"{name}_BASE_URL", False, in_served_name=False
    )


def _hosted(base_url: str, name: str, *more_keys: str) -> Provider:
    return Provider(base_url, (f"{name}_API_KEY", *more_keys), f"{name}_BASE_URL")


PROVIDERS: dict[str, Provider] = {
    "openai": _hosted("https://api.openai.com/v1", "OPENAI"),
    "anthropic": _hosted("https://api.anthropic.com/v1", "ANTHROPIC"),
    "gemini": _hosted("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI", "GOOGLE_API_KEY"),
    "openrouter": _hosted("https://openrouter.ai/api/v1", "OPENROUTER"),
    "together": _hosted("https://api.together.xyz/v1", "TOGETHER"),
    "groq": _hosted("https://api.groq.com/openai/v1", "GROQ"),
    "deepseek": _hosted("https://api.deepseek.com/v1", "DEEPSEEK"),
    "mistral": _hosted("https://api.mistral.ai/v1", "MISTRAL"),
    "fireworks": _hosted("https://api.fireworks.ai/inference/v1", "FIREWORKS"),
    "xai": _hosted("https://api.x.ai/v1", "XAI"),
    "cerebras": _hosted("https://api.cerebras.ai/v1", "CEREBRAS"),
    "perplexity": _hosted("https://api.perplexity.ai", "PERPLEXITY"),
    "vllm": _local(8000, "VLLM"),
    "ollama": _local(11434, "OLLAMA"),
    "lmstudio": _local(1234, "LMSTUDIO"),
}

ALIASES: dict[str, str] = {
    "google": "gemini",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "hosted_vllm": "vllm",
    "lm_studio": "lmstudio",
}
"""Spellings of other tools."""

BUILTIN = "builtin"
"""The prefix of models that need no endpoint (`builtin/offline`)."""

_ANY_SERVICE = "openai-api"  # inspect_ai: openai-api/<service>/<model>, <SERVICE>_API_KEY, <SERVICE>_BASE_URL


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one address.

    Attributes:
        name: the canonical name, as rows and summaries show it.
        provider: the entry of the provider table, None for any other address, `builtin` for models
            that need no endpoint.
        model: the name that is sent.
        base_url: the address, with its query where it has one; empty for `builtin`.
        key: what authorizes the calls, None where nothing does.
    """

    name: str
    provider: str | None
    model: str
    base_url: str
    key: Secret | None = None

    @property
    def is_builtin(self) -> bool:
        """True for models that run in this process."""
        return self.provider == BUILTIN

    @property
    def is_loopback(self) -> bool:
        """True where calls stay on this machine."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def is_versioned(self) -> bool:
        """True where the path or the query of the address names a version of the API."""
        parts = urlsplit(self.base_url)
        return bool(re.search(r"/v\d|/openai\b", parts.path) or _API_VERSION in parts.query)

    def url(self, path: str) -> str:
        """The URL of `path` under the address; its query stays at the end.

        Example:
            >>> Endpoint("m", None, "m", "https://h/openai/deployments/m?api-version=1").url("/models")
            'https://h/openai/deployments/m/models?api-version=1'
        """
        address, mark, query = self.base_url.partition("?")
        return f"{address}{path}{mark}{query}"

    def authorization(self) -> HiddenHeaders:
        """The header that carries the key: `api-key` for keys of Azure, `Authorization` otherwise.

        Example:
            >>> azure = Endpoint("m", None, "m", "https://h.openai.azure.com/openai/v1", Secret("planted"))
            >>> list(azure.authorization())
            ['api-key']
        """
        if self.key is None:
            return HiddenHeaders()
        key = self.key.reveal()
        if _is_azure(self.base_url) and not key.startswith("eyJ"):  # a token of Entra ID is a JSON web token
            return HiddenHeaders({"api-key": key})
        return HiddenHeaders({"Authorization": f"Bearer {key}"})


def canonical(model: str) -> str:
    """`model` with `provider:model` and `provider:/model` spelt `provider/model`.

    A colon is only read so after the name of a known provider: `llama3:8b` is a model with a tag.

    Example:
        >>> canonical("openai:gpt-4.1"), canonical("openai:/gpt-4o-mini"), canonical("llama3:8b")
        ('openai/gpt-4.1', 'openai/gpt-4o-mini', 'llama3:8b')
    """
    model = model.strip()
    prefix, colon, rest = model.partition(":")
    if colon and rest.strip("/") and _is_known(prefix):
        return f"{prefix}/{rest.lstrip('/')}"
    return model


def addressed(name: str, base_url: str | None) -> tuple[str, str | None]:
    """The model and the address of a `MODEL` or `MODEL@BASE_URL`, where `base_url` is that of names without one.

    A built-in model has no address.

    Example:
        >>> addressed("a@http://localhost:1/v1", "http://gpu:8000/v1"), addressed("b", "http://gpu:8000/v1")
        (('a', 'http://localhost:1/v1'), ('b', 'http://gpu:8000/v1'))
        >>> addressed("builtin/offline", "http://gpu:8000/v1")
        ('builtin/offline', None)
    """
    model, own = split_address(name)
    is_builtin = canonical(model).partition("/")[0] == BUILTIN
    return model, own or (None if is_builtin else base_url)


def resolve(config: LLMConfig, environ: Mapping[str, str] | None = None) -> Endpoint:
    """The endpoint that `config` means, with its key; nothing is sent.

    Args:
        config: the model as the user wrote it.
        environ: environment variables; those of the process by default.

    Raises:
        ConfigError: unknown provider, missing key, or a base URL that is not acceptable; or the key would cross
            the internet over plain HTTP.

    Example:
        >>> env = {"OPENAI_API_KEY": "sk-planted-key"}
        >>> resolve(LLMConfig("openai:gpt-5.1"), env)
        Endpoint(name='openai/gpt-5.1', provider='openai', model='gpt-5.1',
            base_url='https://api.openai.com/v1', key=Secret(<hidden>))
        >>> resolve(LLMConfig("opnai/gpt-5.1"), env)
        Traceback (most recent call last):
        autorubric.errors.ConfigError: unknown provider 'opnai' in model 'opnai/gpt-5.1'; did you ...
        >>> resolve(LLMConfig("openai/gpt-5.1"), {})
        Traceback (most recent call last):
        autorubric.errors.ConfigError: no key for openai/gpt-5.1: set OPENAI_API_KEY
    """
    endpoint = _resolved(config, os.environ if environ is None else environ)
    parts = urlsplit(endpoint.base_url)
    carries_key = endpoint.key is not None or any(map(is_secret_header, config.extra_headers))
    if (
        parts.scheme == "http"
        and carries_key
        and not config.allow_plain_http
        and not is_private(parts.hostname or "")
    ):
        raise ConfigError(
            f"the key for {endpoint.name} would go to {parts.hostname} over plain HTTP, where anybody on the way can "
            "read it; use an https:// address, or pass --allow-plain-http (LLMConfig(allow_plain_http=True))"
        )
    return endpoint


def _resolved(config: LLMConfig, environ: Mapping[str, str]) -> Endpoint:
    name = canonical(config.model)
    prefix, _, rest = name.partition("/")
    base_url = (config.api_base or "").strip()
    if prefix == BUILTIN:
        if base_url:
            raise ConfigError("a built-in model runs in this process and asks no address; leave its base URL out")
        return Endpoint(name, BUILTIN, rest, "")
    if base_url:
        return _at_address(config, name, base_url, environ)
    if prefix == _ANY_SERVICE and rest:
        return _at_service(config, name, environ)
    if rest and _is_known(prefix):
        provider = ALIASES.get(prefix, prefix)
        entry = PROVIDERS[provider]
        moved = environ.get(entry.base_url_env, "").strip()
        address = checked_base_url(moved, entry.base_url_env) if moved else entry.base_url
        key = _key(config, entry.key_env, environ)
        return _with_needed_key(Endpoint(name, provider, rest, address, key), entry.key_env)
    return _without_provider(config, name, environ)


def _is_known(prefix: str) -> bool:
    return prefix in PROVIDERS or prefix in ALIASES or prefix in (_ANY_SERVICE, BUILTIN)


def _at_address(config: LLMConfig, name: str, base_url: str, environ: Mapping[str, str]) -> Endpoint:
    """An explicit base URL: the name goes out as written, less what can never be part of it."""
    address = checked_base_url(base_url, "api_base")
    provider = _provider_at(address)
    spelt_with_colon = name != config.model.strip()
    prefix, _, rest = name.partition("/")
    keys: tuple[str, ...] = PROVIDERS[provider].key_env if provider else ("OPENAI_API_KEY",)
    if _is_azure(address):
        keys = (AZURE_KEY, *keys)
    model = name
    if rest and prefix == _ANY_SERVICE:
        model = rest.partition("/")[2] or rest
    elif rest and _is_known(prefix):
        entry = PROVIDERS[ALIASES.get(prefix, prefix)]
        if spelt_with_colon or not entry.in_served_name or ALIASES.get(prefix, prefix) == provider:
            model = rest
        if not entry.in_served_name:
            provider, keys = provider or ALIASES.get(prefix, prefix), entry.key_env
    return _with_needed_key(Endpoint(name, provider, model, address, _key(config, keys, environ)), keys)


def _at_service(config: LLMConfig, name: str, environ: Mapping[str, str]) -> Endpoint:
    _, service, model = (*name.split("/", 2), "", "")[:3]
    variable = re.sub(r"\W", "_", service).upper()
    base_url = environ.get(f"{variable}_BASE_URL", "").strip()
    if not model or not base_url:
        raise ConfigError(
            f"model {name!r} has no address; write openai-api/<service>/<model> and set "
            f"{variable or '<SERVICE>'}_BASE_URL, or pass a base URL"
        )
    address = checked_base_url(base_url, f"{variable}_BASE_URL")
    keys = (f"{variable}_API_KEY",)
    return _with_needed_key(Endpoint(name, None, model, address, _key(config, keys, environ)), keys)


def _without_provider(config: LLMConfig, name: str, environ: Mapping[str, str]) -> Endpoint:
    prefix, *slash = re.split("[/:]", name, maxsplit=1)
    if slash and _is_known(prefix):
        raise ConfigError(f"model {name!r} names a provider and no model; write '{prefix}/<model>'")
    near = difflib.get_close_matches(prefix.lower(), [*PROVIDERS, *ALIASES], n=1, cutoff=0.7) if slash else []
    base_url = environ.get("OPENAI_BASE_URL", "").strip()
    if base_url and not near:
        address = checked_base_url(base_url, "OPENAI_BASE_URL")
        keys = ("OPENAI_API_KEY",)
        endpoint = Endpoint(name, _provider_at(address), name, address, _key(config, keys, environ))
        return _with_needed_key(endpoint, keys)
    if not near and "/" not in name:
        raise ConfigError(
            f"model {name!r} names no provider; write 'openai/{name}' (or another provider), "
            "or pass the base URL of the endpoint that serves it"
        )
    hint = f"did you mean {near[0]!r}? " if near else "pass a base URL, or use a known one. "
    raise ConfigError(f"unknown provider {prefix!r} in model {name!r}; {hint}Known: {', '.join(PROVIDERS)}")


def _provider_at(base_url: str) -> str | None:
    """The table's provider at this host, so that no provider is sent another one's key."""
    host = urlsplit(base_url).hostname
    if is_loopback(host or ""):
        return None
    return next((name for name, p in PROVIDERS.items() if urlsplit(p.base_url).hostname == host), None)


_API_VERSION = "api-version="
_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
AZURE_KEY = "AZURE_OPENAI_API_KEY"
"""The variable that holds the key of addresses at Azure."""


def _is_azure(base_url: str) -> bool:
    """Whether an address takes keys in the header `api-key`: Azure's hosts, and gateways with its query."""
    parts = urlsplit(base_url)
    return (parts.hostname or "").endswith(_AZURE_HOSTS) or _API_VERSION in parts.query


def _key(config: LLMConfig, variables: tuple[str, ...], environ: Mapping[str, str]) -> Secret | None:
    if config.api_key and config.api_key.strip():
        return checked_key(config.api_key, "api_key")
    if config.api_key_env:
        variables = (config.api_key_env,)
    for variable in variables:
        if environ.get(variable, "").strip():
            return checked_key(environ[variable], variable)
    if config.api_key_env:
        raise ConfigError(f"no key for {config.model}: set {config.api_key_env}")
    return None


def checked_key(key: str, source: str) -> Secret:
    """A key without the space around it, if a header can hold it.

    Raises:
        ConfigError: naming where the key is from, and never the key.

    Example:
        >>> checked_key("two words", "OPENAI_API_KEY")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: OPENAI_API_KEY holds characters that no key has (spaces, ...
    """
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{source} holds characters that no key has (spaces, line breaks or non-ASCII)")
    return Secret(key)


def _with_needed_key(endpoint: Endpoint, variables: tuple[str, ...]) -> Endpoint:
    keyless = endpoint.provider is not None and not PROVIDERS[endpoint.provider].needs_key
    if endpoint.key is None and not keyless and not endpoint.is_loopback:
        where = "" if endpoint.provider else f" at {endpoint.base_url}"
        hint = "" if endpoint.provider else f" (or write 'vllm/{endpoint.model}' where none is needed)"
        raise ConfigError(f"no key for {endpoint.name}{where}: set {' or '.join(variables)}{hint}")
    return endpoint
