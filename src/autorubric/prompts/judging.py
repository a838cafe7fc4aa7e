"""The prompts of judges: the package's, or custom ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from autorubric.prompts.library import NamedPrompts, check_template, read_prompts
from autorubric.prompts.template import Template

# Section codes are computed from the other values, so that prompts with the same ones have a common prefix.
_VARIES = frozenset(
    {"submission", "thinking", "requirement", "options", "examples", "criteria", "problem", "unfound"}
)
_NAMES = {"binary": "judge_binary", "choice": "judge_choice", "rubric": "judge_rubric", "reask": "judge_reask"}

# Samples of what the system and user blocks are given: the same for all criteria of a submission.
_SHARED: dict[str, Any] = {
    "query": [{"role": "user", "content": "a query"}],
    "reference": "a reference",
    "guidelines": "advice",
    "thinking": "thoughts",
    "submission": "a submission",
    "evidence": True,
}
_POSITION = "the number that stands in front of the option, as a whole number from 1"
OWN_NUMBER = "the number with which the option begins"

_EXAMPLES = [{"query": "q", "submission": "s", "reason": "r", "verdict": "MET"}]
_CRITERION = {"requirement": "Is brief.", "pitfall": False, "examples": _EXAMPLES}
_OPTIONS = "1. No\n2. Yes"

# Samples of what the criterion block is given in addition.
_OWN: dict[str, dict[str, Any]] = {
    "judge_binary": _CRITERION,
    "judge_choice": {**_CRITERION, "options": _OPTIONS},
    "judge_rubric": {
        "examples": _EXAMPLES,
        "criteria": [{"id": "c0", "requirement": "Is brief.", "pitfall": True, "options": _OPTIONS}],
    },
}


@dataclass(frozen=True, slots=True)
class JudgePrompts(NamedPrompts):
    """The prompts of a judge.

    All prompts except `reask` get `query`, `reference`, `guidelines`, `thinking` (each may be None), `submission` and
    `evidence` in their system and user blocks, and the values named below in their criterion block.

    Attributes:
        binary: asks for MET, UNMET or CANNOT_ASSESS; given `requirement`, `pitfall` and `examples`.
        choice: asks for one of `options`, lines that begin with the number to reply with; given `requirement`,
            `pitfall` and `examples` too.
        rubric: asks about all `criteria` at once, each with `id`, `requirement`, `pitfall` and `options`; given
            `examples` too.
        reask: follows an unusable reply; given `problem`, one sentence, and `unfound`, quotes that the submission
            does not contain.
    """

    binary: Template
    choice: Template
    rubric: Template
    reask: Template

    def with_system(self, binary: str | None = None, choice: str | None = None) -> JudgePrompts:
        """Return these prompts with other system messages; the user message still states the format of the reply.

        Args:
            binary: the system message for binary criteria, and for whole rubrics.
            choice: the system message for multi-choice criteria.

        Example:
            >>> package_judge_prompts().with_system("You judge essays.").binary.fingerprint == (
            ...     package_judge_prompts().binary.fingerprint)
            False
        """
        changed = {}
        if binary is not None:
            changed = {"binary": self.binary.with_system(binary), "rubric": self.rubric.with_system(binary)}
        if choice is not None:
            changed["choice"] = self.choice.with_system(choice)
        return replace(self, **changed)


@lru_cache(maxsize=64)
def ask_for_own_numbers(template: Template) -> Template:
    """Return the template for options that begin with numbers other than their positions.

    The fingerprint of the prompts stays as it is, so that runs without such options resume.

    Example:
        >>> "from 1" in ask_for_own_numbers(package_judge_prompts().choice).source
        False
    """
    return template.reword(_POSITION, OWN_NUMBER)


@cache
def package_judge_prompts() -> JudgePrompts:
    """Return the judges' prompts that come with the package.

    Example:
        >>> sorted(package_judge_prompts().fingerprints())
        ['binary', 'choice', 'reask', 'rubric']
    """
    return JudgePrompts(**{key: Template.from_package(name, _VARIES) for key, name in _NAMES.items()})


def load_judge_prompts(directory: str | Path) -> JudgePrompts:
    """Return the package's judge prompts, with those in a folder replacing them.

    The folder contains some or all of `judge_binary.jinja`, `judge_choice.jinja`, `judge_rubric.jinja` and
    `judge_reask.jinja`. The question about a criterion is in `{% block criterion %}`, which ends the user message.

    Raises:
        InputError: the folder is missing or empty, or files in it are unknown or invalid (all listed).

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> text = "{% block user %}{{ submission | fence('text') }}{% endblock %}"
        >>> text += "{% block criterion %} {{ requirement | fence('criterion') }} Reply as JSON.{% endblock %}"
        >>> _ = (folder / "judge_binary.jinja").write_text(text)
        >>> load_judge_prompts(folder).origins()["choice"]
        'autorubric'
    """
    found = read_prompts(Path(directory), [f"{name}.jinja" for name in _NAMES.values()], _load)
    return replace(package_judge_prompts(), **{key: found[name] for key, name in _NAMES.items() if name in found})


def _load(path: Path) -> Template:
    template = Template.from_file(path, varies=_VARIES)
    if template.name == _NAMES["reask"]:
        reask = {"problem": "the reply holds no JSON object", "unfound": ["a quote"]}
        return check_template(template, ["problem"], reask, lambda: template.render(**reask))
    own = _OWN[template.name]
    required = {"submission"} | ({"requirement", "options", "criteria"} & own.keys())
    return check_template(template, required, {**_SHARED, **own}, lambda: template.begin(**_SHARED).finish(**own))
