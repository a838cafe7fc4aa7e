"""The prompts of a synthesis run: those of the package, or a user's folder laid over them."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from autorubric.errors import InputError
from autorubric.prompts.folder import prompts_in, refuse_odd_variables, refuse_unfillable
from autorubric.prompts.placeholders import SEED_FILES, PlaceholderTemplate
from autorubric.prompts.template import Prompt, Template, read_source


class _Values(NamedTuple):
    """The values a prompt is given, and which of them its text cannot do without."""

    required: frozenset[str]
    given: frozenset[str]


def _values(*required: str, also: tuple[str, ...] = ()) -> _Values:
    return _Values(frozenset(required), frozenset((*required, *also)))


PROMPT_VALUES: dict[str, _Values] = {
    "reference": _values("query"),
    "rubric": _values("query", also=("reference",)),
    "pitfalls": _values("query", also=("reference",)),
    "merge": _values("sets", also=("query",)),
    "merge_sets": _values("sets", also=("query", "pitfalls")),
    "augment": _values("rubrics", "responses", also=("query",)),
    "reask": _values("problem"),
}


# A user's template is filled in once when it is loaded: what is wrong with it shows before a call is paid.
_SAMPLE_ITEMS = [{"title": "Dose", "description": "Names the dose.", "weight": 7}]
_SAMPLES: dict[str, Any] = {
    "query": "a query",
    "reference": "a reference",
    "sets": [_SAMPLE_ITEMS, _SAMPLE_ITEMS],
    "rubrics": _SAMPLE_ITEMS,
    "responses": ["one response", "another"],
    "pitfalls": True,
    "problem": "the reply holds no JSON array",
}


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of one synthesis run.

    Attributes:
        reference: asks for an answer; given `query`. Used for reference answers and responses alike.
        rubric: asks for candidate criteria; given `query` and `reference`.
        pitfalls: asks for faults, which cost points; given `query` and `reference`.
        merge: asks for one rubric out of several; given `query` and `sets`, a list of lists of items.
        merge_sets: the merge of the full method, which accounts for every criterion; given `query`, `sets` whose
            items have ids, and whether there are `pitfalls` among them.
        augment: asks for stricter criteria; given `query`, `rubrics` (the items so far) and `responses`.
        reask: follows a reply that could not be read; given `problem`, one sentence.
    """

    reference: Prompt
    rubric: Prompt
    pitfalls: Prompt
    merge: Prompt
    merge_sets: Prompt
    augment: Prompt
    reask: Prompt

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of every prompt by its name, for manifests and ledger keys."""
        return {field.name: getattr(self, field.name).fingerprint for field in fields(self)}

    def origins(self) -> dict[str, str]:
        """Where every prompt came from: `autorubric`, or the path of the user's file."""
        return {field.name: getattr(self, field.name).origin for field in fields(self)}

    def check(self, *, sets: int, responses: int) -> None:
        """Refuse a plan whose numbers do not fit the prompts, before anything is spent.

        Args:
            sets: how many candidate rubrics are merged; 1 means that nothing is.
            responses: how many responses the harder criteria are drawn from.

        Raises:
            InputError: a prompt has places for another number.

        Example:
            >>> package_prompts().check(sets=3, responses=4)
        """
        problems = []
        for prompt, name, count in ((self.merge, "sets", sets), (self.augment, "responses", responses)):
            wanted = prompt.counts.get(name, count)
            if wanted != count and not (name == "sets" and sets < 2):
                problems.append(f"{prompt.origin} takes exactly {wanted} {name}; this plan has {count}")
        if problems:
            raise InputError(problems)


@cache
def package_prompts() -> PromptSet:
    """The prompts that come with the package.

    Example:
        >>> sorted(package_prompts().fingerprints())
        ['augment', 'merge', 'merge_sets', 'pitfalls', 'reask', 'reference', 'rubric']
    """
    return PromptSet(**{name: Template.from_package(name) for name in PROMPT_VALUES})


def load_prompts(directory: str | Path) -> PromptSet:
    """The package's prompts, with those of a folder in their place where it has them.

    The folder holds files under our names (`rubric.jinja`, ...) or under the public pipeline's
    (`rubric_generation.txt`, ...), mixed as one likes, one file a prompt. Hidden files are passed over.

    Raises:
        InputError: the folder is missing or empty, or files in it are unknown, doubled or wrong (all listed).

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "reference.txt").write_text("Answer this: <<query>>")
        >>> load_prompts(folder).reference.render(query="2 + 2?")
        (('user', 'Answer this: 2 + 2?'),)
    """
    return replace(package_prompts(), **prompts_in(Path(directory), _known_files(), _load))


@cache
def _schema_text(name: str) -> str:
    return files("autorubric.prompts").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")


def load_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a structured reply that comes with the package; a fresh copy each time.

    Example:
        >>> load_schema("rubric_items")["required"]
        ['criteria']
    """
    schema: dict[str, Any] = json.loads(_schema_text(name))
    return schema


def _known_files() -> dict[str, str]:
    """Every file name a folder of prompts may hold, with the prompt it gives."""
    ours = {f"{name}.jinja": name for name in PROMPT_VALUES}
    return {**ours, **{file: seed.prompt for file, seed in SEED_FILES.items()}}


def _load(path: Path) -> Prompt:
    if path.name in SEED_FILES:
        return PlaceholderTemplate(path.name, read_source(path), str(path))
    template = Template.from_file(path)
    values = PROMPT_VALUES[template.name]
    refuse_odd_variables(template, *values)
    refuse_unfillable(template, lambda: template.render(**{name: _SAMPLES[name] for name in values.given}))
    return template
