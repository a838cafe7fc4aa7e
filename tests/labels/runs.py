"""Runs to label: directories as `autorubric grade` leaves them, graded by judges that never see the network."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from autorubric import Criterion, CriterionOption, DataItem, Rubric, RubricDataset, grade
from autorubric.metrics.arrays import Flags

RUBRIC = Rubric(
    [
        Criterion(name="Short", weight=2, requirement="Contains at most 3 words."),
        Criterion(name="Moon", weight=3, requirement="Mentions the moon."),
    ]
)


def answers(count: int, rubric: Rubric = RUBRIC) -> RubricDataset:
    """Answers to one query; every third does not mention the moon."""
    texts = (f"{'moon' if n % 3 else 'it depends on so much'} {n}" for n in range(count))
    return RubricDataset("Why?", rubric, [DataItem(text, "", id=f"q{n}") for n, text in enumerate(texts)])


@cache
def _graded_once(count: int) -> Path:
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder)
    grade(answers(count), judge="builtin/offline", out=folder / "run")
    return folder / "run"


def graded(folder: Path, count: int = 12, dataset: RubricDataset | None = None) -> Path:
    """A run of the offline judge."""
    if dataset is None:
        shutil.copytree(_graded_once(count), folder)
    else:
        grade(dataset, judge="builtin/offline", out=folder)
    return folder


def with_options() -> Rubric:
    """A rubric with a criterion of options."""
    options = [
        CriterionOption(label="bad", value=0.0),
        CriterionOption(label="good", value=1.0),
        CriterionOption(label="none of it", value=0.0, na=True),
    ]
    return Rubric([*RUBRIC, Criterion(name="Tone", requirement="How kind is it?", options=options)])


def truth_and_verdicts(items: int, seed: int) -> tuple[Flags, Flags]:
    """What five criteria are, and what a judge says who errs more on the later ones, and where nothing is met."""
    rng = np.random.default_rng(seed)
    truth = rng.random((items, 5)) < np.array([0.7, 0.5, 0.5, 0.3, 0.3])
    errs = np.where(truth, 0.08, 0.25) * np.array([0.2, 0.5, 1.0, 1.4, 1.9])
    return truth, truth ^ (rng.random((items, 5)) < errs)
