"""The models of the roles, and the parameters that set single values of them."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from autorubric.errors import ConfigError
from autorubric.llm.http.secrets import VariableName, split_address
from autorubric.settings import Settings
from autorubric.synthesis.templates import merge_domain


class RoleSettings(Settings):
    """The model of one role, and where it is reached.

    Attributes:
        model: `provider/model`, or the served name when `base_url` is given; `MODEL@BASE_URL` gives both.
        base_url: an OpenAI-compatible endpoint; by default that of the run, then the provider's own.
        api_key_env: the environment variable that contains the key; by default `<ROLE>_API_KEY` (such as
            `RESPONSE_A_API_KEY`), then the run's, then the provider's.
        temperature: overrides the run's.
        max_tokens: overrides the role's.
        top_p: nucleus sampling, in (0, 1].
        seed: sent where the endpoint takes one.
        requests_per_minute: shared by all roles at the same endpoint; the strictest limit applies. Likewise for
            tokens.
        draws: the number of independent samples of a response, rubric or judge; 1 by default.
        extra: further parameters of the request body.
    """

    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: VariableName | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, gt=0, le=10_000_000)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    requests_per_minute: float | None = Field(None, gt=0, allow_inf_nan=False)
    tokens_per_minute: float | None = Field(None, gt=0, allow_inf_nan=False)
    draws: int | None = Field(None, ge=1, le=26)
    extra: dict[str, Any] = Field(default_factory=dict)


def _split_model(value: Any) -> Any:
    role = {"model": value} if isinstance(value, str) else value
    if not isinstance(role, dict) or not isinstance(role.get("model"), str):
        return role
    model, address = split_address(role["model"])
    # The role's own address takes precedence over one in the model's name, which may come from --models.
    return role if address is None else {**role, "model": model, "base_url": role.get("base_url") or address}


def _as_list(value: Any, info: ValidationInfo) -> Any:
    """Return a list of roles, also for a single role or the mapping by index that `nest_settings` makes."""
    if not isinstance(value, str | dict):
        return value
    if not value or isinstance(value, str) or not all(str(key).isdigit() for key in value):
        return [value]
    if value.keys() != {str(place) for place in range(len(value))}:
        part = str(info.field_name).removesuffix("s")
        raise ConfigError(f"a model for slot b was given, but none for slot a; pass --{part}-model-a")
    return [value[str(place)] for place in range(len(value))]


Role = Annotated[RoleSettings, BeforeValidator(_split_model)]
RoleList = Annotated[list[Role], BeforeValidator(_as_list)]


class Roles(Settings):
    """The models by role. The full method needs judges; `licence` defaults to all of them, `rewrite` to augment.

    The full method needs `reference` only with `grounding: reference`.
    """

    reference: Role | None = None
    responses: RoleList = Field(min_length=2, max_length=26)
    rubrics: RoleList = Field(min_length=1, max_length=26)
    merge: Role
    augment: Role
    judges: RoleList = Field(default_factory=list, max_length=26)
    licence: RoleList | None = Field(None, min_length=1, max_length=26)
    rewrite: Role | None = None


_LISTS = ("responses", "rubrics", "judges")
_SLOTS = {
    "reference": "roles.reference",
    "response_a": "roles.responses.0",
    "response_b": "roles.responses.1",
    "rubric_a": "roles.rubrics.0",
    "rubric_b": "roles.rubrics.1",
    "merge": "roles.merge",
    "augment": "roles.augment",
    "judge_a": "roles.judges.0",
    "judge_b": "roles.judges.1",
    "judge_c": "roles.judges.2",
}


def _name_model(slot: str) -> str:
    part, _, letter = slot.partition("_")
    return f"{part}_model_{letter}" if letter else f"{part}_model"


ROLE_FLAGS: dict[str, str] = {
    **{_name_model(slot): f"{place}.model" for slot, place in _SLOTS.items()},
    **{f"{slot}_base_url": f"{place}.base_url" for slot, place in _SLOTS.items()},
    **{name: f"full.{name}" for name in ("pool", "grounding", "rounds", "judging", "pitfalls")},
    "evolved_share": "full.gates.share.most",
}
"""Parameters of `synthesize` that set one value of a nested setting, with its path."""

FULL_ONLY = frozenset(
    {name for name, place in ROLE_FLAGS.items() if place.startswith(("full.", "roles.judges."))}
    | {"judge_max_tokens", "licence_max_tokens", "rewrite_max_tokens", "license"}
)
"""Parameters that have no effect in the basic profile."""


NESTED = ("roles", "full")


def nest_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings with those of the domain, and move flat parameters and the default model into nested ones."""
    flat = {name: values[name] for name in ROLE_FLAGS if values.get(name) is not None}
    made = dict(values) if values.get("domain") is None else merge_domain(values)
    if isinstance(made.get("roles"), Mapping):
        made["roles"] = _index_roles(made["roles"])
    for name, value in flat.items():
        _put(made, ROLE_FLAGS[name].split("."), value)
    models = values.get("models")
    if models and isinstance(models, str):
        for place in _SLOTS.values():
            _put(made, [*place.split("."), "model"], models, keep=True)
    return {**made, "full": made.get("full", {}), "roles": made.get("roles") or None}


def _index_roles(roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return roles as nested mappings; a list becomes a mapping by index."""

    def index(entry: Any) -> Any:
        if isinstance(entry, list | tuple):
            return {str(i): index(item) for i, item in enumerate(entry)}
        return {"model": entry} if isinstance(entry, str) else dict(entry) if isinstance(entry, Mapping) else entry

    return {
        key: index(entry if key not in _LISTS or isinstance(entry, list | tuple) else [entry])
        for key, entry in roles.items()
    }


def _put(tree: dict[str, Any], path: list[str], value: Any, keep: bool = False) -> None:
    *folders, leaf = path
    for folder in folders:
        inner = tree.get(folder, {})
        if not isinstance(inner, Mapping):
            raise ConfigError(f"{'.'.join(path)}: expected a mapping at {folder!r}, got {type(inner).__name__}")
        tree[folder] = dict(inner)
        tree = tree[folder]
    tree[leaf] = tree.get(leaf, value) if keep else value
