"""The flags of `autorubric synthesize`, as one table: each names the setting it fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autorubric.errors import ConfigError


def folder_named(text: str | Path) -> Path:
    """The path of a directory to work in.

    Raises:
        typer.BadParameter: the name is blank, or no text that a file can hold.

    Example:
        >>> folder_named("out").name
        'out'
    """
    from typer import BadParameter

    text = str(text)  # a default comes as a path
    if not text.strip():
        raise BadParameter("expected the path of a directory, got a blank text")
    if not text.isprintable():
        raise BadParameter(f"{text!a} holds characters that no message or file can show; choose another name")
    return Path(text)


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        name: as it is typed, without dashes.
        setting: where its value goes: a dotted path, whose numbers are places in a list.
        type: the type of its value.
        help: one line for `--help`.
        short: a one-letter form.
    """

    name: str
    setting: str
    type: Any
    help: str
    short: str = ""

    @property
    def parameter(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")

    @property
    def only_full(self) -> bool:
        """Whether it sets something that the full method alone has."""
        return self.setting.startswith(_ONLY_FULL)


_ONLY_FULL = ("full.", "roles.judges.", "judge_max_tokens", "licence_max_tokens", "rewrite_max_tokens", "license")


def _role_flags() -> Iterable[Flag]:
    slots = {
        "reference": ("roles.reference", "reference-model"),
        "response-a": ("roles.responses.0", "response-model-a"),
        "response-b": ("roles.responses.1", "response-model-b"),
        "rubric-a": ("roles.rubrics.0", "rubric-model-a"),
        "rubric-b": ("roles.rubrics.1", "rubric-model-b"),
        "merge": ("roles.merge", "merge-model"),
        "augment": ("roles.augment", "augment-model"),
        "judge-a": ("roles.judges.0", "judge-model-a"),
        "judge-b": ("roles.judges.1", "judge-model-b"),
        "judge-c": ("roles.judges.2", "judge-model-c"),
    }
    for slot, (place, name) in slots.items():
        yield Flag(name, f"{place}.model", str, f"MODEL or MODEL@BASE_URL that plays {slot.replace('-', '_')}.")
        yield Flag(f"{slot}-base-url", f"{place}.base_url", str, f"Endpoint of {slot.replace('-', '_')}.")


FLAGS: tuple[Flag, ...] = (
    Flag("out", "out", Path, "Directory for the results; the same command again goes on from there.", "-o"),
    Flag("question-column", "question_column", str, "Column of the query, or a path such as turns[0] (question)."),
    Flag("id-column", "id_column", str, "Column that identifies a row; without it the line number does."),
    Flag("domain-column", "domain_column", str, "Column with the domain of each row."),
    Flag("profile", "profile", str, "basic (the seed's five steps) or full (graded pool, gates, evidence)."),
    Flag("domain", "domain", str, "Domain profile: medical, science, instruction_following, writing or chat."),
    Flag("responses-column", "responses_column", str, "Column of finished responses to use as the pool."),
    Flag("base-url", "base_url", str, "Endpoint of every model without an address of its own."),
    Flag("api-key-env", "api_key_env", str, "Variable that holds the key of every role without one of its own."),
    Flag("allow-plain-http", "allow_plain_http", bool, "Send keys over plain HTTP beyond private networks."),
    *_role_flags(),
    Flag("pool", "full.pool", int, "Full: responses a query, from all response models in turn (6)."),
    Flag("grounding", "full.grounding", str, "Full: rubrics rest on each model's own response, or on one reference."),
    Flag("rounds", "full.rounds", int, "Full: most rounds of evolution, 0 to 4 (1)."),
    Flag("judging", "full.judging", str, "Full: one call for a whole rubric, or one for each criterion."),
    Flag("pitfalls", "full.pitfalls", str, "Full: keep pitfalls in final_full, drop them there, or off."),
    Flag("evolved-share", "full.gates.share.most", float, "Full: most of the points that evolved criteria may hold."),
    Flag("concurrency", "concurrency", int, "Most calls in flight (256).", "-j"),
    Flag("retry", "retry", int, "Retries of a call that failed in passing (5)."),
    Flag("timeout", "timeout", float, "Seconds one attempt may take (1200)."),
    Flag("temperature", "temperature", float, "For reference, rubric, merge and augment (0.2)."),
    Flag("response-temperature", "response_temperature", float, "For the responses (1.0)."),
    Flag("ref-max-tokens", "ref_max_tokens", int, "Longest reference (8192)."),
    Flag("response-max-tokens", "response_max_tokens", int, "Longest response (8192)."),
    Flag("rubric-max-tokens", "rubric_max_tokens", int, "Longest candidate rubric (8192)."),
    Flag("merge-max-tokens", "merge_max_tokens", int, "Longest merged rubric (by what is merged)."),
    Flag("augment-max-tokens", "augment_max_tokens", int, "Longest list of evolved criteria (8192)."),
    Flag("judge-max-tokens", "judge_max_tokens", int, "Full: longest reply of a judge (by number of criteria)."),
    Flag("licence-max-tokens", "licence_max_tokens", int, "Full: longest list of licences (by number of criteria)."),
    Flag("rewrite-max-tokens", "rewrite_max_tokens", int, "Full: longest list of rewrites (by number of criteria)."),
    Flag("max-tokens-ceiling", "max_tokens_ceiling", int, "A reply that is cut off is asked for with up to (32768)."),
    Flag(
        "save-every",
        "save_every",
        int,
        "Rows between two writes of the step files (200); every reply is saved at once.",
    ),
    Flag(
        "max-criteria",
        "max_criteria",
        int,
        "Most criteria a rubric, kept by points, ties in order; 0 for no cap.",
    ),
    Flag("license", "license", str, "Full: licence of the data, for its card (unknown)."),
    Flag("prompts", "prompts", Path, "Directory of templates that replace the package's."),
    Flag("until", "until", str, "Stop after a step: reference, responses, rubrics, merge, augment or gates."),
    Flag("limit", "limit", int, "Use only the first rows.", "-n"),
    Flag("budget-usd", "budget_usd", float, "Dollars this directory may cost, earlier sessions included."),
    Flag("prices", "prices", Path, "File of dollars per million tokens, model: {input: 1.25, output: 10}."),
    Flag("budget-tokens", "budget_tokens", int, "Tokens this directory may take, earlier sessions included."),
)


def settings_tree(given: Mapping[str, Any], config: Mapping[str, Any], models: str | None) -> dict[str, Any]:
    """The settings of a config file with flags laid over them.

    Args:
        given: flag values by parameter name; None where a flag was not passed.
        config: what the config file holds.
        models: a model for every role that nothing else names.

    Example:
        >>> tree = settings_tree({"merge_model": "openai/a", "limit": None}, {"concurrency": 8}, None)
        >>> tree["roles"], tree["concurrency"]
        ({'merge': {'model': 'openai/a'}}, 8)
    """
    tree: dict[str, Any] = _indexed(dict(config))
    for flag in FLAGS:
        value = given.get(flag.parameter)
        if value is not None:
            _put(tree, flag.setting.split("."), str(value) if isinstance(value, Path) else value)
    if models:
        for flag in FLAGS:
            if flag.setting.endswith(".model"):
                _put(tree, flag.setting.split("."), models, keep=True)
    return {key: _listed(value, key) for key, value in tree.items()}


_LISTS = ("responses", "rubrics", "judges")


def _indexed(value: Any) -> Any:
    """Roles as mappings all the way down, with a list as a mapping from places."""
    if isinstance(value, dict) and isinstance(value.get("roles"), dict):
        roles = {
            key: _role([entry] if key in _LISTS and not isinstance(entry, list) else entry)
            for key, entry in value["roles"].items()
        }
        return {**value, "roles": roles}
    return value


def _role(entry: Any) -> Any:
    if isinstance(entry, str):
        return {"model": entry}
    if isinstance(entry, list):
        return {str(i): _role(one) for i, one in enumerate(entry)}
    return dict(entry) if isinstance(entry, dict) else entry


def _put(tree: dict[str, Any], path: list[str], value: Any, keep: bool = False) -> None:
    *folders, leaf = path
    for folder in folders:
        tree = tree.setdefault(folder, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{'.'.join(path)}: expected a mapping at {folder!r}, got {type(tree).__name__}")
    if keep:
        tree.setdefault(leaf, value)
    else:
        tree[leaf] = value


def _listed(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        places = sorted(value, key=int)
        if places != [str(i) for i in range(len(places))]:
            part = name.removesuffix("s")
            raise ConfigError(f"a model for slot b was given, but none for slot a; pass --{part}-model-a")
        return [_listed(value[place], name) for place in places]
    return {key: _listed(entry, key) for key, entry in value.items()}
