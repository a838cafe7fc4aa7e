"""`autorubric.agree` and `autorubric.compare`: judge-human agreement of a run, and of two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from autorubric.dataset import RubricDataset
from autorubric.dataset.ground_truth import MAJORITY
from autorubric.dataset.label_rows import LABEL_ROLES, is_label_table
from autorubric.dataset.label_table import LabelTable
from autorubric.errors import InputError
from autorubric.jobs.job import DatasetSource
from autorubric.jobs.run_source import RunSource, run_job
from autorubric.labels.label_store import History, read_history, run_of_store, store_path
from autorubric.metrics.compare import JudgeComparison, compare_judges
from autorubric.metrics.compute import measure_run
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.joining import relabelled
from autorubric.metrics.judge_agreement import JudgeAgreement, agreement_among_judges
from autorubric.metrics.labelled_run import read_labelled_run
from autorubric.metrics.results import MetricsResult
from autorubric.metrics.simulated_coverage import simulate_coverage
from autorubric.metrics.table import Modes
from autorubric.notes import warn
from autorubric.runs.items_file import StoredRun, read_run
from autorubric.settings import FileNames, Names, Settings, setting

if TYPE_CHECKING:
    from autorubric.metrics.rubric_analysis import RubricAnalysis

Abstentions: TypeAlias = Literal["exclude", "as_unmet", "as_category"]


class LabelSettings(Settings):
    """A run and its labels."""

    run: RunSource = setting(..., "Run directory of `autorubric grade`.", argument=True, group="Input")
    dataset: DatasetSource | None = setting(
        None, "Dataset with labels, if the graded one has none.", metavar="FILE", group="Input", reads=True
    )
    labels: FileNames = setting(
        (),
        "Labels: rows of id, criterion, label, a column per criterion, or completed --label-next files; repeatable.",
        group="Input",
        reads=True,
    )
    annotator: str | None = setting(None, "Annotator whose labels in --labels count, or majority.", group="Input")
    column: Names = setting(
        (), "Column of --labels: id, criterion, label or annotator.", metavar="ROLE=NAME", group="Input"
    )


class StatisticSettings(Settings):
    """How to measure agreement."""

    cannot_assess: Abstentions = setting(
        "exclude", "CANNOT_ASSESS: exclude, as_unmet or as_category.", group="Statistics"
    )
    na: Abstentions = setting("exclude", "Not applicable: exclude, as_unmet, as_category.", group="Statistics")
    confidence: float = setting(0.95, "Confidence level.", group="Statistics", gt=0, lt=1)
    replicates: int = setting(
        1000, "Draws of permutation tests and posteriors.", group="Statistics", ge=2, le=1_000_000
    )
    seed: int = setting(
        0, "Random seed for these draws and for --label-next.", group="Statistics", ge=0, le=2**63 - 1
    )

    @property
    def draws(self) -> Draws:
        """The draws of permutation tests and of posteriors."""
        return Draws(self.replicates, self.confidence, self.seed)


class LabelAgreementSettings(LabelSettings, StatisticSettings):
    """The settings of `autorubric.label_agreement`."""


class AgreeSettings(LabelAgreementSettings):
    """The settings of `autorubric.agree`."""

    simulate: bool = setting(
        False,
        "Measure the coverage of the intervals by resampling.",
        group="Statistics",
    )
    per_judge: bool = setting(False, "Also measure each judge, and the panel without it.", cli=False)


class PairwiseSettings(AgreeSettings):
    """The settings of `autorubric.agree_pairwise`."""

    against: RunSource | None = setting(
        None, "Another run on the same items to compare with.", metavar="RUN", group="Mode"
    )
    items: int = setting(
        10,
        "Items to list with --pairwise, most disputed first.",
        group="Output",
        ge=0,
    )


class CompareSettings(PairwiseSettings):
    """The settings of `autorubric.compare`."""


@run_job(AgreeSettings)
def agree(run: Path, settings: AgreeSettings) -> MetricsResult:
    """Judge-human agreement of a run, with confidence intervals.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: fewer than two items have labels and verdicts, or a setting or file is wrong.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, RubricDataset, agree, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> dataset = RubricDataset("Answer.", rubric)
        >>> for text, label in [("Yes", "MET"), ("No", "MET"), ("That depends on it", "UNMET")]:
        ...     dataset.add_item(text, "", [label])
        >>> found = agree(grade(dataset, judge="builtin/offline", out=tempfile.mkdtemp()))
        >>> found.n_items, round(found.majority_baseline, 2)
        (3, 0.67)
    """
    return measured_agreement(read_run(run), settings)


def measured_agreement(stored: StoredRun, settings: AgreeSettings) -> MetricsResult:
    """`agree` for a run that was read already."""
    truth = stored_labels(stored, settings)
    if all(item.ground_truth is None for item in truth.items):
        raise InputError(
            "no item has labels to compare the verdicts with",
            "Give labels (--labels FILE or --dataset FILE; in Python: labels=, dataset=), or compare judges with "
            "each other (--pairwise; in Python: agree_pairwise).",
        )
    run = read_labelled_run(stored, truth, Modes(settings.cannot_assess, settings.na))
    found = measure_run(run, settings.confidence, settings.draws, per_judge=settings.per_judge)
    if found.n_items < 2:
        raise InputError(
            f"only {found.n_items} item has both labels and verdicts; agreement needs two or more, and useful "
            "intervals need 30 or more"
        )
    if settings.simulate:
        simulation = simulate_coverage(run, settings.draws)
        return found.model_copy(update={"simulation": simulation})
    return found


@run_job(CompareSettings)
def compare(run: Path, settings: CompareSettings) -> JudgeComparison:
    """Compare the agreement of two runs with the labels of the same items, with intervals and p-values.

    Args:
        run: a run directory, or the result of a run that has one; `against` is the other one.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: the runs have no labelled pair in common, or a setting or file is wrong.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, compare, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [{"submission": "Yes", "ground_truth": ["MET"]}]
        >>> run, other = (grade(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp()) for _ in "12")
        >>> compare(run, against=other).accuracy.difference
        0.0
    """
    if settings.against is None:
        raise InputError("nothing to compare with; pass --against RUN (Python: against=)")
    refuse_simulation(settings, "with another run")
    stored, other = read_run(run), read_run(settings.against)
    history = drawn_labels(stored, settings)
    if history is not None:
        from autorubric.labels.label_agreement import compare_by_labels

        who, modes = known_annotator(history, settings.annotator), Modes(settings.cannot_assess, settings.na)
        return compare_by_labels((stored, other), stored.dataset, history, modes, settings.draws, who)
    return compare_judges(
        stored,
        other,
        stored_labels(stored, settings),
        n_replicates=settings.replicates,
        confidence_level=settings.confidence,
        seed=settings.seed,
        cannot_assess=settings.cannot_assess,
        na_mode=settings.na,
    )


@run_job(PairwiseSettings)
def agree_pairwise(run: Path, settings: PairwiseSettings) -> JudgeAgreement:
    """Agreement among the judges of a panel, or of two runs on the same items; needs no labels.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object; `against` is another run.

    Raises:
        InputError: the run has one judge and no other run is given, or a setting or file is wrong.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, RubricDataset, agree_pairwise, grade
        >>> rubric = Rubric([Criterion(requirement="Mentions the moon."), Criterion(requirement="Is kind.")])
        >>> dataset = RubricDataset("Explain the tides.", rubric)
        >>> for text in ("The moon pulls the water.", "It is the wind, dear reader."):
        ...     dataset.add_item(text, "")
        >>> run, other = (grade(dataset, judge="builtin/offline", out=tempfile.mkdtemp()) for _ in range(2))
        >>> found = agree_pairwise(run, against=other)
        >>> found.overall.agreement, found.overall.n, found.disputed
        (1.0, 4, [])
    """
    refuse_simulation(settings, "without labels")
    stored = read_run(run)
    other = None if settings.against is None else read_run(settings.against)
    return agreement_among_judges(
        stored,
        stored.dataset,
        other,
        names=name_runs(run, run if settings.against is None else settings.against),
        n_replicates=settings.replicates,
        confidence_level=settings.confidence,
        seed=settings.seed,
        cannot_assess=settings.cannot_assess,
        na_mode=settings.na,
        most_disputed=settings.items,
    )


def analyzed(settings: LabelAgreementSettings, rollouts: int) -> RubricAnalysis:
    """Statistics of each criterion of a run, and the signal of its rubric in groups of `rollouts` submissions."""
    from autorubric.metrics.rubric_analysis import analyze_rubric

    run = read_run(settings.run)
    return analyze_rubric(run, read_labels(run, settings), rollouts=rollouts, confidence=settings.confidence)


OF_LABEL_STORES = "with a label store, whose pairs may be drawn with unequal probabilities"


def refuse_simulation(settings: AgreeSettings, where: str) -> None:
    """Raise an error unless the intervals are those of one run with labels of whole items."""
    if settings.simulate:
        raise InputError(
            f"--simulate (Python: simulate=True) resamples the labelled items of one run; it has no effect {where}"
        )


def name_runs(run: Path, other: Path) -> tuple[str, str]:
    """The names of two runs in a report: their folder names, or the full paths if these are equal."""
    return (run.name, other.name) if run.name != other.name else (str(run), str(other))


def read_labels(run: StoredRun, settings: LabelSettings) -> RubricDataset:
    """The graded dataset with the labels that the settings refer to; warnings list what did not match.

    Raises:
        InputError: the labels are for other items or criteria, or a file is wrong.
    """
    truth = run.dataset if settings.dataset is None else _relabelled(run.dataset, settings.dataset)
    table = _label_table(settings) if settings.labels or settings.column or settings.annotator else None
    if table is None:
        return truth
    from autorubric.jobs.submissions import labelled

    return labelled(truth, table)


def stored_labels(run: StoredRun, settings: LabelSettings) -> RubricDataset:
    """`read_labels`, or the labels of the label store where they are for whole items and nothing was drawn.

    Raises:
        InputError: the labels are for other items or criteria, a file is wrong, or pairs were drawn for labelling.
    """
    source = label_source(settings, run)
    if source is None:
        if settings.labels or settings.dataset is not None or settings.column or settings.annotator:
            return read_labels(run, settings)
        if store_path(run.directory).exists():
            _note_other_labels(run)
        return run.dataset
    from autorubric.labels.exchange import labelled_dataset

    history = read_history(source)
    if any(history.labels(key) for key in history.draws):
        raise InputError(
            f"{store_path(source)}: its pairs were drawn with unequal chances, so unweighted metrics would be biased",
            "`autorubric agree RUN` without another mode weights them (Python: autorubric.label_agreement).",
        )
    return labelled_dataset(history, run.dataset, settings.annotator)


def drawn_labels(run: StoredRun, settings: LabelSettings) -> History | None:
    """The label store that the settings refer to, if it has labels of drawn pairs; else None."""
    source = label_source(settings, run)
    history = None if source is None else read_history(source)
    return history if history is not None and any(history.labels(key) for key in history.draws) else None


def known_annotator(history: History, name: str | None) -> str | None:
    """The annotator whose labels of a store count; None for the majority of all annotators.

    Raises:
        InputError: there is no label of this annotator.
    """
    who, known = None if name == MAJORITY else name, history.annotators()
    if who is not None and who not in known:
        raise InputError(f"annotator {who!r} has no labels; the annotators are {', '.join(known) or 'none'}")
    return who


def _note_other_labels(run: StoredRun) -> None:
    """Warn about labels in the store of a run whose dataset has its own labels."""
    count = sum(read_history(run.directory).annotators().values())
    if count:
        warn(
            f"the labels of the dataset count; those of the label store ({count}) do not. Pass --labels "
            f"{store_path(run.directory).parent} for them"
        )


def label_source(settings: LabelSettings, run: StoredRun) -> Path | None:
    """The run directory whose label store the settings refer to; None for labels from elsewhere.

    Without `labels` and `dataset` that is the run itself, if its dataset has no labels and its store has.

    Raises:
        InputError: `labels` names a label store and other files.
    """
    paths = cast("list[Path]", settings.labels)
    stores = [store for path in paths if (store := run_of_store(path)) is not None]
    if stores and len(paths) > 1:
        raise InputError("--labels takes either one label store or files; not both")
    if stores:
        return stores[0]
    if paths or settings.dataset is not None or not store_path(run.directory).exists():
        return None
    return run.directory if all(item.ground_truth is None for item in run.dataset) else None


def has_completed_files(settings: LabelSettings) -> bool:
    """Whether `labels` are completed files of `label_next`, not rows of id, criterion, label."""
    paths = cast("list[Path]", settings.labels)
    return bool(paths) and not any(map(run_of_store, paths)) and _label_table(settings) is None


def _label_table(settings: LabelSettings) -> LabelTable | None:
    """The labels in files that contain rows of id, criterion and label; None where `--label-next` wrote the files.

    Raises:
        InputError: files of both kinds are given, or flags that say how to read rows of labels without any.
    """
    paths, column = list(cast(list[Path], settings.labels)), list(settings.column)
    if any(map(run_of_store, paths)):
        return None
    kinds = {_is_label_table(path) for path in paths}
    if len(kinds) > 1:
        raise InputError("--labels takes either files of --label-next or rows of id, criterion, label; not both")
    if kinds == {True}:
        from autorubric.jobs.submissions import columns_named

        return LabelTable(paths, settings.annotator, columns_named(column, ("id", *LABEL_ROLES)))
    for flag, value in (("--annotator", settings.annotator), ("--column", column)):
        if value:
            raise InputError(f"{flag} needs --labels FILE with rows of id, criterion, label")
    return None


def _is_label_table(path: Path) -> bool:
    try:
        return is_label_table(path)
    except InputError:
        return False  # it is told where the file is read


def _relabelled(graded: RubricDataset, source: RubricDataset | Path | str) -> RubricDataset:
    labels = source if isinstance(source, RubricDataset) else RubricDataset.from_file(Path(source))
    try:
        made, notes = relabelled(graded, labels)
    except InputError as error:
        where = "" if isinstance(source, RubricDataset) else f"{source}: "
        advice = "Give the labels of what was graded, with the same texts and criteria."
        raise InputError([f"{where}{problem}" for problem in error.problems], advice) from None
    for note in notes:
        warn(note)
    return made
