"""The settings of a synthesis run, checked before anything is read or spent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel, Field, GetPydanticSchema, PlainValidator, PrivateAttr, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from autorubric.errors import ConfigError, InputError, format_first
from autorubric.expectations import describe_expectation
from autorubric.files.keys import suggest_name
from autorubric.files.remote import make_path
from autorubric.llm.endpoint_settings import EndpointSettings
from autorubric.llm.http.secrets import NO_VARIABLE
from autorubric.rows import Table, convert_rows
from autorubric.runs.manifest import read_manifest
from autorubric.settings import FileName, Names, NewDirectory, setting
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.role_settings import FULL_ONLY, NESTED, ROLE_FLAGS, Roles, RoleSettings, nest_settings

Queries: TypeAlias = Path | str | Table | Iterable[str | Mapping[str, Any] | Sequence[Mapping[str, str]]]
"""A file of rows, or queries: texts, conversations as lists of messages, or rows with a question."""

_MOST_NAMED = 10


def _check_queries(value: Any) -> Any:
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        raise ValueError("expected the name of a file or folder, in printable characters")
    if isinstance(value, str | Path):
        return make_path(value)
    value = convert_rows(value, blanks=True)
    if not isinstance(value, list | tuple):
        raise ValueError("expected the path of a file, or a list of strings, conversations or rows")
    if not value:
        raise ValueError("the list is empty; expected a string, conversation or row for each query")
    wrong = [
        f"item {n} is {query!r:.60}" for n, query in enumerate(value) if not isinstance(query, str | list | Mapping)
    ]
    if wrong:
        raise ValueError(f"{format_first(wrong, _MOST_NAMED)}; expected a string, conversation or row for each query")
    return value


def _tokens(default: int, help: str, group: str = "Endpoint") -> Any:
    return setting(default, help, group=group, gt=0, le=10_000_000)


_Name = Annotated[str, Field(min_length=1)]


def _full(help: str) -> Any:
    return setting(None, help, group="Full profile")


def _model(role: str) -> Any:
    return setting(None, f"{role}: MODEL or MODEL@BASE_URL.", group="Models")


def _address(slot: str) -> Any:
    return setting(None, f"Endpoint of {slot}.", group="Models", hidden=True)


class SynthesisSettings(EndpointSettings):
    """The settings of a synthesis run; the defaults are the seed's.

    The models of the roles and the settings of the full profile are nested in `roles` and `full`. The parameters of
    `ROLE_FLAGS` set single values in them; `models` sets the roles that nothing else sets.

    Without a token limit, long replies get a higher default: a merge by the size of its input, a judgment of a whole
    rubric and relevance by the number of criteria.
    """

    profile: Literal["basic", "full"] = setting("basic", "basic (five steps) or full (with gates and evidence).")
    domain: str | None = setting(None, "Domain: medical, science, instruction_following, writing or chat.")
    prompts: FileName | None = setting(None, "Directory of your prompt templates.", reads=True)
    until: Literal["reference", "responses", "rubrics", "merge", "augment", "gates"] | None = setting(
        None, "Last step: reference, responses, rubrics, merge, augment, gates."
    )
    refresh: Names = setting((), "Role whose replies are requested again; repeatable.")
    question_column: _Name = setting("question", "Column or path of the query.", group="Input")
    id_column: str | None = setting(None, "Column that identifies a row (default: its line number).", group="Input")
    domain_column: _Name | None = setting(None, "Column with the domain; prompts follow --domain.", group="Input")
    responses_column: _Name | None = setting(None, "Column of existing responses (full profile).", group="Input")
    skip_bad_rows: bool = setting(False, "Skip input rows that cannot be used.", group="Input")
    limit: int | None = setting(None, "Use only the first N rows.", short="-n", group="Input", gt=0, le=10**9)
    judge_max_tokens: int = _tokens(4096, "First token limit of a judge's reply.", "Full profile")
    licence_max_tokens: int = _tokens(4096, "First token limit of a relevance judgment.", "Full profile")
    rewrite_max_tokens: int = _tokens(2048, "First token limit of a rewrite.", "Full profile")
    license: _Name = setting("unknown", "License of the data, for the dataset card.", group="Full profile")
    temperature: float = setting(0.2, "Temperature of roles except responses.", group="Endpoint", ge=0, le=2)
    response_temperature: float = setting(1.0, "Temperature of the responses.", group="Endpoint", ge=0, le=2)
    ref_max_tokens: int = _tokens(8192, "First token limit of a reference answer.")
    response_max_tokens: int = _tokens(8192, "First token limit of a response.")
    rubric_max_tokens: int = _tokens(2048, "First token limit of a candidate rubric.")
    merge_max_tokens: int = _tokens(2048, "First token limit of a merged rubric.")
    augment_max_tokens: int = _tokens(2048, "First token limit of harder criteria.")
    timeout: float = setting(1200, "Timeout of one attempt, in seconds.", group="Endpoint", gt=0, le=1e6)
    save_every: int = setting(200, "Write the step files every N rows.", group="Run", gt=0, le=10**9)
    step_files: Literal["full", "latest", "none"] = setting(
        "full", "Step files to keep: full (all), latest or none.", group="Output"
    )
    protocol: Literal[1, 2] | None = setting(
        None, "Version of the method: that of the run directory, for a new one the latest.", cli=False
    )
    max_criteria: int = setting(0, "Maximum criteria per rubric, by points (0: all).", group="Output", ge=0, le=10**6)
    input: Annotated[Queries, PlainValidator(_check_queries)] | None = setting(
        None,
        "Queries: CSV, JSON, JSONL, YAML, Parquet or Arrow; - is standard input.",
        flag="INPUT",
        argument=True,
        group="Input",
        reads=True,
    )
    models: str | None = setting(
        None, "Default model of all roles: MODEL or MODEL@BASE_URL.", short="-m", group="Models"
    )
    roles: Annotated[Mapping[str, Any], GetPydanticSchema(lambda _, read: read.generate_schema(Roles))] = setting(
        {}, "The models by role; see Roles.", cli=False
    )
    reference_model: str | None = _model("Writer of the reference answer")
    reference_base_url: str | None = _address("reference")
    response_model_a: str | None = _model("Writer of the first response")
    response_a_base_url: str | None = _address("response_a")
    response_model_b: str | None = _model("Writer of the second response")
    response_b_base_url: str | None = _address("response_b")
    rubric_model_a: str | None = _model("Writer of the first candidate rubric")
    rubric_a_base_url: str | None = _address("rubric_a")
    rubric_model_b: str | None = _model("Writer of the second rubric")
    rubric_b_base_url: str | None = _address("rubric_b")
    merge_model: str | None = _model("Merger of the candidate rubrics")
    merge_base_url: str | None = _address("merge")
    augment_model: str | None = _model("Writer of harder criteria")
    augment_base_url: str | None = _address("augment")
    judge_model_a: str | None = _model("First judge (full profile)")
    judge_a_base_url: str | None = _address("judge_a")
    judge_model_b: str | None = _model("Second judge")
    judge_b_base_url: str | None = _address("judge_b")
    judge_model_c: str | None = _model("Third judge")
    judge_c_base_url: str | None = _address("judge_c")
    full: Annotated[Mapping[str, Any], GetPydanticSchema(lambda _, read: read.generate_schema(FullSettings))] = (
        setting({}, "Settings of the full profile; see FullSettings.", cli=False)
    )
    pool: int | None = _full("Responses per query (default: 6).")
    grounding: str | None = _full("own (each model's own response) or reference (one for all).")
    rounds: int | None = _full("Maximum rounds of evolution, 0 to 4 (default: 1).")
    judging: str | None = _full("What one judge call covers: criterion or rubric.")
    pitfalls: str | None = _full("keep (write pitfalls into final_full), drop or off.")
    evolved_share: float | None = _full("Maximum share of the points for evolved criteria.")
    out: NewDirectory = setting("run", "Run directory; the same command resumes.", short="-o", group="Run")

    _nested: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def role_models(self) -> Roles:
        """The models by role."""
        return cast("Roles", self.roles)

    @property
    def full_profile(self) -> FullSettings:
        """The settings of the full profile."""
        return cast("FullSettings", self.full)

    @classmethod
    def from_manifest(cls, recorded: Mapping[str, Any]) -> Self:
        """Restore the settings in a manifest, without prices; settings without a version are of version 1."""
        without = () if recorded.get("profile") == "full" else FULL_ONLY
        kept = {name: value for name, value in recorded.items() if name not in without}
        return cls.model_validate({"protocol": 1, **kept, "prices": None})

    @model_validator(mode="wrap")
    @classmethod
    def _read_nested(cls, values: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(values, Mapping):
            return read(values)
        laid = nest_settings(values)
        if laid.get("input") is None or not isinstance(laid.get("models", ""), str | None):
            del laid["roles"]  # other problems are reported first
        elif isinstance(laid["roles"], dict) and laid.get("profile") != "full":
            laid["roles"].setdefault("reference", {})  # if it is missing, this is reported with the other roles
        made = read(laid)
        made._nested = {name: values[name] for name in NESTED if name in values}
        if made.input is None:
            raise InputError("no queries; pass INPUT (in Python: the first argument; in a config file: input)")
        only, flags = (*FULL_ONLY, "responses_column"), cls.list_flags()
        of_full = [flags[name].name for name in values if name in only and values[name] is not None]
        of_full += ["--until=gates"] * (made.until == "gates")
        if of_full and made.profile != "full":
            verb = "needs" if len(of_full) == 1 else "need"
            raise ConfigError(f"{', '.join(of_full)} {verb} the full profile; pass --profile=full")
        made._check_models()
        if made.refresh:
            from autorubric.synthesis.slots import find_refreshed_slots

            find_refreshed_slots(made)
        return made

    def _check_models(self) -> None:
        if self.role_models.reference is None and (self.profile, self.full_profile.grounding) != ("full", "own"):
            raise ConfigError(_LACKING.format("reference", "--reference-model", "roles.reference"))
        if self.profile == "full" and not self.role_models.judges:
            raise ConfigError("no model for the role 'judges'; pass --judge-model-a, or set roles.judges in --config")

    def collect_given(self) -> dict[str, Any]:
        """Return the settings that were passed, nested ones in the form in which they were passed."""
        given = {name: value for name, value in super().collect_given().items() if name not in NESTED}
        return given | self._nested

    def to_manifest(self) -> dict[str, Any]:
        """Return the settings for a manifest, with each value where it took effect."""
        shown = type(self).model_fields.keys() & SynthesisSettings.model_fields.keys()
        return self.model_dump(mode="json", include=shown - ROLE_FLAGS.keys() - {"models"})

    @classmethod
    def _locate_problem(
        cls, problem: Mapping[str, Any], named: Callable[[str], str]
    ) -> tuple[tuple[str, ...], list[str]]:
        path = [str(part) for part in problem["loc"]]
        if not path or path[0] not in NESTED:
            return super()._locate_problem(problem, named)
        place = ".".join(path)
        flat = next((name for name, path in ROLE_FLAGS.items() if path == place), "")
        return (flat,) if flat else tuple(path), [_describe_problem(problem, path, named(flat) if flat else place)]


_LACKING = "no model for the role '{}'; pass {} or set {} in a config"
_FLAGS = {
    "judges": "--judge-model-a",
    "responses": "--response-model-a and --response-model-b",
    "rubrics": "--rubric-model-a",
}


def _describe_problem(problem: Mapping[str, Any], path: list[str], told: str) -> str:
    """Return the problem with a nested setting."""
    name, kind = ".".join(path), problem["type"]
    if path == ["roles"] and problem["input"] is None:
        return "no model; pass --models MODEL, one --…-model for each role, or set roles in a config"
    if kind == "extra_forbidden":
        return f"unknown key {name!r}; {suggest_name(path[-1], _list_keys(path[:-1]))}"
    if kind == "missing":
        flag = _FLAGS.get(path[1], f"--{path[1]}-model")
        lacking = _LACKING.format(path[1], flag, name)
        return lacking if path[2:] in ([], ["model"]) else f"{told} is missing"
    if kind == "too_short" and path[:2] == ["roles", "responses"]:
        return "evolving criteria compares two responses; pass --response-model-a and --response-model-b"
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, ConfigError):
        return str(raised)
    # The value may be an API key.
    wrong = f"is {problem['input']!r}; {describe_expectation(problem)}"
    return f"{told} {NO_VARIABLE if path[-1] == 'api_key_env' else wrong}"


def _list_keys(path: list[str]) -> list[str]:
    if path[0] == "roles":
        return list(Roles.model_fields if len(path) == 1 else RoleSettings.model_fields)
    model: type[BaseModel] = FullSettings
    for part in path[1:]:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else model
    return list(model.model_fields)


LATEST = 2
"""The version of the method that new runs follow; a directory keeps the version that it began with.

Version 1 has the first prompts, one judge call per rubric, relevance draws that differ only in their number and count
as independent, repetitions found by equal verdicts alone, and pitfalls requested even if they are dropped. Version 2
changes each of these. A directory of version 1 resumes as version 1, so that its saved replies fit its requests.
"""


S = TypeVar("S", bound=SynthesisSettings)


def resolve_protocol(settings: S, *, start_over: bool = False) -> S:
    """Return the settings of a run with its version and the defaults of that version."""
    manifest = None if settings.protocol or start_over else read_manifest(Path(settings.out))
    protocol = settings.protocol or LATEST
    if manifest is not None and manifest.get("kind") == "synthesis":
        held = manifest.get("settings")
        recorded = held.get("protocol", 1) if held else None
        # For a damaged record: the first version did not record stages.
        protocol = recorded if recorded in (1, LATEST) else LATEST if "stages" in manifest else 1
    full = settings.full_profile
    if protocol == 1:
        full = _apply_first_version(full)
    elif full.pitfalls == "drop":  # pitfalls that no file would hold are not paid for
        full = full.model_copy(update={"pitfalls": "off"})
    return settings.model_copy(update={"protocol": protocol, "full": full})


def _apply_first_version(full: FullSettings) -> FullSettings:
    gates, redundant = full.gates, full.gates.redundant
    if "least_error" not in gates.model_fields_set:
        gates = gates.model_copy(update={"least_error": 0.0})
    if "prior_other" not in redundant.model_fields_set:
        gates = gates.model_copy(update={"redundant": redundant.model_copy(update={"prior_other": 0.01})})
    own = "judging" in full.model_fields_set
    return full.model_copy(update={"gates": gates, "judging": full.judging if own else "rubric"})
