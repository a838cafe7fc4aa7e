"""The prompts of judges: those of the package, or a user's own."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache

from autorubric.prompts.template import Template

# Markers are named after the texts that many submissions share, so that their prompts begin alike.
_VARIES = frozenset(
    {"submission", "thinking", "requirement", "options", "examples", "criteria", "problem", "unfound"}
)
_NAMES = {"binary": "judge_binary", "choice": "judge_choice", "rubric": "judge_rubric", "reask": "judge_reask"}


@dataclass(frozen=True, slots=True)
class JudgePrompts:
    """The prompts of a judge.

    All but `reask` are given `query`, `reference`, `guidelines`, `thinking` (each may be None), `submission` and
    `evidence` in their system and user blocks, and in their criterion block what is named below as well.

    Attributes:
        binary: asks for MET, UNMET or CANNOT_ASSESS; given `requirement`, `pitfall` and `examples`.
        choice: asks for one of `options`, numbered lines; given `requirement`, `pitfall` and `examples` too.
        rubric: asks for all `criteria` at once, each with `id`, `requirement`, `pitfall` and `options`.
        reask: follows a reply that cannot be used; given `problem`, one sentence, and `unfound`, quotes that the
            submission does not hold.
    """

    binary: Template
    choice: Template
    rubric: Template
    reask: Template

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of every prompt by its name, for manifests."""
        return {field.name: getattr(self, field.name).fingerprint for field in fields(self)}

    def origins(self) -> dict[str, str]:
        """Where every prompt came from: `autorubric`, or the path of the user's file."""
        return {field.name: getattr(self, field.name).origin for field in fields(self)}

    def with_system(self, binary: str | None = None, choice: str | None = None) -> JudgePrompts:
        """These prompts with other system messages; the user message still says what form a reply has.

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


@cache
def package_judge_prompts() -> JudgePrompts:
    """The judges' prompts that come with the package.

    Example:
        >>> sorted(package_judge_prompts().fingerprints())
        ['binary', 'choice', 'reask', 'rubric']
    """
    return JudgePrompts(**{key: Template.from_package(name, _VARIES) for key, name in _NAMES.items()})
