"""The models of a synthesis run, made from its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.prices import prices_by_model
from autorubric.llm.http.providers import checked_key
from autorubric.synthesis.settings import RoleSettings, Slot, SynthesisSettings, slots_of

_LIMITS = {
    "reference": "ref_max_tokens",
    "own": "ref_max_tokens",
    "response": "response_max_tokens",
    "rubric": "rubric_max_tokens",
    "merge": "merge_max_tokens",
    "augment": "augment_max_tokens",
    "judge": "judge_max_tokens",
    "licence": "licence_max_tokens",
    "rewrite": "rewrite_max_tokens",
}


def configs(settings: SynthesisSettings, environ: Mapping[str, str] | None = None) -> dict[str, LLMConfig]:
    """The model configuration of every slot, keys included.

    A key comes from the variable that the role names, else from `<SLOT>_API_KEY` (such as `RUBRIC_A_API_KEY`),
    else from the variable that the run names, else from the provider's own, which the model layer looks up.

    Raises:
        ConfigError: a variable that the settings name is not set, or a setting of a role is wrong.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    prices = prices_by_model(settings.prices)
    made: dict[str, LLMConfig] = {}
    for slot in slots_of(settings):
        role = slot.role
        if role.api_key_env and not environ.get(role.api_key_env):
            if slot.name == slot.source:
                problems.append(f"no key for {slot.name}: {role.api_key_env} is not set")
            continue
        try:
            made[slot.name] = replace(_config(settings, slot, role, environ), prices=prices.get(role.model))
        except ConfigError as error:
            problems += (f"{slot.name}: {problem}" for problem in error.problems)
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return made


def _config(settings: SynthesisSettings, slot: Slot, role: RoleSettings, environ: Mapping[str, str]) -> LLMConfig:
    part = slot.name.split("_", maxsplit=1)[0]
    temperature = settings.response_temperature if part == "response" else settings.temperature
    setting = _LIMITS[part]
    longest: int = getattr(settings, setting)
    # A rubric model's answer is as long as an answer, whatever its rubrics are held to.
    of_role = None if part == "own" else role.max_tokens
    variable = role.api_key_env or f"{slot.source.upper()}_API_KEY"
    key = environ.get(variable, "")
    of_run = None if role.api_key_env or key.strip() else settings.api_key_env
    return LLMConfig(
        model=role.model,
        api_base=role.base_url or None,
        api_key=checked_key(key, variable).reveal() if key.strip() else None,
        api_key_env=of_run,
        allow_plain_http=settings.allow_plain_http,
        temperature=temperature if role.temperature is None else role.temperature,
        max_tokens=longest if of_role is None else of_role,
        max_tokens_ceiling=settings.max_tokens_ceiling,
        max_tokens_fixed=of_role is not None or setting in settings.model_fields_set,
        top_p=role.top_p,
        seed=role.seed,
        requests_per_minute=role.requests_per_minute,
        tokens_per_minute=role.tokens_per_minute,
        extra_params=dict(role.extra),
        timeout=settings.timeout,
        max_retries=settings.retry,
        max_parallel_requests=settings.concurrency,
    )
