"""The slots of a run: each part to be played, with the configuration of its model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.prices import prices_by_model
from autorubric.llm.http.providers import addressed, checked_key
from autorubric.synthesis.method import Shape
from autorubric.synthesis.stages import letters
from autorubric.synthesis.synthesis_settings import Roles, RoleSettings, SynthesisSettings

_LIMITS = {"reference": "ref_max_tokens", "own": "ref_max_tokens"}


class Slot(NamedTuple):
    """One part to be played.

    Attributes:
        name: such as `response_c`.
        role: who plays it.
        source: the slot the settings name, whose key it uses: another draw of `response_a`, say.
    """

    name: str
    role: RoleSettings
    source: str

    @property
    def address(self) -> tuple[str, str | None]:
        """Which model it is, and where."""
        return self.role.model, self.role.base_url


def find_slots(settings: SynthesisSettings) -> tuple[Slot, ...]:
    """Every slot of a run with its model: reference, response_a, …, rubric_a, …, merge, augment.

    A role with `draws` takes so many slots in a row. The full method fills its pool from all response models
    in turn, and adds judge_a, …, licence and rewrite, and own_a, … for rubric models that respond to no query; with
    given responses none is asked for.
    """
    roles, full = _place(settings), settings.profile == "full"
    slots = [Slot("reference", roles.reference, "reference")]
    if not settings.responses_column:
        slots += _draw("response", roles.responses, settings.full.pool if full else 0)
    slots += _draw("rubric", roles.rubrics)
    slots += [Slot("merge", roles.merge, "merge"), Slot("augment", roles.augment, "augment")]
    if full:
        slots += _add_own_answers(slots) if settings.full.grounding == "own" else []
        slots += _draw("judge", roles.judges)
        slots.append(_assign("licence", roles.licence, "judge_a", roles.judges[0]))
        slots.append(_assign("rewrite", roles.rewrite, "augment", roles.augment))
    return tuple(slots)


def _place(settings: SynthesisSettings) -> Roles:
    """The roles, those without an address at the address of the run."""
    if settings.base_url is None:
        return settings.roles

    def place(held: Any) -> Any:
        if not isinstance(held, RoleSettings):
            return held and [place(role) for role in held]
        own = held.base_url or addressed(held.model, settings.base_url)[1]
        return held.model_copy(update={"base_url": own})

    return settings.roles.model_copy(update={name: place(held) for name, held in settings.roles})


def _draw(part: str, roles: Sequence[RoleSettings], least: int = 0) -> list[Slot]:
    sources = [(f"{part}_{letter}", role) for letter, role in zip(letters(len(roles)), roles, strict=True)]
    drawn = [one for one in sources for _ in range(one[1].draws or 1)]
    if all(role.draws is None for role in roles):
        drawn = [sources[i % len(sources)] for i in range(max(least, len(sources)))]
    names = (f"{part}_{letter}" for letter in letters(len(drawn)))
    return [Slot(name, role, source) for name, (source, role) in zip(names, drawn, strict=True)]


def _add_own_answers(slots: Sequence[Slot]) -> list[Slot]:
    """A slot for each rubric model that is no response model, for the answer that grounds its rubric."""
    responders = {slot.address for slot in slots if slot.name.startswith("response_")}
    return [
        Slot(slot.name.replace("rubric", "own"), slot.role, slot.source)
        for slot in slots
        if slot.name.startswith("rubric_") and slot.address not in responders
    ]


def _assign(name: str, role: RoleSettings | None, source: str, stand_in: RoleSettings) -> Slot:
    return Slot(name, stand_in, source) if role is None else Slot(name, role, name)


def check_refresh(settings: SynthesisSettings) -> None:
    """Refuse a `refresh` that names no role.

    Raises:
        ConfigError: with the names of the roles.
    """
    slots = [slot.name for slot in find_slots(settings)]
    unknown = [role for role in settings.refresh if not any(_covers(role, slot) for slot in slots)]
    if unknown:
        raise ConfigError(f"no role is called {', '.join(map(repr, unknown))}; the roles are {', '.join(slots)}")


def refreshed_slots(settings: SynthesisSettings) -> frozenset[str]:
    """The slots that `refresh` names: `response` means every response slot."""
    names = (slot.name for slot in find_slots(settings))
    return frozenset(name for name in names if any(_covers(role, name) for role in settings.refresh))


def _covers(role: str, slot: str) -> bool:
    return slot == role or slot.startswith(f"{role}_")


def find_shape(settings: SynthesisSettings, given: int) -> Shape:
    """The slots of a run's plan; `given` is how many finished responses each row brings."""
    slots = find_slots(settings)
    judges = {slot.name: slot.source for slot in slots if slot.name.startswith("judge_")}
    responses, rubrics = _by_letter(slots, "response_"), _by_letter(slots, "rubric_")
    finished = bool(settings.responses_column)
    texts = letters(given) if finished else tuple(responses)
    if settings.profile == "basic" or settings.full.grounding == "reference":
        return Shape(texts, dict.fromkeys(rubrics, "reference"), judges, finished)
    return Shape(texts, _ground(rubrics, responses), judges, finished)


def _ground(rubrics: Mapping[str, Slot], responses: Mapping[str, Slot]) -> dict[str, str]:
    """The field of the response that grounds each candidate rubric: one of its own model's.

    Draws of one model take its responses in turn. A model that is not a response model is asked for an answer.
    """
    own: dict[tuple[str, str | None], list[str]] = {}
    for slot in responses.values():
        own.setdefault(slot.address, []).append(slot.name)
    taken: Counter[tuple[str, str | None]] = Counter()
    grounds = {}
    for letter, slot in rubrics.items():
        held = own.get(slot.address, [f"own_{letter}"])
        grounds[letter] = held[taken[slot.address] % len(held)]
        taken[slot.address] += 1
    return grounds


def _by_letter(slots: Sequence[Slot], part: str) -> dict[str, Slot]:
    return {slot.name.removeprefix(part): slot for slot in slots if slot.name.startswith(part)}


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
    for slot in find_slots(settings):
        role = slot.role
        if role.api_key_env and not environ.get(role.api_key_env):
            if slot.name == slot.source:
                problems.append(f"no key for {slot.name}: {role.api_key_env} is not set")
            continue
        try:
            made[slot.name] = replace(_configure(settings, slot, role, environ), prices=prices.get(role.model))
        except ConfigError as error:
            problems += (f"{slot.name}: {problem}" for problem in error.problems)
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return made


def _configure(settings: SynthesisSettings, slot: Slot, role: RoleSettings, environ: Mapping[str, str]) -> LLMConfig:
    part = slot.name.split("_", maxsplit=1)[0]
    temperature = settings.response_temperature if part == "response" else settings.temperature
    setting = _LIMITS.get(part, f"{part}_max_tokens")
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
