"""`autorubric.agree` and its relatives: agreement of a run with labels, human scores and other judges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from autorubric.errors import InputError, warn
from autorubric.jobs.job import Columns, RunSource, column_setting, run_job
from autorubric.jobs.label_source import (
    LabelSettings,
    find_history,
    has_drawn_labels,
    read_labels,
    read_stored_labels,
    resolve_annotator,
)
from autorubric.metrics.compare import JudgeComparison, compare_judges
from autorubric.metrics.compute import measure_run
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.judge_agreement import JudgeAgreement, measure_judge_agreement
from autorubric.metrics.labelled_run import read_labelled_run
from autorubric.metrics.results import MetricsResult
from autorubric.metrics.simulated_coverage import simulate_coverage
from autorubric.metrics.table import Modes
from autorubric.runs.items_file import StoredRun, read_run
from autorubric.settings import FileNames, Settings, setting

if TYPE_CHECKING:
    from autorubric.dataset import RubricDataset
    from autorubric.metrics.rubric_analysis import RubricAnalysis
    from autorubric.metrics.score_agreement import HumanScoreAgreement

Abstentions: TypeAlias = Literal["exclude", "as_unmet", "as_category"]


class StatisticSettings(Settings):
    """How to measure agreement."""

    cannot_assess: Abstentions = setting(
        "exclude", "CANNOT_ASSESS: exclude, as_unmet or as_category.", group="Statistics"
    )
    na: Abstentions = setting("exclude", "Not applicable: exclude, as_unmet, as_category.", group="Statistics")
    confidence: float = setting(0.95, "Confidence level.", group="Statistics", gt=0, lt=1)
    replicates: int = setting(
        1000, "Replicates of permutation tests and posteriors.", group="Statistics", ge=2, le=1_000_000
    )
    seed: int = setting(0, "Random seed of --replicates and --label-next.", group="Statistics", ge=0, le=2**63 - 1)

    @property
    def draws(self) -> Draws:
        """The number of draws, the seed and the level for permutation tests and posteriors."""
        return Draws(self.replicates, self.confidence, self.seed)


class LabelAgreementSettings(LabelSettings, StatisticSettings):
    """The settings of `autorubric.label_agreement`.

    Example:
        >>> LabelAgreementSettings(run="graded", annotator="ana").annotator
        'ana'
    """


class AgreeSettings(LabelAgreementSettings):
    """The settings of `autorubric.agree`.

    Example:
        >>> AgreeSettings(run="graded", confidence=0.9).confidence
        0.9
    """

    simulate: bool = setting(False, "Measure the coverage of the intervals by resampling.", group="Statistics")
    per_judge: bool = setting(False, "Also measure each judge, and the panel without it.", cli=False)


class PairwiseSettings(AgreeSettings):
    """The settings of `autorubric.agree_pairwise`.

    Example:
        >>> PairwiseSettings(run="graded", items=3).items
        3
    """

    against: RunSource | None = setting(
        None, "Another run on the same items to compare with.", metavar="RUN", group="Mode"
    )
    items: int = setting(10, "Items to list with --pairwise, most disputed first.", group="Output", ge=0)


class CompareSettings(PairwiseSettings):
    """The settings of `autorubric.compare`.

    Example:
        >>> CompareSettings(run="graded", against="other").against.name
        'other'
    """


class ScoreSettings(Settings):
    """The settings of `autorubric.agree_scores`.

    Example:
        >>> ScoreSettings(run="graded", score="overall").score
        'overall'
    """

    run: RunSource = setting(..., "Run directory of `autorubric grade`.", argument=True)
    score: str = setting(..., "Metadata key, or column of the tables, with the human scores.")
    labels: FileNames = setting((), "Tables with ids and scores, if the graded dataset has no scores.", reads=True)
    column: Columns = column_setting("Column of the tables: id.")
    confidence: float = setting(0.95, "Confidence level.", gt=0, lt=1)


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
    stored = read_run(run)
    return measure_agreement(stored, read_stored_labels(stored, settings, find_history(settings, stored)), settings)


def measure_agreement(stored: StoredRun, truth: RubricDataset, settings: AgreeSettings) -> MetricsResult:
    """Do the work of `agree` for a stored run and its labels."""
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
    _refuse_other_submissions(stored, other)
    history = find_history(settings, stored)
    if history is not None and has_drawn_labels(history):
        from autorubric.labels.label_agreement import compare_by_labels

        who, modes = resolve_annotator(history, settings.annotator), Modes(settings.cannot_assess, settings.na)
        return compare_by_labels((stored, other), stored.dataset, history, modes, settings.draws, who)
    return compare_judges(
        stored,
        other,
        read_stored_labels(stored, settings, history),
        n_replicates=settings.replicates,
        confidence_level=settings.confidence,
        seed=settings.seed,
        cannot_assess=settings.cannot_assess,
        na_mode=settings.na,
    )


def _refuse_other_submissions(run: StoredRun, other: StoredRun) -> None:
    """Raise an `InputError` if two runs have no submission in common, so that their judges cannot be compared."""
    texts, others = ({item.submission for item in one.dataset} for one in (run, other))
    if texts.isdisjoint(others) and "" not in texts | others:  # items without a stored text are found by their place
        raise InputError(
            f"{run.directory} and {other.directory} have no submission in common; two judges can be compared only on "
            "the same submissions",
            f"To compare the scores of different answers, run: autorubric report {run.directory} "
            f"--against {other.directory} (Python: report(RUN, against=OTHER)).",
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
    if other is not None:
        _refuse_other_submissions(stored, other)
    return measure_judge_agreement(
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


@run_job(ScoreSettings)
def agree_scores(run: Path, settings: ScoreSettings) -> HumanScoreAgreement:
    """Compare the scores of a run with human scores of whole submissions, on any scale; needs no labels.

    Computes correlations over all items, and the pairwise accuracy: the share of pairs of submissions to one query
    that the run orders as people do (for preferences, score the chosen submission 1 and the rejected one 0). The
    values of each criterion are compared with the same scores.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: no item has a score, a score is not a number, or a setting or file is wrong.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, agree_scores, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [{"submission": "Yes.", "overall": 5}, {"submission": "That depends on it.", "overall": 2}]
        >>> run = grade(rows, rubric=rubric, prompt="Does it rain?", judge="builtin/offline", out=tempfile.mkdtemp())
        >>> found = agree_scores(run, score="overall").overall
        >>> found.pairwise_accuracy, found.n_pairs
        (1.0, 1)
    """
    from autorubric.dataset.human_scores import join_human_scores
    from autorubric.jobs.submissions import parse_columns
    from autorubric.metrics.score_agreement import compare_with_human_scores

    stored = read_run(run)
    dataset, paths = stored.dataset, cast("list[Path]", settings.labels)
    columns = parse_columns(settings.column, ("id",))
    if columns and not paths:
        raise InputError("--column (Python: column=) names columns of --labels, which is missing")
    if paths:
        notes: list[str] = []
        dataset = join_human_scores(dataset, settings.score, paths, columns, notes)
        for note in notes:
            warn(note)
    return compare_with_human_scores(stored, dataset, settings.score, settings.confidence)


def analyze_run(settings: LabelAgreementSettings, rollouts: int) -> RubricAnalysis:
    """Statistics of each criterion of a run, and the signal of its rubric in groups of `rollouts` submissions."""
    from autorubric.metrics.rubric_analysis import analyze_rubric

    run = read_run(settings.run)
    return analyze_rubric(run, read_labels(run, settings), rollouts=rollouts, confidence=settings.confidence)


OF_LABEL_STORES = "with a label store, whose pairs may be drawn with unequal probabilities"


def refuse_simulation(settings: AgreeSettings, where: str) -> None:
    """Raise an error if `simulate` is set; `where` names the mode in which it has no effect."""
    if settings.simulate:
        raise InputError(
            f"--simulate (Python: simulate=True) resamples the labelled items of one run; it has no effect {where}"
        )


def name_runs(run: Path, other: Path) -> tuple[str, str]:
    """Return the names of two runs for a report: their folder names or, if these are equal, their full paths."""
    return (run.name, other.name) if run.name != other.name else (str(run), str(other))
