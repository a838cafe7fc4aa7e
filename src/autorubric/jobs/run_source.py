"""A run as the argument of a function: its directory, or a result that has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeAlias, TypeVar

from pydantic import BeforeValidator

from autorubric.files.remote import find_address
from autorubric.jobs.job import Job, job
from autorubric.settings import Settings

if TYPE_CHECKING:
    from autorubric.jobs.selection_run import SelectionResult
    from autorubric.runs.result import EvalResult
    from autorubric.synthesis.run_summary import SynthesisResult

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Settings)


def _directory(value: Any) -> Any:
    names = ("experiment_dir", "out", "directory")
    found = next((held for name in names if (held := getattr(value, name, None))), value)
    if isinstance(found, str | Path) and str(found).strip():
        if find_address(found):
            raise ValueError("a run directory has to be on this machine")
        if "\0" in str(found):
            raise ValueError("a path cannot contain a null byte")
        return Path(found)
    raise ValueError("expected a run directory, or the result of a run that has one")


RunSource: TypeAlias = Annotated[Path | Any, BeforeValidator(_directory)]
"""A run directory, or the result of a run that has one. Always a `Path` after validation."""


def run_job(
    model: Callable[P, S],
) -> Callable[[Callable[[Path, S], R]], Job[EvalResult | SelectionResult | SynthesisResult | Path | str, S, P, R]]:
    """`job` for a function that gets the directory of a run."""
    decorate: Callable[[Callable[[Path, S], R]], Any] = job(model)
    return decorate
