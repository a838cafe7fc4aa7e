"""The prompts of a synthesis run with the additions of a domain, and requests built from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from autorubric.errors import ConfigError
from autorubric.files import suggest_name
from autorubric.linting.criterion_words import Phrasing
from autorubric.llm.request import Message, Reply, ReplySchema, Request, Unreadable, build_reask
from autorubric.prompts import Prompt, PromptSet, load_prompts, load_schema, package_prompts
from autorubric.prompts.judging import JudgePrompts, load_judge_prompts, package_judge_prompts
from autorubric.prompts.library import GatePrompts, load_gate_prompts, package_gate_prompts
from autorubric.prompts.template import PACKAGED, Template

DOMAINS = ("medical", "science", "instruction_following", "writing", "chat")
"""The domain profiles of the package: settings and additions to prompts, as data files in `domains/`."""


FIRST_WORDINGS = ("rubric", "pitfalls", "augment")
"""The prompts whose wording of version 1 is kept in `prompts/first`."""


@dataclass(frozen=True, slots=True)
class SynthesisPrompts:
    """The prompts of one run.

    Attributes:
        drafts: the prompts for responses, rubrics, pitfalls, merge and evolution.
        judges: the prompts of the judges that grade the pool; None in the basic profile.
        gates: the prompts for relevance and rewrites; None in the basic profile.
    """

    drafts: PromptSet
    judges: JudgePrompts | None = None
    gates: GatePrompts | None = None

    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of every prompt by its name, for manifests."""
        judges = self.judges.fingerprints() if self.judges else {}
        gates = self.gates.fingerprints() if self.gates else {}
        return {**self.drafts.fingerprints(), **{f"judge_{name}": mark for name, mark in judges.items()}, **gates}

    def follow_up(self, request: Request, reply: Reply, problem: Unreadable) -> Request:
        """Return the request that follows an unusable reply."""
        turns = self.drafts.reask.render(problem=problem.message)
        return build_reask(request, reply, problem, (Message("user", text) for _, text in turns))


def load_synthesis_prompts(
    folder: str | Path | None, *, full: bool, domain: str | None = None, protocol: int | None = None
) -> SynthesisPrompts:
    """Load the package's prompts, with those of a folder and the additions of a domain.

    The folder contains the drafts' templates; for the full profile, those of the judges are in its subfolder
    `judges`, those of relevance and rewrites in `gates`. Each of the three may be missing. Runs of `protocol` 1 have
    the package's first wordings.

    Raises:
        InputError: none of the three exists, or files in them are unknown or wrong.
        ConfigError: the folder has a template for the basic profile's merge, which the full profile does not use.
    """
    directory = None if folder is None else Path(folder)
    judges, gates = (directory / name if directory else None for name in ("judges", "gates"))
    parts = full and bool((judges and judges.is_dir()) or (gates and gates.is_dir()))
    files_in = [path for path in directory.glob("[!.]*") if path.is_file()] if directory and parts else []
    drafts = load_prompts(directory) if directory and (files_in or not parts) else package_prompts()
    if full and drafts.merge.origin != PACKAGED:
        raise ConfigError(
            f"{drafts.merge.origin}: the full profile merges with merge_sets.jinja; use that name instead"
        )
    drafts = _with_first_wording(drafts) if protocol == 1 else drafts
    drafts = add_domain(drafts, domain) if domain else drafts
    if not full:
        return SynthesisPrompts(drafts)
    return SynthesisPrompts(
        drafts,
        load_judge_prompts(judges) if judges and judges.is_dir() else package_judge_prompts(),
        load_gate_prompts(gates) if gates and gates.is_dir() else package_gate_prompts(),
    )


def _with_first_wording(prompts: PromptSet) -> PromptSet:
    """Return the package's prompts in the wording of version 1; custom prompts are not changed."""
    own = (name for name in FIRST_WORDINGS if getattr(prompts, name).origin == PACKAGED)
    folder = files("autorubric.prompts").joinpath("first")
    texts = {name: folder.joinpath(f"{name}.jinja").read_text(encoding="utf-8") for name in own}
    return replace(prompts, **{name: Template(name, text) for name, text in texts.items()})


def merge_domain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings with those of the domain that they name; they take precedence.

    Raises:
        ConfigError: no domain has that name.
    """
    return _merge_settings(_load_profile(str(values["domain"]))["settings"], values)


def add_domain(prompts: PromptSet, name: str) -> PromptSet:
    """Return the package's prompts with the additions of a domain; custom prompts are not changed."""
    profile, added = _load_profile(name), dict[str, Any]()
    for prompt, examples in profile["examples"].items():
        template = getattr(prompts, prompt)
        if isinstance(template, Template) and template.origin == PACKAGED:
            # A paragraph at the end of the system message, and examples of the domain instead of the general ones.
            source = _with_examples(template.source, examples)
            if text := profile["additions"].get(prompt):
                head, tail = source.split("{% endblock %}", 1)
                source = f"{head}\n{{% raw %}}{text}{{% endraw %}}\n{{% endblock %}}{tail}"
            added[prompt] = Template(template.name, source)
    return replace(prompts, **added)


def _with_examples(source: str, examples: Mapping[str, str]) -> str:
    """Return a template with other examples between its marks; a template without marks is not changed."""
    head, mark, rest = source.partition("{# examples #}")
    if not mark:
        return source
    texts = {language: f"{{% raw %}}{text.rstrip()}{{% endraw %}}" for language, text in examples.items()}
    tail = rest.partition("{# end of examples #}")[2]
    either = f"{{% if chinese is defined and chinese %}}{texts['zh']}{{% else %}}{texts['en']}{{% endif %}}"
    return f"{head}{mark}{either}{tail}"


@cache
def _load_profile(name: str) -> dict[str, Any]:
    if name not in DOMAINS:
        raise ConfigError(f"unknown domain {name!r}; {suggest_name(name, DOMAINS)}")
    import yaml

    text = files("autorubric.synthesis").joinpath(f"domains/{name}.yaml").read_text(encoding="utf-8")
    profile: dict[str, Any] = yaml.safe_load(text)
    return profile


def _merge_settings(under: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two trees of settings; `upper` takes precedence leaf by leaf."""
    merged = dict(under)
    for key, value in upper.items():
        held = merged.get(key)
        both = isinstance(held, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge_settings(held, value) if both else value  # type: ignore[arg-type]
    return merged


def build_request(
    template: Prompt,
    role: str,
    inputs: Mapping[str, Any],
    schema: str | ReplySchema | None = None,
    *,
    draw: int = 0,
    room: int = 0,
) -> Request:
    """Build the request from a filled-in template; `schema` (or its name) and `room` (tokens) describe the reply."""
    # A prompt gets only the values that it uses, because its section codes depend on all values.
    given = {name: value for name, value in inputs.items() if name != "verdicts" or name in template.variables}
    if "chinese" in template.variables:
        query = inputs.get("query")
        last = query if isinstance(query, str) else query[-1].get("content", "") if query else ""
        given["chinese"] = not str(last).isascii() and Phrasing(str(last)).chinese
    messages = tuple(Message(speaker, text) for speaker, text in template.render(**given))
    shape = load_reply_schema(schema) if isinstance(schema, str) else schema
    return Request(messages, role, shape, draw, room=room, constrained=not template.wants_list)


@cache
def load_reply_schema(name: str) -> ReplySchema:
    """Return the schema of a structured reply that is part of the package."""
    return ReplySchema(name, load_schema(name))
