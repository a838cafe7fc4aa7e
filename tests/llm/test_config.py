from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from autorubric.errors import ConfigError, MissingFileError
from autorubric.llm.config import THINKING_LEVEL_BUDGETS, LLMConfig, ThinkingConfig, ThinkingLevel
from tests.offenders import each

PUBLISHED: dict[str, Any] = {
    "model": dataclasses.MISSING,
    "temperature": None,
    "max_tokens": None,
    "top_p": None,
    "timeout": 60.0,
    "max_retries": 3,
    "retry_min_wait": 1.0,
    "retry_max_wait": 60.0,
    "max_parallel_requests": None,
    "cache_enabled": False,
    "cache_dir": ".autorubric_cache",
    "cache_ttl": None,
    "api_key": None,
    "api_base": None,
    "thinking": None,
    "prompt_caching": True,
    "seed": None,
    "extra_headers": {},
    "extra_params": {},
}


def test_the_published_fields_come_first_in_their_order_with_their_defaults() -> None:
    fields = dataclasses.fields(LLMConfig)[: len(PUBLISHED)]
    found = {f.name: f.default_factory() if callable(f.default_factory) else f.default for f in fields}
    assert list(found.items()) == list(PUBLISHED.items())


@each(
    ("name", "value"),
    [
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", True),
        ("top_p", 1.5),
        ("max_tokens", -1),
        ("max_tokens", 10.5),
        ("timeout", 0),
        ("timeout", float("inf")),
        ("timeout", None),
        ("max_retries", -1),
        ("max_retries", None),
        ("retry_min_wait", -1),
        ("max_parallel_requests", 0),
        ("seed", 1.0),
        ("thinking", "extreme"),
        ("thinking", -5),
        ("thinking", True),
        ("api_key", 7),
        ("extra_headers", {"a": 1}),
        ("extra_headers", {"X-Title": "one\r\nHost: two"}),
        ("extra_params", [1]),
        ("extra_params", {"model": "other"}),
        ("extra_params", {"n": 5}),
        ("requests_per_minute", 0),
        ("prices", {"input": 1}),
        ("prices", {"input": -1, "output": 1}),
        ("prices", {"input": 1, "output": 1, "cahced": 1}),
    ],
)
def test_wrong_values_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        LLMConfig("openai/gpt-5.1", **{name: value})
    assert name in str(caught.value)


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        LLMConfig("", temperature=9, max_retries=-1, retry_min_wait=5, retry_max_wait=1)
    assert len(caught.value.problems) == 4


def test_a_parameter_may_not_be_given_twice() -> None:
    with pytest.raises(ConfigError, match="'temperature' twice"):
        LLMConfig("m", temperature=0.0, extra_params={"temperature": 1})


@each(("name", "value"), [("temperature", 0), ("top_p", 0.0), ("max_tokens", 0), ("seed", 0)])
def test_zero_is_a_value(name: str, value: float) -> None:
    assert getattr(LLMConfig("m", **{name: value}), name) == 0  # type: ignore[arg-type]


def test_thinking_budgets_are_the_published_ones() -> None:
    assert {level.value: budget for level, budget in THINKING_LEVEL_BUDGETS.items()} == {
        "none": 0,
        "low": 1024,
        "medium": 2048,
        "high": 4096,
    }
    assert ThinkingConfig().level is ThinkingLevel.MEDIUM


@each(
    ("thinking", "budget", "effort"),
    [
        ("high", 4096, "high"),
        (ThinkingLevel.LOW, 1024, "low"),
        (0, 0, "none"),
        (2048, 2048, "medium"),
        (2049, 2049, "high"),
        (100_000, 100_000, "high"),
        (ThinkingConfig("low", 3000), 3000, "high"),
    ],
)
def test_every_form_of_thinking_has_a_budget_and_an_effort(thinking: Any, budget: int, effort: str) -> None:
    found = LLMConfig("m", thinking=thinking).get_thinking_config()
    assert found is not None
    assert (found.get_effective_budget(), found.get_reasoning_effort()) == (budget, effort)
    assert LLMConfig("m").get_thinking_config() is None


def test_a_configuration_survives_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    config = LLMConfig(
        "openai/gpt-5.1",
        temperature=0.0,
        thinking=ThinkingConfig("low", 99),
        extra_params={"top_k": 3, "名": "值"},
        cache_dir=Path("here"),
    )
    config.to_yaml(path)
    assert LLMConfig.from_yaml(path) == dataclasses.replace(config, cache_dir="here")
    assert "api_key" not in path.read_text()


def test_unknown_keys_of_a_file_are_extra_parameters_and_near_misses_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("model: m\ntop_k: 5\nrepetition_penalty: 1.1\nthinking: {level: low}\n")
    config = LLMConfig.from_yaml(path)
    assert config.extra_params == {"top_k": 5, "repetition_penalty": 1.1}
    path.write_text("model: m\ntemprature: 1\nmax_token: 5\n")
    with pytest.raises(ConfigError) as caught:
        LLMConfig.from_yaml(path)
    assert "unknown key 'temprature'; did you mean 'temperature'?" in str(caught.value)
    assert "did you mean 'max_tokens'?" in str(caught.value)


@pytest.mark.parametrize("text", ["temperature: 1", "model: ''"])
def test_a_file_without_a_model_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match="LLM config YAML must specify 'model' field"):
        LLMConfig.from_yaml(path)


@pytest.mark.parametrize(("text", "found"), [("- a list", "list"), ("", "NoneType")])
def test_a_file_that_is_no_mapping_says_so(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"expected dict with a 'model' field, found {found}"):
        LLMConfig.from_yaml(path)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.yaml"):
        LLMConfig.from_yaml(tmp_path / "nowhere.yaml")
    with pytest.raises(MissingFileError):
        LLMConfig.from_yaml(tmp_path / "nowhere.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("model: [")
    with pytest.raises(ConfigError, match=r"broken\.yaml: not valid YAML"):
        LLMConfig.from_yaml(broken)
    broken.write_text("model: m\ntemperature: hot\n")
    with pytest.raises(ConfigError, match=r"broken\.yaml: model 'm' has temperature='hot'"):
        LLMConfig.from_yaml(broken)
    broken.write_text("model: m\nthinking: {levle: low}\n")
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        LLMConfig.from_yaml(broken)
