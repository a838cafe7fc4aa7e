"""The prompts of the gates: those of the package, or a user's own."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from autorubric.prompts.folder import prompts_in, refuse_odd_variables, refuse_unfillable
from autorubric.prompts.template import Template

_SAMPLES: dict[str, dict[str, Any]] = {
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
class GatePrompts:
    """The prompts of the gates.

    Attributes:
        licence: asks whether the query licenses each criterion; given `query` and `criteria`, each with `id`,
            `requirement` and `pitfall`.
        rewrite: asks for clearer wordings; given `query`, `answers` (texts) and `disputes`, each with `id`,
            `requirement`, `pitfall` and `splits`: the number of an `answer`, and what was `said` about it.
    """

    licence: Template
    rewrite: Template

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of every prompt by its name, for manifests."""
        return {field.name: getattr(self, field.name).fingerprint for field in fields(self)}

    def origins(self) -> dict[str, str]:
        """Where every prompt came from: `autorubric`, or the path of the user's file."""
        return {field.name: getattr(self, field.name).origin for field in fields(self)}


@cache
def package_gate_prompts() -> GatePrompts:
    """The gates' prompts that come with the package.

    Example:
        >>> sorted(package_gate_prompts().fingerprints())
        ['licence', 'rewrite']
    """
    return GatePrompts(**{name: Template.from_package(name) for name in _SAMPLES})


def load_gate_prompts(directory: str | Path) -> GatePrompts:
    """The package's gate prompts, with those of a folder in their place where it has them.

    The folder holds `licence.jinja`, `rewrite.jinja` or both.

    Raises:
        InputError: the folder is missing or empty, or files in it are unknown or wrong (all listed).

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "licence.jinja").write_text("{{ query | fence('request') }} {{ criteria | json }}")
        >>> load_gate_prompts(folder).origins()["rewrite"]
        'autorubric'
    """
    found = prompts_in(Path(directory), [f"{name}.jinja" for name in _SAMPLES], _load)
    return replace(package_gate_prompts(), **found)


def _load(path: Path) -> Template:
    template = Template.from_file(path)
    values = _SAMPLES[template.name]
    refuse_odd_variables(template, frozenset(values) - {"answers"}, frozenset(values))
    refuse_unfillable(template, lambda: template.render(**values))
    return template
