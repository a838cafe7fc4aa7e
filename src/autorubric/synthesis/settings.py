"""Everything that can be set for a synthesis run, checked before anything is read or spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from autorubric.errors import ConfigError
from autorubric.files import nearest, read_document
from autorubric.llm.config import DEFAULT_CEILING
from autorubric.llm.http.providers import addressed
from autorubric.llm.http.secrets import NO_VARIABLE, checked_base_url, is_variable_name, split_address
from autorubric.rows.stream import STDIN
from autorubric.synthesis.domains import with_domain
from autorubric.synthesis.full.settings import FullSettings
from autorubric.synthesis.plan import letters
from autorubric.synthesis.strict import Strict


def _plain(value: Any) -> Any:
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        raise ValueError("expected the name of a file or folder, in characters that can be shown")
    return value


FileName = Annotated[Path, BeforeValidator(_plain)]


def _no_key(value: Any) -> Any:
    if isinstance(value, str) and not is_variable_name(value):
        raise ValueError(NO_VARIABLE)
    return value


VariableName = Annotated[str, BeforeValidator(_no_key)]


class RoleSettings(Strict):
    """The model that plays one role, and where it is reached.

    Attributes:
        model: `provider/model`, or the served name when `base_url` is given; `MODEL@BASE_URL` gives both.
        base_url: an OpenAI-compatible endpoint; by default that of the run, then the provider's own.
        api_key_env: the environment variable that holds the key; by default `<ROLE>_API_KEY` (such as
            `RESPONSE_A_API_KEY`), then the run's, then the provider's.
        temperature: overrides the run's.
        max_tokens: overrides the role's.
        top_p: nucleus sampling, in (0, 1].
        seed: sent where the endpoint takes one.
        requests_per_minute: kept by all roles at the same endpoint together; the strictest counts.
        tokens_per_minute: likewise.
        draws: how many independent samples of a response, rubric or judge are taken; 1 by default.
        extra: further parameters of the request body, sent as they are.
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


def _named(value: Any) -> Any:
    role = {"model": value} if isinstance(value, str) else value
    if not isinstance(role, dict) or not isinstance(role.get("model"), str):
        return role
    model, address = split_address(role["model"])
    # An address of the role itself wins over the one in a name, which may be that of --models.
    return role if address is None else {**role, "model": model, "base_url": role.get("base_url") or address}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


Role = Annotated[RoleSettings, BeforeValidator(_named)]
RoleList = Annotated[list[Role], BeforeValidator(_listed)]


class Roles(Strict):
    """Who plays which part. Two responses and one or two rubrics are the seed's shape; more are welcome.

    The full method needs judges too. Where nobody plays licence, the first judge does; where nobody plays
    rewrite, the model of augment.
    """

    reference: Role
    responses: RoleList = Field(min_length=2, max_length=26)
    rubrics: RoleList = Field(min_length=1, max_length=26)
    merge: Role
    augment: Role
    judges: RoleList = Field(default_factory=list, max_length=26)
    licence: Role | None = None
    rewrite: Role | None = None


class SynthesisSettings(Strict):
    """The settings of `autorubric synthesize`; the defaults are the seed's.

    Attributes:
        input: the file of queries: CSV, TSV, JSON, JSON Lines, YAML, Parquet, Arrow, a dataset folder, or `-`.
        out: the directory that takes the step files, the final files, the ledger and the manifest.
        profile: `basic`, the seed's five steps, or `full`, the paper's whole method with gates.
        domain: a domain profile of the package: settings and additions to prompts for one kind of query.
        full: the settings of the full method.
        question_column: the column of the query, or a path such as `turns[0]`; a text, or a list of messages.
        responses_column: a column of finished responses, a list or a mapping from models, used as the pool.
        id_column: the column that identifies a row.
        domain_column: the column that holds the domain of a row, as in `final_full`; `domain` where it is blank.
        roles: the models.
        base_url: an OpenAI-compatible endpoint for every role that names none.
        api_key_env: the environment variable with the key of every role that has none of its own.
        allow_plain_http: send keys over plain HTTP to hosts outside of this machine and private networks.
        concurrency: the most calls in flight.
        retry: how often a call that failed in passing is tried again.
        timeout: seconds one attempt may take.
        temperature: for reference, rubric, merge and augment.
        response_temperature: for the responses.
        ref_max_tokens: completion tokens that a reference is first asked for with; likewise for the other roles.
            Where it is not set, a reply that needs more room starts higher: a merge by what it merges, a judgment
            of a whole rubric and licences by the number of criteria.
        max_tokens_ceiling: the highest limit that a reply which was cut off is asked for again with.
        save_every: rows between two writes of the step files and the manifest. Every reply is saved at once.
        max_criteria: the most criteria of a final rubric, kept by points; 0 for no cap.
        license: of the data, for the dataset card of the full method, as Hugging Face writes it.
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
    profile: Literal["basic", "full"] = "basic"
    domain: str | None = None
    full: FullSettings = Field(default_factory=FullSettings)
    question_column: str = Field("question", min_length=1)
    responses_column: str | None = Field(None, min_length=1)
    id_column: str | None = None
    domain_column: str | None = Field(None, min_length=1)
    roles: Roles
    base_url: str | None = None
    api_key_env: VariableName | None = None
    allow_plain_http: bool = False
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
    judge_max_tokens: int = Field(4096, gt=0, le=10_000_000)
    licence_max_tokens: int = Field(4096, gt=0, le=10_000_000)
    rewrite_max_tokens: int = Field(2048, gt=0, le=10_000_000)
    max_tokens_ceiling: int = Field(DEFAULT_CEILING, gt=0, le=10_000_000)
    save_every: int = Field(200, gt=0, le=1_000_000_000)
    max_criteria: int = Field(0, ge=0, le=1_000_000)
    license: str = Field("unknown", min_length=1)
    prices: FileName | None = None
    prompts: FileName | None = None
    until: Literal["reference", "responses", "rubrics", "merge", "augment", "gates"] | None = None
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
        settings = SynthesisSettings.model_validate(with_domain(values))
    except ValidationError as error:
        raise ConfigError([_told(problem, where) for problem in _worst_first(error)]) from None
    if settings.base_url is not None:
        checked_base_url(settings.base_url, "base_url (--base-url)")
    if settings.profile == "full":
        _refuse_unplayable(settings)
    elif settings.responses_column:
        raise ConfigError("responses_column needs the full method; pass --profile full")
    slots = [slot.name for slot in slots_of(settings)]
    unknown = [role for role in settings.refresh if not _covered(role, slots)]
    if unknown:
        raise ConfigError(f"no role is called {', '.join(map(repr, unknown))}; the roles are {', '.join(slots)}")
    return settings


def refreshed_slots(settings: SynthesisSettings) -> frozenset[str]:
    """The slots that `refresh` names: `response` stands for every response slot."""
    slots = [slot.name for slot in slots_of(settings)]
    return frozenset(s for s in slots for role in settings.refresh if s == role or s.startswith(f"{role}_"))


def values_in(path: Path) -> dict[str, Any]:
    """The settings in a YAML, TOML or JSON file, unchecked; relative paths in it start at the file's folder."""
    values = read_document(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, got {type(values).__name__}")
    for key in ("input", "out", "prompts", "prices"):
        if isinstance(values.get(key), str) and values[key].strip() not in ("", STDIN):
            values[key] = str(path.parent / values[key])
    return values


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


def slots_of(settings: SynthesisSettings) -> tuple[Slot, ...]:
    """Every slot of a run with its model: reference, response_a, …, rubric_a, …, merge, augment.

    A role with `draws` takes so many slots in a row. The full method fills its pool from all response models
    in turn, and adds judge_a, …, licence and rewrite, and own_a, … for rubric models that respond to no query; with
    given responses none is asked for.
    """
    roles, full = _placed(settings), settings.profile == "full"
    slots = [Slot("reference", roles.reference, "reference")]
    if not settings.responses_column:
        slots += _drawn("response", roles.responses, settings.full.pool if full else 0)
    slots += _drawn("rubric", roles.rubrics)
    slots += [Slot("merge", roles.merge, "merge"), Slot("augment", roles.augment, "augment")]
    if full:
        slots += _own_answers(slots) if settings.full.grounding == "own" else []
        slots += _drawn("judge", roles.judges)
        slots.append(_played("licence", roles.licence, "judge_a", roles.judges[0]))
        slots.append(_played("rewrite", roles.rewrite, "augment", roles.augment))
    return tuple(slots)


def _placed(settings: SynthesisSettings) -> Roles:
    """The roles, those without an address at the address of the run."""
    if settings.base_url is None:
        return settings.roles

    def placed(held: Any) -> Any:
        if not isinstance(held, RoleSettings):
            return held and [placed(role) for role in held]
        own = held.base_url or addressed(held.model, settings.base_url)[1]
        return held.model_copy(update={"base_url": own})

    return settings.roles.model_copy(update={name: placed(held) for name, held in settings.roles})


def _drawn(part: str, roles: Sequence[RoleSettings], least: int = 0) -> list[Slot]:
    sources = [(f"{part}_{letter}", role) for letter, role in zip(letters(len(roles)), roles, strict=True)]
    drawn = [one for one in sources for _ in range(one[1].draws or 1)]
    if all(role.draws is None for role in roles):
        drawn = [sources[i % len(sources)] for i in range(max(least, len(sources)))]
    names = (f"{part}_{letter}" for letter in letters(len(drawn)))
    return [Slot(name, role, source) for name, (source, role) in zip(names, drawn, strict=True)]


def _own_answers(slots: Sequence[Slot]) -> list[Slot]:
    """A slot for each rubric model that is no response model, for the answer that grounds its rubric."""
    responders = {slot.address for slot in slots if slot.name.startswith("response_")}
    return [
        Slot(slot.name.replace("rubric", "own"), slot.role, slot.source)
        for slot in slots
        if slot.name.startswith("rubric_") and slot.address not in responders
    ]


def _played(name: str, role: RoleSettings | None, source: str, stand_in: RoleSettings) -> Slot:
    return Slot(name, stand_in, source) if role is None else Slot(name, role, name)


def _refuse_unplayable(settings: SynthesisSettings) -> None:
    if not settings.roles.judges:
        raise ConfigError("no model plays 'judges'; pass --judge-model-a or set roles.judges in a config")


def _covered(role: str, slots: list[str]) -> bool:
    return any(slot == role or slot.startswith(f"{role}_") for slot in slots)


def _worst_first(error: ValidationError) -> list[Any]:
    return sorted(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")


_FLAGS = {
    "judges": "--judge-model-a",
    "responses": "--response-model-a and --response-model-b",
    "rubrics": "--rubric-model-a",
}


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
    return _wrong_value(problem, where, path)


def _wrong_value(problem: Any, where: str, path: list[str]) -> str:
    name = ".".join(path)
    if problem["type"] == "too_short" and path[:2] == ["roles", "responses"]:
        return "evolving criteria compares two responses; pass --response-model-a and --response-model-b"
    if path[-1] == "api_key_env":  # whose value may be the key
        return f"{where}: {name} {NO_VARIABLE}"
    return f"{where}: {name} is {problem['input']!r}; {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _known_keys(path: list[str]) -> list[str]:
    model: type[BaseModel] = SynthesisSettings
    for part in path:
        if part == "roles":
            model = Roles
        elif model is Roles:
            return list(RoleSettings.model_fields)
        else:
            inner = model.model_fields[part].annotation if part in model.model_fields else None
            model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else model
    return list(model.model_fields)
