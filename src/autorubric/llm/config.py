"""`LLMConfig`: the configuration of a model, checked before anything is spent."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeAlias

from autorubric.errors import ConfigError, InputError, MissingFileError
from autorubric.files import describe_unknown_key, read_text
from autorubric.files.atomic import write_atomically
from autorubric.llm.http import secrets

DEFAULT_CEILING = 32_768
"""Default of the highest completion limit."""


class ThinkingLevel(StrEnum):
    """How hard a reasoning model should think.

    Example:
        >>> ThinkingLevel("high") is ThinkingLevel.HIGH
        True
    """

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


ThinkingLevelLiteral: TypeAlias = Literal["none", "low", "medium", "high"]

THINKING_LEVEL_BUDGETS: dict[ThinkingLevel, int] = {
    ThinkingLevel.NONE: 0,
    ThinkingLevel.LOW: 1024,
    ThinkingLevel.MEDIUM: 2048,
    ThinkingLevel.HIGH: 4096,
}
"""Thinking tokens for each level, for endpoints that expect a number."""


@dataclass(frozen=True)
class ThinkingConfig:
    """A level of thinking, or an exact number of thinking tokens, which takes precedence.

    Example:
        >>> ThinkingConfig("high").get_effective_budget()
        4096
        >>> ThinkingConfig(budget_tokens=1500).get_reasoning_effort()
        'medium'
    """

    level: ThinkingLevel | ThinkingLevelLiteral = ThinkingLevel.MEDIUM
    budget_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.level not in [level.value for level in ThinkingLevel]:
            raise ConfigError(f"thinking level {self.level!r} is not one of none, low, medium, high")
        object.__setattr__(self, "level", ThinkingLevel(self.level))
        if self.budget_tokens is not None and (problem := _find_number_problem("budget_tokens", self.budget_tokens)):
            raise ConfigError(f"thinking: {problem}")

    def get_effective_budget(self) -> int:
        """Thinking tokens: the exact number if set, otherwise the level's."""
        if self.budget_tokens is not None:
            return self.budget_tokens
        return THINKING_LEVEL_BUDGETS[ThinkingLevel(self.level)]

    def get_reasoning_effort(self) -> str:
        """Return the level, or the smallest level whose budget covers the exact number."""
        if self.budget_tokens is None:
            return ThinkingLevel(self.level).value
        enough = (lvl for lvl, budget in THINKING_LEVEL_BUDGETS.items() if self.budget_tokens <= budget)
        return next(enough, ThinkingLevel.HIGH).value


ThinkingParam: TypeAlias = ThinkingConfig | ThinkingLevel | ThinkingLevelLiteral | int | None


@dataclass(repr=False)
class LLMConfig:
    """A model at an endpoint, and how to call it.

    The first 19 fields are the published ones, in their order and with their defaults. Invalid values raise one
    `ConfigError` that lists them all.

    Attributes:
        model: `provider/model` (also `provider:model`), or the served name if `api_base` is given;
            `MODEL@BASE_URL` sets both.
        temperature: 0 to 2; None for the endpoint's default.
        max_tokens: maximum completion tokens; None for the endpoint's default.
        top_p: 0 to 1.
        timeout: seconds for one attempt, from connecting to the last byte.
        max_retries: maximum HTTP requests for one call after the first.
        retry_min_wait: shortest wait before a retry, in seconds.
        retry_max_wait: longest wait, in seconds, unless `Retry-After` is longer.
        max_parallel_requests: maximum concurrent requests to this address with this key, all graders of the process
            together; the strictest of the open models applies. None for the run's concurrency.
        cache_enabled, cache_dir: record replies in this directory, and do not send an equal request again; a run
            records replies in its own directory anyway. `cache_ttl` has no effect.
        api_key: the key; prefer the provider's environment variable. Never shown, never stored.
        api_base: base URL of an OpenAI-compatible endpoint, without `/chat/completions`.
        thinking: level, number of thinking tokens, or `ThinkingConfig`.
        prompt_caching: accepted, without effect; endpoints of this protocol cache on their own.
        seed: sent as `seed + 1000 * draw + reask`, so draws differ and are reproducible. Further judges with the
            same model and equal items of a dataset each add an offset.
        extra_headers: sent with every request.
        extra_params: further fields of the request's body.
        api_key_env: name of the environment variable with the key.
        requests_per_minute: maximum requests in any minute; None for no limit. `tokens_per_minute` likewise.
        prices: dollars per million tokens, `{"input": 1.25, "output": 10, "cached": 0.125}`; overrides the
            built-in table.
        max_tokens_ceiling: the highest limit when a request is repeated because its reply was truncated; the limit
            is doubled each time.
        max_tokens_fixed: whether all requests start with `max_tokens`; if False, those whose prompt needs a longer
            reply start higher. Not part of the ledger's keys.
        allow_plain_http: allow a key to be sent over plain HTTP to a host outside this machine and private networks.

    Example:
        >>> LLMConfig("openai/gpt-5.1", temperature=0.0, api_key="sk-planted-key")
        LLMConfig(model='openai/gpt-5.1', temperature=0.0, api_key=<hidden>)
        >>> LLMConfig("qwen@http://localhost:8000/v1")
        LLMConfig(model='qwen', api_base='http://localhost:8000/v1')
        >>> LLMConfig("openai/gpt-5.1", temperature="hot", top_p=7)
        Traceback (most recent call last):
        autorubric.errors.ConfigError: 2 problems:
          model 'openai/gpt-5.1' has temperature='hot'; expected a number from 0 to 2
          model 'openai/gpt-5.1' has top_p=7; expected a number from 0 to 1
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    timeout: float = 60.0
    max_retries: int = 3
    retry_min_wait: float = 1.0
    retry_max_wait: float = 60.0
    max_parallel_requests: int | None = None
    cache_enabled: bool = False
    cache_dir: str | Path = ".autorubric_cache"
    cache_ttl: int | None = None
    api_key: str | None = None
    api_base: str | None = None
    thinking: ThinkingParam = None
    prompt_caching: bool = True
    seed: int | None = None
    extra_headers: dict[str, str] = field(default_factory=dict)
    extra_params: dict[str, Any] = field(default_factory=dict)
    api_key_env: str | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    prices: dict[str, float] | None = None
    max_tokens_ceiling: int = DEFAULT_CEILING
    max_tokens_fixed: bool = True
    allow_plain_http: bool = False

    def __post_init__(self) -> None:
        model, address = secrets.split_address(self.model) if isinstance(self.model, str) else ("", None)
        if address is not None:
            if self.api_base and self.api_base.strip() != address:
                raise ConfigError(f"model {model!r} has two addresses, in its name and in api_base; leave one out")
            self.model, self.api_base = model, address
        if problems := [f"model {self.model!r} {problem}" for problem in _find_problems(self)]:
            raise ConfigError(problems)

    def __repr__(self) -> str:
        return f"LLMConfig({', '.join(_format_fields(self))})"

    def get_thinking_config(self) -> ThinkingConfig | None:
        """`thinking` in its full form; None if it is unset.

        Example:
            >>> LLMConfig("openai/gpt-5.1", thinking="low").get_thinking_config().get_effective_budget()
            1024
        """
        if self.thinking is None or isinstance(self.thinking, ThinkingConfig):
            return self.thinking
        if isinstance(self.thinking, int):
            return ThinkingConfig(budget_tokens=self.thinking)
        return ThinkingConfig(level=self.thinking)

    @classmethod
    def from_yaml(cls, path: str | Path) -> LLMConfig:
        """Return the configuration in a YAML file; unknown keys go to `extra_params`.

        A key that nearly matches a field is an error: a misspelled field would be sent to the endpoint.

        Raises:
            MissingFileError: the file does not exist.
            ConfigError: the file is not valid YAML, names no model, or holds wrong values.
        """
        found = _read_mapping(Path(path))
        if not found.get("model"):
            raise ConfigError(f"{path}: LLM config YAML must specify 'model' field")
        known = {f.name for f in dataclasses.fields(cls)}
        extra = {key: found.pop(key) for key in list(found) if key not in known}
        problems = [
            f"{path}: unknown key {key!r}; did you mean {near!r}?"
            for key in extra
            for near in difflib.get_close_matches(str(key), sorted(known), n=1, cutoff=_NEAR)
        ]
        if problems:
            raise ConfigError(problems)
        if extra:
            found["extra_params"] = {**(found.get("extra_params") or {}), **extra}
        try:
            if isinstance(found.get("thinking"), Mapping):
                found["thinking"] = _build_thinking(found["thinking"])
            return cls(**found)
        except ConfigError as error:
            raise ConfigError(f"{path}: {problem}" for problem in error.problems) from None

    def to_yaml(self, path: str | Path) -> None:
        """Write every field that differs from its default, except secrets; a comment names those left out."""
        import yaml

        values = {name: value for name, value in find_changed_fields(self) if name != "api_key"}
        left_out = ["api_key"] if self.api_key else []
        if self.extra_headers:
            values["extra_headers"] = secrets.drop_secret_headers(self.extra_headers)
            left_out += [f"extra_headers.{name}" for name in self.extra_headers if secrets.is_secret_header(name)]
        if isinstance(self.thinking, ThinkingConfig):
            values["thinking"] = {
                "level": ThinkingLevel(self.thinking.level).value,
                "budget_tokens": self.thinking.budget_tokens,
            }
        elif isinstance(self.thinking, ThinkingLevel):
            values["thinking"] = self.thinking.value
        if "cache_dir" in values:
            values["cache_dir"] = str(values["cache_dir"])
        note = "".join(f"# {name} is left out: secrets are not written to files\n" for name in left_out)
        write_atomically(path, [note, yaml.safe_dump(values, sort_keys=False, allow_unicode=True)])


def _build_thinking(fields: Mapping[str, Any]) -> ThinkingConfig:
    if unknown := sorted(fields.keys() - {"level", "budget_tokens"}):
        raise ConfigError(f"unknown key {unknown[0]!r} in thinking; expected 'level' and 'budget_tokens'")
    return ThinkingConfig(**fields)


RESERVED_PARAMS: frozenset[str] = frozenset({"model", "messages", "stream", "n"})
"""Body fields that `extra_params` must not replace."""


def find_changed_fields(config: LLMConfig) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of the model and of every field that differs from its default."""
    for spec in dataclasses.fields(config):
        value = getattr(config, spec.name)
        default = spec.default_factory() if callable(spec.default_factory) else spec.default
        if spec.name == "model" or value != default:
            yield spec.name, value


def _format_fields(config: LLMConfig) -> Iterator[str]:
    for name, value in find_changed_fields(config):
        if name == "api_key":
            yield f"api_key={secrets.HIDDEN}"
        elif name == "extra_headers":
            shown = {key: secrets.HIDDEN if secrets.is_secret_header(key) else text for key, text in value.items()}
            yield f"extra_headers={shown!r}"
        else:
            yield f"{name}={value!r}"


def _find_problems(config: LLMConfig) -> Iterator[str]:
    if not isinstance(config.model, str) or not config.model.strip():
        yield "is not a model name; expected 'provider/model'"
    elif not config.model.isprintable():
        yield "has a line break or another control character in its name; expected 'provider/model'"
    yield from _find_number_problems(config)
    for name in ("api_key", "api_base", "api_key_env"):
        value = getattr(config, name)
        if value is not None and not isinstance(value, str):
            yield f"has {name} of type {type(value).__name__}; expected a string"
        elif name == "api_key_env" and value and not secrets.is_variable_name(value):
            yield f"has an api_key_env that {secrets.NO_VARIABLE}"
    if not isinstance(config.allow_plain_http, bool):
        yield f"has allow_plain_http={config.allow_plain_http!r}; expected True or False"
    if config.thinking is not None:
        yield from _find_thinking_problems(config.thinking)
    yield from _find_mapping_problems(config)


PRICES = ("input", "output", "cached")
"""The kinds of tokens that have a price."""
_HIGHEST = 1e12
_ANY, _WHOLE = (int, float), (int,)
_NUMBERS: dict[str, tuple[tuple[type, ...], float, float, str]] = {
    "temperature": (_ANY, 0, 2, "number from 0 to 2"),
    "top_p": (_ANY, 0, 1, "number from 0 to 1"),
    "timeout": (_ANY, 0.001, _HIGHEST, "finite number above 0"),
    "retry_min_wait": (_ANY, 0, _HIGHEST, "finite number of at least 0"),
    "retry_max_wait": (_ANY, 0, _HIGHEST, "finite number of at least 0"),
    "requests_per_minute": (_ANY, 1, _HIGHEST, "finite number of at least 1"),
    "tokens_per_minute": (_ANY, 1, _HIGHEST, "finite number of at least 1"),
    "max_tokens": (_WHOLE, 0, math.inf, "whole number of at least 0"),
    "max_tokens_ceiling": (_WHOLE, 1, math.inf, "whole number of at least 1"),
    "max_retries": (_WHOLE, 0, math.inf, "whole number of at least 0"),
    "max_parallel_requests": (_WHOLE, 1, math.inf, "whole number of at least 1"),
    "cache_ttl": (_WHOLE, 0, math.inf, "whole number of at least 0"),
    "budget_tokens": (_WHOLE, 0, math.inf, "whole number of at least 0"),
    **dict.fromkeys(PRICES, (_ANY, 0, _HIGHEST, "number of dollars per million tokens, at least 0")),
    "seed": (_WHOLE, -math.inf, math.inf, "whole number"),
}
"""The types, the minimum, the maximum, and the words for what is expected."""


def _find_number_problems(config: LLMConfig) -> Iterator[str]:
    given = {
        spec.name: getattr(config, spec.name)
        for spec in dataclasses.fields(config)
        if spec.name in _NUMBERS and (spec.default is not None or getattr(config, spec.name) is not None)
    }
    problems = {
        name: problem for name in _NUMBERS if name in given and (problem := _find_number_problem(name, given[name]))
    }
    for problem in problems.values():
        yield f"has {problem}"
    least, most = config.retry_min_wait, config.retry_max_wait
    if problems.keys().isdisjoint(("retry_min_wait", "retry_max_wait")) and least > most:
        yield f"has retry_min_wait={least!r} above retry_max_wait={most!r}"


def _find_number_problem(name: str, value: object) -> str | None:
    """Return what is wrong with the value of a numeric setting, or None."""
    kinds, low, high, words = _NUMBERS[name]
    if isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high:  # type: ignore[operator]
        return None
    return f"{name}={value!r}; expected a {words}"


def _find_thinking_problems(thinking: object) -> Iterator[str]:
    if isinstance(thinking, ThinkingConfig | ThinkingLevel):
        return
    if isinstance(thinking, int) and not isinstance(thinking, bool) and thinking >= 0:
        return
    if thinking not in [level.value for level in ThinkingLevel]:
        yield f"has thinking={thinking!r}; expected none, low, medium, high or a number of tokens"


def _find_mapping_problems(config: LLMConfig) -> Iterator[str]:
    headers = config.extra_headers
    if not isinstance(headers, dict) or not all(isinstance(x, str) for kv in headers.items() for x in kv):
        yield "has extra_headers that are not a mapping of strings to strings"
    elif any(not x.isprintable() for kv in headers.items() for x in kv):
        yield "has a line break or another control character in extra_headers"
    if not isinstance(config.extra_params, dict):
        yield f"has extra_params of type {type(config.extra_params).__name__}; expected a mapping"
        return
    for name in sorted(RESERVED_PARAMS & config.extra_params.keys()):
        yield f"has {name!r} in extra_params, which must not replace it"
    for name in ("temperature", "max_tokens", "top_p", "seed"):
        if name in config.extra_params and getattr(config, name) is not None:
            yield f"has {name!r} twice: as a field and in extra_params"
    if config.prices is not None:
        yield from (f"has prices={config.prices!r}; {problem}" for problem in find_price_problems(config.prices))


def find_price_problems(prices: object) -> Iterator[str]:
    """Problems of a mapping of dollars per million tokens by kind of token."""
    if not isinstance(prices, dict) or not {"input", "output"} <= prices.keys():
        yield "expected 'input' and 'output' in dollars per million tokens"
        return
    for name, value in prices.items():
        problem = (
            _find_number_problem(name, value) if name in PRICES else describe_unknown_key(str(name), PRICES, "prices")
        )
        yield from filter(None, [problem])


_NEAR = 0.85  # 'temprature' is near 'temperature' (0.95); 'top_k' is not near 'top_p' (0.8)


def _read_mapping(path: Path) -> dict[str, Any]:
    from autorubric.files.strict_yaml import parse_yaml

    try:
        found = parse_yaml(read_text(path, what="LLM config file"), str(path))
    except MissingFileError:
        raise
    except InputError as error:
        raise ConfigError(error.problems) from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected dict with a 'model' field, found {type(found).__name__}")
    return found
