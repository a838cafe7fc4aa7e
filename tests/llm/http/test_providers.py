from __future__ import annotations

from typing import Any

import pytest

from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.providers import PROVIDERS, resolve
from autorubric.llm.http.secrets import check_base_url
from tests.offenders import each

KEYS = {f"{name.upper()}_API_KEY": f"{name}-key-123" for name in PROVIDERS}


def found(model: str, environ: dict[str, str] | None = None, **config: Any) -> tuple[str, str, str, str | None]:
    endpoint = resolve(LLMConfig(model, **config), KEYS if environ is None else environ)
    key = endpoint.key.reveal() if endpoint.key else None
    return endpoint.name, endpoint.model, endpoint.base_url, key


@each("provider", PROVIDERS)
def test_every_provider_is_reached_by_its_prefix(provider: str) -> None:
    name, model, base_url, key = found(f"{provider}/some/model")
    assert (name, model) == (f"{provider}/some/model", "some/model")
    assert (base_url, key) == (PROVIDERS[provider].base_url, f"{provider}-key-123")
    assert check_base_url(base_url) == base_url


@each("spelling", ["openai/gpt-4.1", "openai:gpt-4.1", "openai:/gpt-4.1", " openai/gpt-4.1 "])
def test_all_spellings_of_a_model_mean_the_same(spelling: str) -> None:
    assert found(spelling)[:2] == ("openai/gpt-4.1", "gpt-4.1")


def test_aliases_of_other_tools_are_understood() -> None:
    assert found("hosted_vllm/m", {})[2] == "http://localhost:8000/v1"
    assert found("google/gemini-2.5-pro", {"GOOGLE_API_KEY": "google-key-1"})[3] == "google-key-1"


@each(
    ("model", "served"),
    [
        ("gpt-5.1", "gpt-5.1"),
        ("openai/my-finetune", "my-finetune"),
        ("openai/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("openai/openai/gpt-oss-120b", "openai/gpt-oss-120b"),
        ("openai/gpt-oss-120b", "openai/gpt-oss-120b"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("mistral/Mistral-7B", "mistral/Mistral-7B"),
        ("openai:gpt-5.1", "gpt-5.1"),
        ("vllm/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("hosted_vllm/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("ollama/llama3:8b", "llama3:8b"),
        ("ollama:llama3:8b", "llama3:8b"),
        ("mistral:7b", "mistral:7b"),
        ("vllm:mistral:7b", "mistral:7b"),
        ("llama3:8b", "llama3:8b"),
        ("openai-api/mine/some-model", "some-model"),
        ("openai-api/some-model", "some-model"),
    ],
)
def test_an_explicit_address_is_sent_the_name_it_serves(model: str, served: str) -> None:
    assert found(model, {}, api_base="http://localhost:9/v1", api_key="key-123")[1:3] == (
        served,
        "http://localhost:9/v1",
    )


@each("host", ["https://openrouter.ai/api/v1", "https://models.github.ai/inference"])
def test_a_known_host_is_sent_the_whole_name_that_it_lists(host: str) -> None:
    _, model, *_ = found("openai/gpt-5.1", api_base=host)
    assert model == "openai/gpt-5.1"


def test_a_known_host_as_address_gets_its_own_providers_key_and_name() -> None:
    _, model, base_url, key = found("deepseek/deepseek-chat", api_base="https://api.deepseek.com/v1/")
    assert (model, base_url, key) == ("deepseek-chat", "https://api.deepseek.com/v1", "deepseek-key-123")


def test_another_providers_key_is_never_sent_to_a_known_host() -> None:
    with pytest.raises(ConfigError, match="set DEEPSEEK_API_KEY"):
        found("deepseek-chat", {"OPENAI_API_KEY": "openai-key"}, api_base="https://api.deepseek.com/v1")


def test_environment_variables_move_an_endpoint() -> None:
    moved = {"VLLM_BASE_URL": "http://10.0.0.5:8000/v1/"}
    assert found("vllm/m", moved)[2] == "http://10.0.0.5:8000/v1"
    proxied = {"OPENAI_BASE_URL": "http://localhost:4000", "OPENAI_API_KEY": "proxy-key"}
    assert found("openai/gpt-5.1", proxied) == (
        "openai/gpt-5.1",
        "gpt-5.1",
        "http://localhost:4000",
        "proxy-key",
    )
    assert found("gpt-5.1", proxied)[1:3] == ("gpt-5.1", "http://localhost:4000")
    assert found("Qwen/Qwen3-8B", proxied)[1] == "Qwen/Qwen3-8B"
    service = {"MY_LAB_BASE_URL": "https://lab.example/v1", "MY_LAB_API_KEY": "lab-key"}
    assert found("openai-api/my-lab/m", service)[1:] == ("m", "https://lab.example/v1", "lab-key")


def test_the_key_of_the_configuration_wins_and_a_named_variable_comes_next() -> None:
    env = {"OPENAI_API_KEY": "from-provider", "TEAM_KEY": "from-team"}
    assert found("openai/m", env, api_key="from-config")[3] == "from-config"
    assert found("openai/m", env, api_key_env="TEAM_KEY")[3] == "from-team"
    with pytest.raises(ConfigError, match="set NO_SUCH_KEY"):
        found("openai/m", env, api_key_env="NO_SUCH_KEY")


@each(
    ("model", "config", "message"),
    [
        ("openai/gpt-5.1", {}, "no key for openai/gpt-5.1: set OPENAI_API_KEY"),
        ("gemini/g", {}, "set GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("m", {"api_base": "https://host.example/v1"}, "no key for m at https://host.example/v1"),
        ("opnai/gpt-5.1", {}, "unknown provider 'opnai' in model 'opnai/gpt-5.1'; did you mean 'openai'?"),
        ("opnai:gpt-5.1", {}, "did you mean 'openai'?"),
        ("OpenAI/gpt-5.1", {}, "did you mean 'openai'?"),
        ("openai/", {}, "model 'openai/' has a provider but no model; write 'openai/<model>'"),
        ("zzz/m", {}, "Known providers: openai, anthropic"),
        ("gpt-5.1", {}, "write 'openai/gpt-5.1'"),
        ("openai-api/lab/m", {}, "LAB_BASE_URL"),
        ("openai/m", {"api_key": "two words"}, "api_key contains characters"),
        ("openai/m", {"api_key": "line\nbreak"}, "api_key contains characters"),
    ],
)
def test_what_cannot_be_resolved_is_named_before_any_call(model: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        found(model, {}, **config)
    assert message in str(caught.value)
    assert "line\nbreak" not in str(caught.value)


@each(
    ("model", "config"),
    [
        ("ollama/llama3", {}),
        ("vllm/m", {"api_base": "http://10.0.0.5:8000/v1"}),
        ("m", {"api_base": "http://[::1]:1/v1"}),
    ],
)
def test_local_servers_need_no_key(model: str, config: dict[str, Any]) -> None:
    assert found(model, {}, **config)[3] is None


def test_the_builtin_model_stays_recognisable() -> None:
    endpoint = resolve(LLMConfig("builtin/offline"), {})
    assert (endpoint.provider, endpoint.name, endpoint.model) == ("builtin", "builtin/offline", "offline")
    assert resolve(LLMConfig("builtin:offline"), {}).provider == "builtin"


@each(
    ("url", "reason"),
    [
        ("ftp://host/v1", "not an http"),
        ("file:///etc/passwd", "not an http"),
        ("localhost:8000/v1", "not an http"),
        ("host", "not an http"),
        ("http://", "not an http"),
        ("https://user:planted@host/v1", "credentials"),
        ("https://host/v1?key=planted", "query"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://0xA9FEA9FE/v1", "link-local"),
        ("http://2852039166/v1", "link-local"),
        ("http://[fe80::1]/v1", "link-local"),
        ("http://[fe80::1%25eth0]/v1", "link-local"),
        ("http://[::ffff:169.254.169.254]/v1", "link-local"),
        ("http://[::169.254.169.254]/v1", "link-local"),
        ("http://[::ffff:0:169.254.169.254]/v1", "link-local"),
        ("http://[64:ff9b:1::a9fe:a9fe]/v1", "link-local"),
        ("http://[2002:a9fe:a9fe::1]/v1", "link-local"),
        ("http://[2001:0:a9fe:a9fe::1]/v1", "link-local"),  # Teredo: the server
        ("http://[2001::5601:5601]/v1", "link-local"),  # Teredo: the client, 169.254.169.254 with every bit turned
        ("http://169\u3002254\uff61169\uff0e254/v1", "link-local"),
        ("http://metadata\u3002google\u3002internal/v1", "link-local"),
        ("http://metadata.google.internal/v1", "link-local"),
        ("http://instance-data/v1", "link-local"),
        ("http://168.63.129.16/v1", "link-local"),
        ("http://[fd20:ce::254]/v1", "link-local"),
        ("http://host:99999/v1", "not a URL"),
        ("http://host:0/v1", "invalid port"),
        ("http://a..b/v1", "no host"),
        ("http://[::1]x/v1", "not a URL"),
        ("http://xn--/v1", "not a URL"),
        ("https://https://host/v1", "several"),
        ("http://one/v1,http://two/v1", "several"),
    ],
)
def test_addresses_that_must_not_get_a_key_are_refused(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        found("m", {}, api_base=url, api_key="planted-key")
    assert "planted" not in str(caught.value)


def test_a_pasted_full_address_is_cut_to_its_base() -> None:
    for pasted in ("chat/completions/", "chat", "completions", "models/", "models/org/m", "audio/speech", "rerank"):
        assert check_base_url(f"https://host/v1/{pasted}") == "https://host/v1"
    assert check_base_url("https://host/models") == "https://host/models"


AZURE = "https://mine.openai.azure.com/openai/deployments/gpt"


@each(
    ("written", "url"),
    [
        (f"{AZURE}?api-version=1", f"{AZURE}/chat/completions?api-version=1"),
        (f"{AZURE}/chat/completions?api-version=1", f"{AZURE}/chat/completions?api-version=1"),
        (f"{AZURE}/?api-version=1&x=2", f"{AZURE}/chat/completions?api-version=1&x=2"),
        (f"{AZURE}?", f"{AZURE}/chat/completions"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
    ],
)
def test_the_query_of_an_address_stays_at_its_end(written: str, url: str) -> None:
    assert resolve(LLMConfig("m", api_base=written, api_key="k-123456"), {}).build_url("/chat/completions") == url


@each("query", ["api-key=k", "key=k", "x=1&access_token=k", "sig=k", "code=k"])
def test_a_key_in_the_query_of_an_address_is_refused(query: str) -> None:
    with pytest.raises(ConfigError, match="in its query, which looks like a key") as caught:
        check_base_url(f"https://host/v1?{query}")
    assert "=k" not in str(caught.value)


def test_azure_has_a_variable_of_its_own_for_its_key() -> None:
    keys = {"AZURE_OPENAI_API_KEY": "azure-key-1", "OPENAI_API_KEY": "openai-key-1"}
    assert found("gpt", keys, api_base=f"{AZURE}?api-version=1")[3] == "azure-key-1"
    assert found("gpt", keys, api_base="https://lab.example/v1?api-version=1")[3] == "azure-key-1"


@each(
    ("address", "more"),
    [
        ("https://elsewhere.example/v1", {"api_key_env": "OPENAI_API_KEY"}),
        ("https://10.0.0.5/v1", {}),
        ("https://gateway/v1", {}),
        ("https://gateway.example/v2", {}),
        ("https://api.openai.com/v1", {}),
        ("https://eu.api.openai.com/v1", {}),
        ("https://lab.openai.azure.us/openai/v1", {}),
    ],
)
def test_the_key_of_openai_is_sent_to_own_hosts_and_where_it_is_named(address: str, more: dict[str, str]) -> None:
    keys = {"OPENAI_API_KEY": "openai-key-1", "OPENAI_BASE_URL": "https://gateway.example/v1"}
    assert found("gpt", keys, api_base=address, **more)[3] == "openai-key-1"


@each("model", ["gpt", "openai/gpt", "anthropic/claude", "gpt@https://notapi.openai.com/v1"])
def test_no_key_goes_to_an_unknown_host_by_default(model: str) -> None:
    model, _, address = model.partition("@")
    with pytest.raises(ConfigError, match="name its variable with --api-key-env"):
        keys = {"OPENAI_API_KEY": "openai-key-1", "OPENAI_BASE_URL": "https://elsewhere.example.org/v1"}
        found(model, keys, api_base=address or "https://elsewhere.example/v1")
