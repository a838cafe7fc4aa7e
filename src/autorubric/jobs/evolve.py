"""`autorubric.evolve`: the rollouts of a run in, rubrics that tell them apart out, version by version."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from autorubric.errors import ConfigError, InputError
from autorubric.jobs.evolution_settings import EvolutionSettings
from autorubric.jobs.evolve_estimate import estimated
from autorubric.jobs.evolve_run import evolved
from autorubric.jobs.job import ReplaceableSettings, RunSource, blocking, job
from autorubric.jobs.judges import JudgeSettings
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.records.accounts import Totals
from autorubric.settings import NewDirectory, setting
from autorubric.training.evolution.versions import EVOLVED_FILE, Lineage


class EvolveSettings(EvolutionSettings, JudgeSettings, ReplaceableSettings):
    """The settings of `autorubric.evolve` and `autorubric evolve`."""

    run: RunSource | None = setting(
        None, "Run directory of grade, select or serve --evolve.", argument=True, group="Input", reads=True
    )
    writer: str | None = setting(
        None, "Model that proposes criteria: MODEL or MODEL@BASE_URL.", metavar="MODEL", group="Evolution"
    )
    out: NewDirectory = setting(
        "evolved", "Run directory; the same command again resumes the run.", short="-o", group="Run"
    )

    dry_run: bool = setting(False, "Print requests, tokens and cost; spend nothing.", group="Budget")

    @property
    def splits(self) -> bool:
        """The writer splits criteria."""
        return True

    @model_validator(mode="after")
    def _check_evolution(self) -> Self:
        problems = []
        if not self.judge:
            problems.append("no judge; pass --judge MODEL (Python: judge=)")
        if self.writer is None:
            problems.append("no model that proposes criteria; pass --writer MODEL (Python: writer=)")
        if self.few_shot:
            problems.append("--few-shot (Python: few_shot=) shows labels of other criteria; leave it out of evolve")
        if problems:
            raise ConfigError(problems)
        self.evolution()
        return self


@dataclass
class EvolveResult:
    """What `autorubric.evolve` returns.

    Attributes:
        lineages: the rubrics of each query, all versions, with what was decided.
        out: the run directory.
        undecided: queries whose rubric stays because a call failed, by reason.
        totals: calls, tokens and cost of all sessions.
        stopped: why the run ended early; None where it did not.
        interrupted: whether a person stopped it.
        estimate: of a dry run.
    """

    lineages: list[Lineage]
    out: Path
    undecided: dict[str, int] = field(default_factory=dict)
    totals: list[Totals] = field(default_factory=list)
    stopped: str | None = None
    interrupted: bool = False
    estimate: list[ModelEstimate] | None = None

    @property
    def file(self) -> Path:
        """The dataset of the final rubrics."""
        return self.out / EVOLVED_FILE

    def count(self, what: str) -> int:
        """The number of criteria `added`, `returned`, `retired`, `rejected` or `split` in all changes."""
        return sum(len(change.get(what, ())) for one in self.lineages for change in one.changes)

    def __str__(self) -> str:
        changed = sum(one.newest.number > 0 for one in self.lineages)
        return f"{changed} of {len(self.lineages)} rubrics have a new version"


@job(EvolveSettings)
async def evolve_async(run: Path | None, settings: EvolveSettings) -> EvolveResult:
    """Evolve rubrics from the rollouts of a run: add criteria that tell them apart, retire those that do not.

    For each query, a model proposes criteria and pitfalls. They are graded on the rollouts and pass the gates of
    `synthesize`; at most `most_added` enter. Every change is a version in `rubric_versions.jsonl`. Calling it again
    resumes: recorded versions stay, and saved replies are never paid for twice. Another run of the same queries
    under their newest rubrics continues the versions.

    Args:
        run: a run directory of `grade`, `select` or `serve --evolve`.
        settings: the keyword arguments, as one model.

    Raises:
        InputError: a setting or the run is wrong, or a key or model was refused; nothing was spent.

    Example:
        >>> import tempfile
        >>> from autorubric import Rubric, grade
        >>> folder = Path(tempfile.mkdtemp())
        >>> rubric = Rubric.from_dict([{"name": "Brief", "requirement": "Contains at most 9 words."}])
        >>> answers = ["The moon pulls.", "The sun.", "The moon pulls the water of the seas more than the sun does."]
        >>> judge, asked = "builtin/offline", "Why are there tides?"
        >>> _ = grade(answers, rubric=rubric, prompt=asked, judge=judge, out=folder / "graded")
        >>> print(evolve(folder / "graded", judge=judge, writer="builtin/offline", out=folder / "evolved"))
        0 of 1 rubrics have a new version
    """
    if run is None:
        raise InputError("no run; pass RUN, a run directory of grade, select or serve (Python: the first argument)")
    if settings.dry_run:
        return EvolveResult([], Path(settings.out), estimate=await estimated(Path(run), settings))
    found: Any = await evolved(Path(run), settings)
    return EvolveResult(**found)


evolve = blocking(evolve_async)
