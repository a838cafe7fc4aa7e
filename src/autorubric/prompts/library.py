"""The sets of prompts: the package's, some of them replaced by custom prompts in a folder."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from autorubric.errors import InputError, MissingFileError
from autorubric.files import suggest_name
from autorubric.prompts.placeholders import SEED_FILES, PlaceholderTemplate, Prompt
from autorubric.prompts.template import Template, read_source

P = TypeVar("P", bound=Prompt)


class NamedPrompts:
    """The methods of every set of prompts, which is a dataclass with one prompt per field."""

    __slots__ = ()

    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of every prompt by its name, for manifests and ledger keys."""
        return {field.name: getattr(self, field.name).fingerprint for field in fields(self)}  # type: ignore[arg-type]

    def origins(self) -> dict[str, str]:
        """Return the origin of every prompt by its name: `autorubric`, or the path of the user's file."""
        return {field.name: getattr(self, field.name).origin for field in fields(self)}  # type: ignore[arg-type]


def read_prompts(directory: Path, known: Iterable[str], load: Callable[[Path], P]) -> dict[str, P]:
    """Return the prompts of a folder by their names; hidden files are ignored.

    Args:
        directory: the folder.
        known: the file names it may contain.
        load: reads the prompt in a file of one of these names.

    Raises:
        InputError: the folder is missing or empty, or files in it are unknown, duplicate or invalid (all listed).
    """
    paths = _list_files(directory)
    known = list(known)
    if not paths:
        raise InputError(f"{directory}: no prompt files; expected any of {', '.join(known)}")
    found: dict[str, P] = {}
    problems: list[str] = []
    for path in paths:
        try:
            if path.name not in known:
                raise InputError(f"{path}: not the name of a prompt file; {suggest_name(path.name, known)}")
            prompt = load(path)
            if prompt.name in found:
                raise InputError(f"{path}: prompt {prompt.name!r} is already in {found[prompt.name].origin}")
            found[prompt.name] = prompt
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return found


def _list_files(directory: Path) -> list[Path]:
    """List everything except folders; pipes and broken links are reported when they are read."""
    try:
        if directory.is_dir():
            return sorted(p for p in directory.iterdir() if not p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise InputError(f"{directory}: cannot be read: {error.strerror}") from error
    raise MissingFileError(f"Prompt folder not found: {directory}")


def check_template(
    template: Template, required: Iterable[str], samples: Iterable[str], fill: Callable[[], Any]
) -> Template:
    """Return `template` if it uses all required values and no unknown ones, and can be filled in with samples.

    Args:
        template: a custom template.
        required: the values that it must use.
        samples: the names of all available values.
        fill: fills it in with samples, so that errors show before anything is spent.

    Raises:
        InputError: values are missing or unknown (all listed), or the template cannot be filled in.

    Example:
        >>> odd = Template("rubric", "Judge {{ querry }}", "rubric.jinja")
        >>> check_template(odd, (), ["query"], odd.render)
        Traceback (most recent call last):
        autorubric.errors.InputError: rubric.jinja: unknown variable 'querry'; did you mean 'query'?
        >>> odd = Template("rubric", "{{ 1 / 0 }}", "rubric.jinja")
        >>> check_template(odd, (), (), odd.render)
        Traceback (most recent call last):
        autorubric.errors.InputError: rubric.jinja: cannot be filled in: division by zero
    """
    given = sorted(samples)
    missing = sorted(set(required) - template.variables)
    problems = [f"{template.origin}: {{{{ {name} }}}} is missing" for name in missing]
    for name in sorted(template.variables - set(given)):
        problems.append(f"{template.origin}: unknown variable {name!r}; {suggest_name(name, given)}")
    if problems:
        raise InputError(problems)
    try:
        fill()
    except InputError:
        raise
    except Exception as error:  # any error is the template's
        raise InputError(f"{template.origin}: cannot be filled in: {str(error) or type(error).__name__}") from error
    return template


PROMPT_VALUES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "reference": (("query",), ()),
    "rubric": (("query",), ("reference", "chinese")),
    "pitfalls": (("query",), ("reference", "chinese")),
    "merge": (("sets",), ("query",)),
    "merge_sets": (("sets",), ("query", "pitfalls")),
    "augment": (("rubrics", "responses"), ("query", "verdicts", "chinese")),
    "reask": (("problem",), ()),
}
"""For each prompt, the values that its text must use, and the other available values."""

_SAMPLE_ITEMS = [{"title": "Dose", "description": "Names the dose.", "weight": 7}]
_SAMPLES: dict[str, Any] = {
    "query": "a query",
    "reference": "a reference",
    "sets": [_SAMPLE_ITEMS, _SAMPLE_ITEMS],
    "rubrics": _SAMPLE_ITEMS,
    "responses": ["one response", "another"],
    "pitfalls": True,
    "problem": "the reply holds no JSON array",
    "chinese": False,
    "verdicts": {
        "criteria": [{"title": "Dose", "response_1": True, "response_2": None, "met": 1, "judged": 2}],
        "scores": {"response_1": 0.75, "response_2": None},
    },
}


@dataclass(frozen=True, slots=True)
class PromptSet(NamedPrompts):
    """The prompts of one synthesis run.

    Attributes:
        reference: asks for an answer; given `query`. Used for reference answers and responses alike.
        rubric: asks for candidate criteria; given `query`, `reference`, and whether the query is `chinese`, which
            chooses the example.
        pitfalls: asks for faults, which cost points; given the same.
        merge: asks for one rubric from several; given `query` and `sets`, a list of lists of items.
        merge_sets: the merge of the full method, which accounts for every criterion; given `query`, `sets` whose
            items have ids, and whether there are `pitfalls` among them.
        augment: asks for stricter criteria; given `query`, `rubrics` (the items so far), `responses`, `chinese`, and
            `verdicts`: which response met which criterion, and the scores; None if nothing was graded.
        reask: follows an unreadable reply; given `problem`, one sentence.
    """

    reference: Prompt
    rubric: Prompt
    pitfalls: Prompt
    merge: Prompt
    merge_sets: Prompt
    augment: Prompt
    reask: Prompt

    def check(self, *, sets: int, responses: int) -> None:
        """Refuse a plan whose numbers do not fit the prompts, before anything is spent.

        Args:
            sets: the number of candidate rubrics to merge; 1 for no merge.
            responses: the number of responses from which the stricter criteria are written.

        Raises:
            InputError: a prompt has placeholders for another number.

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
    """Return the synthesis prompts that come with the package.

    Example:
        >>> sorted(package_prompts().fingerprints())
        ['augment', 'merge', 'merge_sets', 'pitfalls', 'reask', 'reference', 'rubric']
    """
    return PromptSet(**{name: Template.from_package(name) for name in PROMPT_VALUES})


def load_prompts(directory: str | Path) -> PromptSet:
    """Return the package's synthesis prompts, with those in a folder replacing them.

    The folder contains files under our names (`rubric.jinja`, ...) or under the public pipeline's
    (`rubric_generation.txt`, ...), in any mix, one file per prompt. Hidden files are ignored.

    Raises:
        InputError: the folder is missing or empty, or files in it are unknown, duplicate or invalid (all listed).

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "reference.txt").write_text("Answer this: <<query>>")
        >>> load_prompts(folder).reference.render(query="2 + 2?")
        (('user', 'Answer this: 2 + 2?'),)
    """
    known = [*(f"{name}.jinja" for name in PROMPT_VALUES), *SEED_FILES]
    return replace(package_prompts(), **read_prompts(Path(directory), known, _load))


def _load(path: Path) -> Prompt:
    if path.name in SEED_FILES:
        return PlaceholderTemplate(path.name, read_source(path), str(path))
    template = Template.from_file(path)
    required, others = PROMPT_VALUES[template.name]
    values = {name: _SAMPLES[name] for name in (*required, *others)}
    return check_template(template, required, values, lambda: template.render(**values))


def load_schema(name: str) -> dict[str, Any]:
    """Return the packaged JSON Schema of a structured reply, a new copy each time.

    Example:
        >>> load_schema("rubric_items")["required"]
        ['criteria']
    """
    text = files("autorubric.prompts").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


_GATE_SAMPLES: dict[str, dict[str, Any]] = {
    "licence": {
        "query": [{"role": "user", "content": "a query"}],
        "criteria": [{"id": "m1", "requirement": "Is brief.", "pitfall": True}],
    },
    "rewrite": {
        "query": [{"role": "user", "content": "a query"}],
        "answers": ["an answer"],
        "disputes": [
            {
                "id": "m1",
                "requirement": "Is brief.",
                "pitfall": True,
                "splits": [{"answer": 1, "said": [{"verdict": "MET", "reason": "Short."}]}],
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class GatePrompts(NamedPrompts):
    """The prompts of the gates.

    Attributes:
        licence: asks whether the query licenses each criterion; given `query` and `criteria`, each with `id`,
            `requirement` and `pitfall`.
        rewrite: asks for clearer wordings; given `query`, `answers` (texts) and `disputes`, each with `id`,
            `requirement`, `pitfall` and `splits`: the number of an `answer`, and what judges `said` about it.
    """

    licence: Template
    rewrite: Template


@cache
def package_gate_prompts() -> GatePrompts:
    """Return the gates' prompts that come with the package.

    Example:
        >>> sorted(package_gate_prompts().fingerprints())
        ['licence', 'rewrite']
    """
    return GatePrompts(**{name: Template.from_package(name) for name in _GATE_SAMPLES})


def load_gate_prompts(directory: str | Path) -> GatePrompts:
    """Return the package's gate prompts, with those in a folder replacing them.

    The folder contains `licence.jinja`, `rewrite.jinja` or both.

    Raises:
        InputError: the folder is missing or empty, or files in it are unknown or invalid (all listed).

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "licence.jinja").write_text("{{ query | fence('request') }} {{ criteria | json }}")
        >>> load_gate_prompts(folder).origins()["rewrite"]
        'autorubric'
    """
    found = read_prompts(Path(directory), [f"{name}.jinja" for name in _GATE_SAMPLES], _load_gate)
    return replace(package_gate_prompts(), **found)


def _load_gate(path: Path) -> Template:
    template = Template.from_file(path)
    values = _GATE_SAMPLES[template.name]
    return check_template(template, values.keys() - {"answers"}, values, lambda: template.render(**values))
