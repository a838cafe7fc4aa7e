"""Everything that can be set for a synthesis run, checked before anything is read or spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from autorubric.errors import ConfigError
from autorubric.files import nearest, read_document
from autorubric.synthesis.plan import letters


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """`concurrency: yes` of another YAML is no one call in flight."""
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation is not bool:
            raise ValueError("expected no truth value here")
        return value


def _plain(value: Any) -> Any:
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        raise ValueError("expected the name of a file or folder, in characters that can be shown")
    return value


FileName = Annotated[Path, BeforeValidator(_plain)]


class RoleSettings(_Strict):
    """The model that plays one role, and where it is reached.

    Attributes:
        model: `provider/model`, or the served name when `base_url` is given.
        base_url: an OpenAI-compatible endpoint; the provider's own by default.
        api_key_env: the environment variable that holds the key; by default `<ROLE>_API_KEY` (such as
            `RESPONSE_A_API_KEY`), then the provider's.
        temperature: overrides the run's.
        max_tokens: overrides the role's.
        top_p: nucleus sampling, in (0, 1].
        seed: sent where the endpoint takes one.
        requests_per_minute: kept by all roles at the same endpoint together; the strictest counts.
        tokens_per_minute: likewise.
        extra: further parameters of the request body, sent as they are.
    """

    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, gt=0, le=10_000_000)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    requests_per_minute: float | None = Field(None, gt=0, allow_inf_nan=False)
    tokens_per_minute: float | None = Field(None, gt=0, allow_inf_nan=False)
    extra: dict[str, Any] = Field(default_factory=dict)


def _named(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


Role = Annotated[RoleSettings, BeforeValidator(_named)]
RoleList = Annotated[list[Role], BeforeValidator(_listed)]


class Roles(_Strict):
    """Who plays which part. Two responses and one or two rubrics are the seed's shape; more are welcome."""

    reference: Role
    responses: RoleList = Field(min_length=2, max_length=26)
    rubrics: RoleList = Field(min_length=1, max_length=26)
    merge: Role
    augment: Role

    def by_slot(self) -> Iterator[tuple[str, RoleSettings]]:
        """Every slot with its model: reference, response_a, …, rubric_a, …, merge, augment."""
        yield "reference", self.reference
        for letter, role in zip(letters(len(self.responses)), self.responses, strict=True):
            yield f"response_{letter}", role
        for letter, role in zip(letters(len(self.rubrics)), self.rubrics, strict=True):
            yield f"rubric_{letter}", role
        yield "merge", self.merge
        yield "augment", self.augment


class SynthesisSettings(_Strict):
    """The settings of `autorubric synthesize`; the defaults are the seed's.

    Attributes:
        input: the JSONL file of queries.
        out: the directory that takes the step files, the final files, the ledger and the manifest.
        question_column: the column of the query, or a path such as `turns[0]`.
        id_column: the column that identifies a row.
        roles: the models.
        concurrency: the most calls in flight.
        retry: how often a call that failed in passing is tried again.
        timeout: seconds one attempt may take.
        temperature: for reference, rubric, merge and augment.
        response_temperature: for the responses.
        ref_max_tokens: the longest reference; likewise for the other roles.
        save_every: rows between two writes of the manifest. Replies are durable at once whatever it is.
        max_criteria: the most criteria of a final rubric, kept by points; 0 for no cap.
        prices: a YAML, TOML or JSON file of dollars per million tokens, `model: {input: …, output: …}`.
        prompts: a directory of templates that replace the package's.
        until: stop after this step.
        limit: use only the first rows.
        budget_usd: dollars this directory may cost, earlier sessions included.
        budget_tokens: tokens this directory may take, earlier sessions included.
        refresh: roles to ask anew whatever is there.
        skip_bad_rows: leave out input rows that cannot be used.
    """

    input: FileName
    out: FileName
    question_column: str = Field("question", min_length=1)
    id_column: str | None = None
    roles: Roles
    concurrency: int = Field(256, gt=0, le=10_000)
    retry: int = Field(5, ge=0, le=100)
    timeout: float = Field(1200, gt=0, le=1e6, allow_inf_nan=False)
    temperature: float = Field(0.2, ge=0, le=2)
    response_temperature: float = Field(1.0, ge=0, le=2)
    ref_max_tokens: int = Field(8192, gt=0, le=10_000_000)
    response_max_tokens: int = Field(8192, gt=0, le=10_000_000)
    rubric_max_tokens: int = Field(2048, gt=0, le=10_000_000)
    merge_max_tokens: int = Field(2048, gt=0, le=10_000_000)
    augment_max_tokens: int = Field(2048, gt=0, le=10_000_000)
    save_every: int = Field(200, gt=0, le=1_000_000_000)
    max_criteria: int = Field(0, ge=0, le=1_000_000)
    prices: FileName | None = None
    prompts: FileName | None = None
    until: Literal["reference", "responses", "rubrics", "merge", "augment"] | None = None
    limit: int | None = Field(None, gt=0, le=1_000_000_000)
    budget_usd: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False)
    budget_tokens: int | None = Field(None, gt=0, le=10**15)
    refresh: tuple[str, ...] = ()
    skip_bad_rows: bool = False


def settings_from(values: Mapping[str, Any], where: str = "settings") -> SynthesisSettings:
    """Check values and return the settings.

    Raises:
        ConfigError: unknown keys (with the nearest known one), missing roles, values of the wrong type or
            range; all at once.
    """
    try:
        settings = SynthesisSettings.model_validate(values)
    except ValidationError as error:
        raise ConfigError([_told(problem, where) for problem in _worst_first(error)]) from None
    slots = [slot for slot, _ in settings.roles.by_slot()]
    unknown = [role for role in settings.refresh if not _covered(role, slots)]
    if unknown:
        raise ConfigError(f"no role is called {', '.join(map(repr, unknown))}; the roles are {', '.join(slots)}")
    return settings


def refreshed_slots(settings: SynthesisSettings) -> frozenset[str]:
    """The slots that `refresh` names: `response` stands for every response slot."""
    slots = [slot for slot, _ in settings.roles.by_slot()]
    return frozenset(s for s in slots for role in settings.refresh if s == role or s.startswith(f"{role}_"))


def values_in(path: Path) -> dict[str, Any]:
    """The settings in a YAML, TOML or JSON file, unchecked; relative paths in it start at the file's folder."""
    values = read_document(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, got {type(values).__name__}")
    for key in ("input", "out", "prompts", "prices"):
        if isinstance(values.get(key), str) and values[key].strip():
            values[key] = str(path.parent / values[key])
    return values


def _covered(role: str, slots: list[str]) -> bool:
    return any(slot == role or slot.startswith(f"{role}_") for slot in slots)


def _worst_first(error: ValidationError) -> list[Any]:
    return sorted(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")


_FLAGS = {"responses": "--response-model-a and --response-model-b", "rubrics": "--rubric-model-a"}


def _told(problem: Any, where: str) -> str:
    path = [str(part) for part in problem["loc"]]
    name, kind = ".".join(path), problem["type"]
    if kind == "extra_forbidden":
        near = nearest(path[-1], _known_keys(path[:-1]))
        return f"{where}: unknown key {name!r}" + (f"; did you mean {near!r}?" if near else "")
    if kind == "missing" and path[:1] == ["roles"]:
        if len(path) == 1:
            return (
                "no model plays any role; pass --models MODEL, one --…-model for each role, or set roles in a config"
            )
        flag = _FLAGS.get(path[1], f"--{path[1]}-model")
        return f"no model plays {path[1]!r}; pass {flag} or set roles.{path[1]} in a config"
    if kind == "missing":
        return f"{where}: {name!r} is missing"
    if kind == "too_short" and path[:2] == ["roles", "responses"]:
        return "evolving criteria compares two responses; pass --response-model-a and --response-model-b"
    return f"{where}: {name} is {problem['input']!r}; {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _known_keys(path: list[str]) -> list[str]:
    if not path:
        return list(SynthesisSettings.model_fields)
    if path == ["roles"]:
        return list(Roles.model_fields)
    return list(RoleSettings.model_fields)
