"""Providers, and the endpoint that a model name, a base URL and the environment describe."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from urllib.parse import urlsplit

from autorubric.errors import ConfigError
from autorubric.files.keys import find_nearest_key
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.secrets import (
    HiddenHeaders,
    Secret,
    check_base_url,
    is_loopback,
    is_private,
    is_secret_header,
    read_environment,
    split_address,
)
from autorubric.plugins import find_plugins, load_plugin


@dataclass(frozen=True, slots=True)
class Provider:
    """An OpenAI-compatible service: its address, and the environment variables that configure it.

    An installed package adds one under the entry point group `autorubric.providers`.

    Attributes:
        base_url: the address up to, not including, `/chat/completions`.
        key_env: variables that may contain the key; the first one that is set wins.
        base_url_env: the variable that overrides the address.
        needs_key: False for servers that people run themselves.
        in_served_name: whether a name that a base URL serves may begin with `provider/`.

    Example:
        >>> from autorubric.llm import Provider
        >>> Provider("https://llm.example.com/v1", ("ACME_API_KEY",), "ACME_BASE_URL").needs_key
        True
    """

    base_url: str
    key_env: tuple[str, ...]
    base_url_env: str
    needs_key: bool = True
    in_served_name: bool = True


def _make_local(port: int, name: str) -> Provider:
    return Provider(
        f"http://localhost:{port}/v1", (f"{name}_API_KEY",), f"{name}_BASE_URL", False, in_served_name=False
    )


def _make_hosted(base_url: str, name: str, *more_keys: str) -> Provider:
    return Provider(base_url, (f"{name}_API_KEY", *more_keys), f"{name}_BASE_URL")


PROVIDERS: dict[str, Provider] = {
    "openai": _make_hosted("https://api.openai.com/v1", "OPENAI"),
    "anthropic": _make_hosted("https://api.anthropic.com/v1", "ANTHROPIC"),
    "gemini": _make_hosted("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI", "GOOGLE_API_KEY"),
    "openrouter": _make_hosted("https://openrouter.ai/api/v1", "OPENROUTER"),
    "together": _make_hosted("https://api.together.xyz/v1", "TOGETHER"),
    "groq": _make_hosted("https://api.groq.com/openai/v1", "GROQ"),
    "deepseek": _make_hosted("https://api.deepseek.com/v1", "DEEPSEEK"),
    "mistral": _make_hosted("https://api.mistral.ai/v1", "MISTRAL"),
    "fireworks": _make_hosted("https://api.fireworks.ai/inference/v1", "FIREWORKS"),
    "xai": _make_hosted("https://api.x.ai/v1", "XAI"),
    "cerebras": _make_hosted("https://api.cerebras.ai/v1", "CEREBRAS"),
    "perplexity": _make_hosted("https://api.perplexity.ai", "PERPLEXITY"),
    "dashscope": _make_hosted("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE"),
    "volcengine": _make_hosted("https://ark.cn-beijing.volces.com/api/v3", "ARK", "VOLCENGINE_API_KEY"),
    "github": _make_hosted("https://models.github.ai/inference", "GITHUB", "GITHUB_TOKEN"),
    "vllm": _make_local(8000, "VLLM"),
    "ollama": _make_local(11434, "OLLAMA"),
    "lmstudio": _make_local(1234, "LMSTUDIO"),
}

ALIASES: dict[str, str] = {
    "google": "gemini",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "hosted_vllm": "vllm",
    "lm_studio": "lmstudio",
}
"""Names in other tools."""

_OPENAI = "openai"
BUILTIN = "builtin"
"""The prefix of models that run in this process (`builtin/offline`)."""

_ANY_SERVICE = "openai-api"  # inspect_ai: openai-api/<service>/<model>, <SERVICE>_API_KEY, <SERVICE>_BASE_URL


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one address.

    `name` is the canonical name in rows and summaries, `model` the name that is sent. `provider` is None for an
    address outside the provider table, and `builtin` for models that need no address. `keyed` is the name in the keys
    of ledgers where it is not `model`.
    """

    name: str
    provider: str | None
    model: str
    base_url: str
    key: Secret | None = None
    keyed: str | None = None

    @property
    def is_loopback(self) -> bool:
        """True where calls stay on this machine."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def is_versioned(self) -> bool:
        """True if the path or query of the address names an API version."""
        parts = urlsplit(self.base_url)
        return bool(re.search(r"/v\d|/openai\b", parts.path) or _API_VERSION in parts.query)

    def build_url(self, path: str) -> str:
        """Return the URL of `path` under the address; its query stays at the end."""
        address, mark, query = self.base_url.partition("?")
        return f"{address}{path}{mark}{query}"

    def build_authorization(self) -> HiddenHeaders:
        """Return the header with the key: `api-key` for keys of Azure, `Authorization` otherwise."""
        if self.key is None:
            return HiddenHeaders()
        key = self.key.reveal()
        if _is_azure(self.base_url) and not key.startswith("eyJ"):  # a token of Entra ID is a JSON web token
            return HiddenHeaders({"api-key": key})
        return HiddenHeaders({"Authorization": f"Bearer {key}"})


def normalize_name(model: str) -> str:
    """`model` with `provider:model` and `provider:/model` spelled `provider/model`.

    A colon is read this way only after the name of a known provider: `llama3:8b` is a model with a tag.
    """
    model = model.strip()
    prefix, colon, rest = model.partition(":")
    if colon and rest.strip("/") and _is_known(prefix):
        return f"{prefix}/{rest.lstrip('/')}"
    return model


def resolve_address(name: str, base_url: str | None) -> tuple[str, str | None]:
    """The model and address of `MODEL` or `MODEL@BASE_URL`; `base_url` is for names without one, unless built-in."""
    model, own = split_address(name)
    return model, own or (None if is_builtin(model) else base_url)


def is_builtin(model: str) -> bool:
    """Return whether a model of this name runs in this process.

    Example:
        >>> is_builtin("builtin/offline"), is_builtin("openai/gpt-5.1")
        (True, False)
    """
    return normalize_name(model).partition("/")[0] == BUILTIN


def is_self_hosted(model: str) -> bool:
    """Return whether a model is named as one of a server that people run themselves, which has no price.

    Example:
        >>> is_self_hosted("vllm/Qwen/Qwen3-8B"), is_self_hosted("openai/gpt-5.1"), is_self_hosted("tiny")
        (True, False, False)
    """
    provider = find_provider(model.partition("/")[0])
    return provider is not None and not provider.needs_key


def resolve(config: LLMConfig, environ: Mapping[str, str] | None = None) -> Endpoint:
    """Return the endpoint that `config` describes, with its key; nothing is sent.

    Raises:
        ConfigError: unknown provider, missing key, unacceptable base URL, or a key that would cross the internet over
            plain HTTP.
    """
    environ = read_environment(config.api_key_env) if environ is None else environ
    try:
        endpoint = _build_endpoint(config, environ)
    except _NoKeyError as error:
        if (noted := keys_missing.get()) is None:
            raise
        noted.update(dict.fromkeys(error.problems))
        endpoint = _build_endpoint(replace(config, api_key=_IN_PLACE_OF_A_KEY, api_key_env=None), environ)
    parts = urlsplit(endpoint.base_url)
    carries_key = endpoint.key is not None or any(map(is_secret_header, config.extra_headers))
    is_exposed = parts.scheme == "http" and not is_private(parts.hostname or "")
    if is_exposed and carries_key and not config.allow_plain_http:
        raise ConfigError(
            f"the key for {endpoint.name} would go to {parts.hostname} over plain HTTP, where anyone on the network "
            "can read it; use an https:// address, or pass --allow-plain-http (LLMConfig(allow_plain_http=True))"
        )
    return endpoint


def _build_endpoint(config: LLMConfig, environ: Mapping[str, str]) -> Endpoint:
    name = normalize_name(config.model)
    prefix, _, rest = name.partition("/")
    base_url = (config.api_base or "").strip()
    if prefix == BUILTIN:
        if base_url:
            raise ConfigError("a built-in model runs in this process and has no address; remove its base URL")
        return Endpoint(name, BUILTIN, rest, "")
    if base_url:
        return _resolve_at_address(config, name, base_url, environ)
    if prefix == _ANY_SERVICE and rest:
        return _resolve_at_service(config, name, environ)
    provider = ALIASES.get(prefix, prefix)
    entry = find_provider(provider) if rest else None
    if entry is not None:
        moved = environ.get(entry.base_url_env, "").strip()
        address = check_base_url(moved, entry.base_url_env) if moved else entry.base_url
        return _with_key(Endpoint(name, provider, rest, address), entry.key_env, config, environ)
    return _resolve_without_provider(config, name, environ)


def find_provider(name: str | None) -> Provider | None:
    """Return the provider of this name: built in (which wins), or registered by an installed package."""
    return PROVIDERS.get(name) or _load_provider(name) if name else None


def list_providers() -> dict[str, Provider]:
    """Return every provider by name, those of installed packages included."""
    names = dict.fromkeys((*PROVIDERS, *find_plugins("providers")))
    return {name: provider for name in names if (provider := find_provider(name))}


def find_provider_name(host: str) -> str | None:
    """Return the provider whose host this is, or a regional one of it: eu.api.openai.com."""
    hosts = ((name, urlsplit(provider.base_url).hostname) for name, provider in list_providers().items())
    return next((name for name, own in hosts if f".{host}".endswith(f".{own}")), None)


@cache
def _load_provider(name: str) -> Provider | None:
    found = load_plugin("providers", name)
    if found is not None and not isinstance(found, Provider):
        kind = type(found).__name__
        raise ConfigError(f"entry point {name!r} in group 'autorubric.providers' is a {kind}; expected a Provider")
    return found and replace(found, base_url=check_base_url(found.base_url, f"base_url of provider {name}"))


def _is_known(prefix: str) -> bool:
    return prefix in (*ALIASES, _ANY_SERVICE, BUILTIN) or find_provider(prefix) is not None


def _resolve_at_address(config: LLMConfig, name: str, base_url: str, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint at a given base URL: the name is sent as written, except for what is not part of a served name.

    `openai/NAME` at an address outside the provider table sends NAME, as LiteLLM does, unless NAME is one of the open
    weights that OpenAI publishes and servers list as `openai/gpt-oss-…`.
    """
    address = check_base_url(base_url, "api_base")
    provider, keys = _find_provider_at(address, environ)
    prefix, _, rest = name.partition("/")
    prefix = ALIASES.get(prefix, prefix)
    if _is_azure(address):
        keys = (AZURE_KEY, *keys)
    model, keyed = name, None
    has_colon = name != config.model.strip()
    if rest and prefix == _ANY_SERVICE:
        model = rest.partition("/")[2] or rest
    elif rest and (entry := find_provider(prefix)):
        if not entry.in_served_name or prefix == provider or (has_colon and prefix == _OPENAI):
            model = rest
        elif has_colon and provider is None:
            name = model = config.model.strip()  # a model with a tag, such as Ollama's mistral:7b
        elif prefix == _OPENAI and provider is None and not rest.startswith("gpt-oss"):
            model, keyed = rest, name  # ledgers of earlier versions, which sent the whole name, stay valid
        if not entry.in_served_name:
            provider, keys = provider or prefix, entry.key_env
    return _with_key(Endpoint(name, provider, model, address, keyed=keyed), keys, config, environ)


def _resolve_at_service(config: LLMConfig, name: str, environ: Mapping[str, str]) -> Endpoint:
    _, service, model = (*name.split("/", 2), "", "")[:3]
    variable = re.sub(r"\W", "_", service).upper()
    base_url = environ.get(f"{variable}_BASE_URL", "").strip()
    if not model or not base_url:
        raise ConfigError(
            f"model {name!r} has no address; write openai-api/<service>/<model> and set "
            f"{variable or '<SERVICE>'}_BASE_URL, or pass a base URL"
        )
    address = check_base_url(base_url, f"{variable}_BASE_URL")
    keys = (f"{variable}_API_KEY",)
    return _with_key(Endpoint(name, None, model, address), keys, config, environ)


def _resolve_without_provider(config: LLMConfig, name: str, environ: Mapping[str, str]) -> Endpoint:
    prefix, *slash = re.split("[/:]", name, maxsplit=1)
    if slash and _is_known(prefix):
        raise ConfigError(f"model {name!r} has a provider but no model; write '{prefix}/<model>'")
    known = [*PROVIDERS, *find_plugins("providers")]
    near = find_nearest_key(prefix, [*known, *ALIASES]) if slash else None
    base_url = environ.get("OPENAI_BASE_URL", "").strip()
    if base_url and not near:
        address = check_base_url(base_url, "OPENAI_BASE_URL")
        provider, _ = _find_provider_at(address, environ)
        return _with_key(Endpoint(name, provider, name, address), _OPENAI_KEY, config, environ)
    if "@" in name:
        raise ConfigError(f"model {name!r}: the address after '@' has to begin with http:// or https://")
    if not near and "/" not in name:
        raise ConfigError(
            f"model {name!r} has no provider; write 'openai/{name}' (or another provider), or {name}@BASE_URL for "
            "your own endpoint"
        )
    hint = f"did you mean {near!r}?" if near else f"write {name}@BASE_URL for your own endpoint."
    raise ConfigError(f"unknown provider {prefix!r} in model {name!r}; {hint} Known providers: {', '.join(known)}")


_OPENAI_KEY = ("OPENAI_API_KEY",)


def _find_provider_at(base_url: str, environ: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the provider at this host, and the variables of its key, so that no host is sent another one's key."""
    host = urlsplit(base_url).hostname or ""
    name = None if is_loopback(host) else find_provider_name(host)
    if name is not None:
        provider = list_providers()[name]
        return name if host == urlsplit(provider.base_url).hostname else None, provider.key_env  # None in regions
    base_url = environ.get("OPENAI_BASE_URL", "")
    is_own = is_private(host) or re.match(rf"\s*https?://{re.escape(host)}(?:[:/?]|\s*$)", base_url, re.IGNORECASE)
    return None, _OPENAI_KEY if is_own or host.endswith(AZURE_HOSTS) else ()


_API_VERSION = "api-version="
AZURE_HOSTS = (".openai.azure.com", ".openai.azure.us", ".cognitiveservices.azure.com", ".services.ai.azure.com")
AZURE_KEY = "AZURE_OPENAI_API_KEY"
"""The variable with the key for addresses at Azure."""


def _is_azure(base_url: str) -> bool:
    """Return whether an address takes keys in the header `api-key`: Azure's hosts, and gateways with its query."""
    parts = urlsplit(base_url)
    return (parts.hostname or "").endswith(AZURE_HOSTS) or _API_VERSION in parts.query


keys_used: ContextVar[set[str] | None] = ContextVar("keys_used", default=None)
"""Collects the names of the variables whose keys are used, if it is set."""

keys_missing: ContextVar[dict[str, None] | None] = ContextVar("keys_missing", default=None)
"""Collects a sentence for each missing key where no request is sent (dry runs); elsewhere each is an error."""
_IN_PLACE_OF_A_KEY = "no-key-is-set"
_NAME_IT = (
    "name its variable with --api-key-env (api_key_env=); OPENAI_API_KEY is not sent to an unknown host by default"
)


class _NoKeyError(ConfigError):
    """The key of a model is not set."""


def _find_key(config: LLMConfig, variables: tuple[str, ...], environ: Mapping[str, str]) -> Secret | None:
    if config.api_key and config.api_key.strip():
        return check_key(config.api_key, "api_key")
    if config.api_key_env:
        variables = (config.api_key_env,)
    for variable in variables:
        if environ.get(variable, "").strip():
            if (names := keys_used.get()) is not None:
                names.add(variable)
            return check_key(environ[variable], variable)
    if config.api_key_env:
        raise _NoKeyError(f"no key for {config.model}: set {config.api_key_env}")
    return None


def check_key(key: str, source: str) -> Secret:
    """Return a key without surrounding space, if a header can carry it; the `ConfigError` never shows the key."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{source} contains characters that no key has (spaces, line breaks or non-ASCII)")
    return Secret(key)


def _with_key(endpoint: Endpoint, keys: tuple[str, ...], config: LLMConfig, environ: Mapping[str, str]) -> Endpoint:
    endpoint = replace(endpoint, key=_find_key(config, keys, environ))
    provider = find_provider(endpoint.provider)
    needs_key = provider is None or provider.needs_key
    if endpoint.key is None and needs_key and not endpoint.is_loopback:
        where = "" if endpoint.provider else f" at {endpoint.base_url}"
        hint = "" if endpoint.provider else f" (or write 'vllm/{endpoint.model}' where none is needed)"
        how = f"set {' or '.join(keys)}" if keys else _NAME_IT
        raise _NoKeyError(f"no key for {endpoint.name}{where}: {how}{hint}")
    return endpoint
