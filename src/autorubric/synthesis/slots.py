"""The slots of a run, each with its role and the configuration of its model."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from autorubric.errors import ConfigError, collected
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.key_owners import check_key_owners
from autorubric.llm.http.prices import read_price_file
from autorubric.llm.http.providers import check_key, keys_missing, resolve_address
from autorubric.synthesis.method import Shape
from autorubric.synthesis.role_settings import Roles, RoleSettings
from autorubric.synthesis.stages import list_letters
from autorubric.synthesis.synthesis_settings import SynthesisSettings

_LIMITS = {"reference": "ref_max_tokens", "own": "ref_max_tokens"}


class Slot(NamedTuple):
    """A place for a model, such as `response_c`; `source` is the configured slot whose key it uses."""

    name: str
    role: RoleSettings
    source: str


def find_slots(settings: SynthesisSettings) -> tuple[Slot, ...]:
    """Return every slot of a run with its model: reference, response_a, …, rubric_a, …, merge, augment.

    A role with `draws` gets that many consecutive slots. The full method fills its pool from all response models in
    turn, and adds judge_a, …, licence and rewrite, and own_a, … for rubric models that are not response models; with
    given responses, none are requested.
    """
    roles = settings.role_models if settings.base_url is None else _add_run_address(settings)
    full = settings.profile == "full"
    slots = [Slot("reference", roles.reference, "reference")] if roles.reference else []
    if not settings.responses_column:
        slots += _fill_slots("response", roles.responses, settings.full_profile.pool if full else 0)
    slots += _fill_slots("rubric", roles.rubrics)
    slots += [Slot("merge", roles.merge, "merge"), Slot("augment", roles.augment, "augment")]
    if full:
        slots += _find_own_answer_slots(slots) if settings.full_profile.grounding == "own" else []
        slots += _fill_slots("judge", roles.judges)
        slots += _find_relevance_slots(settings, roles)
        slots.append(Slot("rewrite", roles.rewrite or roles.augment, "rewrite" if roles.rewrite else "augment"))
    return tuple(slots)


_TEMPERATURES = (None, 0.6, 1.0)
"""The temperatures of one model's relevance draws, in turn; None means the run's temperature."""


def _find_relevance_slots(settings: SynthesisSettings, roles: Roles) -> list[Slot]:
    """Return a slot for each relevance draw: the models in turn, a model's draws with other temperatures and seeds.

    The models are those of `licence`, else all judges. Version 1 has one slot.
    """
    if named := roles.licence:
        sources = ["licence"] if len(named) == 1 else [f"licence_{letter}" for letter in list_letters(len(named))]
        found = list(zip(sources, named, strict=True))
    else:
        first = {(role.model, role.base_url): role for role in reversed(roles.judges)}
        judges = zip((f"judge_{letter}" for letter in list_letters(len(roles.judges))), roles.judges, strict=True)
        found = [(source, role) for source, role in judges if first[role.model, role.base_url] is role]
    if settings.protocol == 1:
        return [Slot("licence", found[0][1], found[0][0])]
    slots = []
    for draw, letter in enumerate(list_letters(settings.full_profile.gates.licence_draws)):
        source, role = found[draw % len(found)]
        temperature = _TEMPERATURES[draw // len(found) % len(_TEMPERATURES)]
        varied = {
            "temperature": temperature if role.temperature is None else role.temperature,
            "seed": role.seed or 1,
        }
        slots.append(Slot(f"licence_{letter}", role.model_copy(update=varied), source))
    return slots


def _add_run_address(settings: SynthesisSettings) -> Roles:
    """Return the roles, with the run's address where they have none."""

    def add_address(role: RoleSettings) -> RoleSettings:
        own = role.base_url or resolve_address(role.model, settings.base_url)[1]
        return role.model_copy(update={"base_url": own})

    def add_addresses(roles: Any) -> Any:
        return roles and ([add_address(role) for role in roles] if isinstance(roles, list) else add_address(roles))

    return settings.role_models.model_copy(
        update={name: add_addresses(roles) for name, roles in settings.role_models}
    )


def _fill_slots(part: str, roles: Sequence[RoleSettings], least: int = 0) -> list[Slot]:
    sources = [(f"{part}_{letter}", role) for letter, role in zip(list_letters(len(roles)), roles, strict=True)]
    drawn = [source for source in sources for _ in range(source[1].draws or 1)]
    if all(role.draws is None for role in roles):
        drawn = [sources[i % len(sources)] for i in range(max(least, len(sources)))]
    names = (f"{part}_{letter}" for letter in list_letters(len(drawn)))
    return [Slot(name, role, source) for name, (source, role) in zip(names, drawn, strict=True)]


def _find_own_answer_slots(slots: Sequence[Slot]) -> list[Slot]:
    """Return a slot for each rubric model that is not a response model, for the answer behind its rubric."""
    responders = {(role.model, role.base_url) for name, role, _ in slots if name.startswith("response_")}
    return [
        Slot(name.replace("rubric", "own"), role, source)
        for name, role, source in slots
        if name.startswith("rubric_") and (role.model, role.base_url) not in responders
    ]


def find_refreshed_slots(settings: SynthesisSettings) -> frozenset[str]:
    """Return the slots that `refresh` names: `response` means every response slot.

    Raises:
        ConfigError: it names no role; with the names of the roles.
    """
    slots = [slot.name for slot in find_slots(settings)]
    named = {
        role: [slot for slot in slots if slot == role or slot.startswith(f"{role}_")] for role in settings.refresh
    }
    unknown = [role for role, found in named.items() if not found]
    if unknown:
        raise ConfigError(f"unknown role {', '.join(map(repr, unknown))}; the roles are {', '.join(slots)}")
    return frozenset(slot for found in named.values() for slot in found)


def find_shape(settings: SynthesisSettings, given: int) -> Shape:
    """Return the slots of a run's plan; `given` is the number of given responses in each row."""
    slots = find_slots(settings)
    responses, rubrics, judges = (
        [slot for slot in slots if slot.name.startswith(part)] for part in ("response_", "rubric_", "judge_")
    )
    # A candidate rubric is based on a response of its own model. Draws of one model use its responses in turn; a
    # model that is not a response model writes its own answer.
    own: dict[tuple[str, str | None], list[str]] = {}
    for name, role, _ in responses:
        own.setdefault((role.model, role.base_url), []).append(name)
    shared = settings.profile == "basic" or settings.full_profile.grounding == "reference"
    grounds, taken = dict[str, str](), Counter[tuple[str, str | None]]()
    for name, role, _ in rubrics:
        letter, address = name.removeprefix("rubric_"), (role.model, role.base_url)
        held = ["reference"] if shared else own.get(address, [f"own_{letter}"])
        grounds[letter] = held[taken[address] % len(held)]
        taken[address] += 1
    finished = bool(settings.responses_column)
    texts = (
        (f"response_{letter}" for letter in list_letters(given)) if finished else (slot.name for slot in responses)
    )
    licence = {slot.name: slot.source for slot in slots if slot.name.split("_")[0] == "licence"}
    sources = {judge.name: judge.source for judge in judges}
    return Shape(tuple(texts), grounds, sources, finished, licence)


def build_configs(settings: SynthesisSettings, environ: Mapping[str, str] | None = None) -> dict[str, LLMConfig]:
    """Return the model configuration of every slot, keys included.

    A key comes from the variable that the role names, else from `<SLOT>_API_KEY` (such as `RUBRIC_A_API_KEY`),
    else from the variable that the run names, else from the provider's own, which the model layer looks up.

    Raises:
        ConfigError: a variable that the settings name is not set, or a setting of a role is wrong.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    prices = read_price_file(settings.prices) if settings.prices else {}
    made: dict[str, LLMConfig] = {}
    for slot in find_slots(settings):
        role = slot.role
        if role.api_key_env and not environ.get(role.api_key_env) and keys_missing.get() is None:
            problems.append(f"no key for {slot.source}: {role.api_key_env} is not set")
            continue
        part = slot.name.split("_", maxsplit=1)[0]
        temperature = settings.response_temperature if part == "response" else settings.temperature
        setting = _LIMITS.get(part, f"{part}_max_tokens")
        # A rubric model's token limit is for its rubrics, not for its answer.
        of_role = None if part == "own" else role.max_tokens
        variable = role.api_key_env or f"{slot.source.upper()}_API_KEY"
        key = environ.get(variable, "")
        with collected(problems, f"{slot.name}: "):
            made[slot.name] = LLMConfig(
                model=role.model,
                api_base=role.base_url or None,
                api_key=check_key(key, variable).reveal() if key.strip() else None,
                api_key_env=None if key.strip() else role.api_key_env or settings.api_key_env,
                allow_plain_http=settings.allow_plain_http,
                temperature=temperature if role.temperature is None else role.temperature,
                max_tokens=getattr(settings, setting) if of_role is None else of_role,
                max_tokens_ceiling=settings.max_tokens_ceiling,
                max_tokens_fixed=of_role is not None or setting in settings.model_fields_set,
                top_p=role.top_p,
                seed=role.seed,
                requests_per_minute=role.requests_per_minute,
                tokens_per_minute=role.tokens_per_minute,
                prices=prices.get(role.model),
                extra_params=dict(role.extra),
                timeout=settings.timeout,
                max_retries=settings.retry,
            )
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    shared = (config for config in made.values() if config.api_key_env == settings.api_key_env)
    if settings.api_key_env:
        check_key_owners(settings.api_key_env, ((config.model, config.api_base) for config in shared), environ)
    return made
