"""The labels of a run: agreement with them, their state, and import and export."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize, problems_at, warn
from autorubric.files import write_atomically
from autorubric.jobs.agree import OF_LABEL_STORES, AgreeSettings, LabelAgreementSettings, refuse_simulation
from autorubric.jobs.job import Columns, RunSource, column_setting, refuse_existing, run_job
from autorubric.jobs.label_next import COLUMNS, FilledLabels, read_filled_labels
from autorubric.jobs.label_source import find_history, has_drawn_labels, read_stored_labels, resolve_annotator
from autorubric.jobs.submissions import parse_columns
from autorubric.labels.annotators import Annotators, compare_annotators
from autorubric.labels.event import Event, LabelDraw, PairFinder, check_annotator, check_verdict, find_pair
from autorubric.labels.exchange import FORMS, Imported, add_labels, format_labels, read_labels
from autorubric.labels.label_agreement import LabelAgreement, correct_by_labels
from autorubric.labels.label_agreement import label_agreement as measured
from autorubric.labels.label_store import label_store, read_history
from autorubric.labels.weights import weight_labels
from autorubric.metrics.corrected import CorrectedScores, correct_table
from autorubric.metrics.label_choice import read_pairs
from autorubric.metrics.reading_runs import read_graded_table
from autorubric.metrics.results import CoverageSimulation
from autorubric.metrics.simulated_coverage import simulate_table
from autorubric.metrics.table import Modes
from autorubric.rows import read_rows
from autorubric.runs.items_file import StoredRun, read_run
from autorubric.settings import FileNames, LocalName, Settings, setting


class LabelStatusSettings(Settings):
    """The settings of `autorubric.label_status`.

    Example:
        >>> LabelStatusSettings(run="graded").run.name
        'graded'
    """

    run: RunSource = setting(..., "Run directory of `autorubric grade`.", argument=True, group="Input")


class ImportLabelsSettings(LabelStatusSettings):
    """The settings of `autorubric.import_labels`.

    Example:
        >>> [file.name for file in ImportLabelsSettings(run="graded", files="labels.csv").files]
        ['labels.csv']
    """

    files: FileNames = setting(
        (), "Labels to add: a table, dataset or export; repeatable.", flag="--import", group="Input", reads=True
    )
    annotator: str | None = setting(
        None, "Annotator of imported labels, if the file does not give one.", group="Input"
    )
    column: Columns = column_setting("Column of --import for a role, such as label.")


class ExportLabelsSettings(LabelStatusSettings):
    """The settings of `autorubric.export_labels`.

    Example:
        >>> ExportLabelsSettings(run="graded", target="labels.csv").target.name
        'labels.csv'
    """

    target: LocalName | None = setting(
        None, "Write the labels to a .csv, .jsonl or .json file.", flag="--export", group="Output"
    )
    final: bool = setting(False, "In .csv, one row per pair: the final label, after adjudication.", group="Output")
    force: bool = setting(False, "Replace the file of --export if it exists.", group="Output")


@dataclass(frozen=True)
class LabelStatus:
    """The labels of a run.

    Attributes:
        pairs: pairs with a label that counts.
        labelled_items: items with ground truth in the graded dataset, whose labels are not counted here.
        changed: labelled pairs whose text has changed since, or that are gone; their labels do not count.
        drawn: pairs that were drawn for labelling.
        open: drawn pairs without a label.
        skipped: pairs that an annotator skipped, counted once per annotator.
        undecided: pairs on which annotators differ, without adjudication.
        decided: adjudicated pairs.
        annotators: the annotators and their agreement.
    """

    pairs: int
    labelled_items: int
    changed: int
    drawn: int
    open: int
    skipped: int
    undecided: int
    decided: int
    annotators: Annotators


@run_job(LabelAgreementSettings)
def label_agreement(run: Path, settings: LabelAgreementSettings) -> LabelAgreement:
    r"""Agreement of a run with the labels of its label store, and of the annotators with each other.

    Labels of drawn pairs are weighted by the probabilities of the draw, because plain agreement on them is biased.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object; `labels` may be the label store of another run on the
            same items.

    Raises:
        InputError: there are no labels, or they cannot be weighted; the message says why.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade, import_labels, label_agreement
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [{"id": "a", "submission": "Yes"}, {"id": "b", "submission": "It depends on it"}]
        >>> run = grade(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> table = Path(tempfile.mkdtemp()) / "labels.csv"
        >>> _ = table.write_text("id,criterion,label\na,Short,MET\nb,Short,MET\n")
        >>> _ = import_labels(run, files=table, annotator="ana")
        >>> label_agreement(run).judge.accuracy.value
        0.5
    """
    stored = read_run(run)
    history = find_history(settings, stored)
    if history is None:
        raise InputError(
            f"{run}: labels in its label store are needed; label in `autorubric view`, or add labels with "
            "`autorubric labels RUN --import FILE` (Python: autorubric.import_labels)"
        )
    who, modes = resolve_annotator(history, settings.annotator), Modes(settings.cannot_assess, settings.na)
    return measured(stored, stored.dataset, history, modes, settings.draws, who)


def correct_scores(settings: AgreeSettings) -> tuple[CorrectedScores, CoverageSimulation | None]:
    """Correct the scores of a run for the judge's errors; with `simulate`, also measure the intervals' coverage."""
    run, confidence = read_run(settings.run), settings.confidence
    history = find_history(settings, run)
    if history is not None and has_drawn_labels(history):
        refuse_simulation(settings, OF_LABEL_STORES)
        who = resolve_annotator(history, settings.annotator)
        return correct_by_labels(run, run.dataset, history, confidence, who), None
    table = read_graded_table(run, read_stored_labels(run, settings, history))
    simulated = simulate_table(table, confidence, settings.seed) if settings.simulate else None
    return correct_table(table, confidence=confidence), simulated


@run_job(LabelStatusSettings)
def label_status(run: Path, settings: LabelStatusSettings) -> LabelStatus:
    """The number of labels of a run, its annotators, and the agreement among them.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: the directory is not a run, or its label store is damaged.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade, label_status
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> label_status(grade(["Yes"], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())).pairs
        0
    """
    stored = read_run(run)
    history, finder = read_history(run), PairFinder(stored.dataset)
    keys, names = list(history.labelled()), {event.annotator for event in history.events if event.annotator}
    found = [key for key in keys if finder.find_key(key) is not None]
    return LabelStatus(
        pairs=len(found),
        labelled_items=sum(item.ground_truth is not None for item in stored.dataset.items),
        changed=len(keys) - len(found),
        drawn=len(history.draws),
        open=sum(not history.labels(key) for key in history.draws),
        skipped=sum(history.count_kinds(name)["skip"] for name in names),
        undecided=len(history.differing()),
        decided=sum(history.decision(key) is not None for key in keys),
        annotators=compare_annotators(history, stored.dataset, finder),
    )


@run_job(ImportLabelsSettings)
def import_labels(run: Path, settings: ImportLabelsSettings) -> Imported:
    """Add the labels in files to the label store of a run; if one is invalid, none is added.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: a file or label is wrong; nothing was added.
        RunLockedError: another process labels this run.
        NotSavedError: the disk is full; nothing was added.

    Example:
        >>> import_labels("no-such-run", files="labels.csv")
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: no-such-run does not exist; expected a run directory
    """
    stored: StoredRun = read_run(run)
    paths = [Path(path) for path in cast("list[Path]", settings.files)]
    if not paths:
        raise InputError("no file to import; pass --import FILE (Python: files=)")
    roles = ("id", "criterion", "label", "annotator", "note", "quote", "seconds")
    columns = parse_columns(settings.column, roles)
    drawn = [path for path in paths if not columns and is_drawn(path)]
    events = read_drawn_events(drawn, stored.dataset, settings.annotator)
    others = [path for path in paths if path not in drawn]
    read = read_labels(stored.dataset, others, settings.annotator, columns)
    read = read._replace(events=(*events, *read.events))
    finder, pairs = PairFinder(stored.dataset), read_pairs(stored, stored.dataset) if drawn else None
    check = None if pairs is None else partial(weight_labels, finder=finder, pairs=pairs)
    with label_store(Path(run)) as store:
        done = add_labels(store, read, check)
    for note in done.notes:
        warn(note)
    return done


@run_job(ExportLabelsSettings)
def export_labels(run: Path, settings: ExportLabelsSettings) -> Path:
    """Write the labels of a run to a file; the suffix sets the format.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object.

    Returns:
        The file.

    Raises:
        InputError: there are no labels, the suffix is unknown, or the file exists and `force` is not set.

    Example:
        >>> export_labels("no-such-run", target="labels.txt")
        Traceback (most recent call last):
        autorubric.errors.InputError: labels.txt: expected a name that ends in .csv, .jsonl, .json
    """
    if settings.target is None:
        raise InputError("no file to write; pass --export FILE (Python: target=)")
    target = Path(settings.target)
    form = FORMS.get(target.suffix.lower())
    if form is None:
        raise InputError(f"{target}: expected a name that ends in {', '.join(FORMS)}")
    if settings.final and form != "csv":
        raise InputError(f"{target}: --final is for .csv only; leave it out")
    refuse_existing(target, force=settings.force)
    stored = read_run(run)
    history = read_history(run)
    write_atomically(target, format_labels(history, stored.dataset, form, final=settings.final))
    decided = sum(history.decision(key) is not None for key in history.labelled())
    if form == "csv" and decided and not settings.final:
        note = f"{target} has the labels, not the {pluralize(decided, 'decision')} of adjudication"
        warn(f"{note}; --final (Python: final=True) or a .jsonl file has them")
    return target


def is_drawn(path: Path) -> bool:
    """Return whether a file was written by `agree --label-next --csv`."""
    first = next(iter(read_rows(path, [], what="Label file")), None)
    return first is not None and first.fields.keys() >= set(COLUMNS)


def read_drawn_events(paths: Sequence[Path], dataset: RubricDataset, annotator: str | None) -> list[Event]:
    """Read the draws and labels in completed files; rows without a verdict are drawn pairs that stay open.

    Args:
        paths: the files.
        dataset: the graded dataset.
        annotator: the annotator of the labels.

    Raises:
        InputError: a cell is wrong, no row has a verdict, or no annotator is given.
    """
    if not paths:
        return []
    if annotator is None:
        raise InputError("the file does not say whose label this is; pass --annotator NAME (Python: annotator=)")
    name, filled = check_annotator(annotator), read_filled_labels(paths, dataset)
    found = (_build_label(label.item, label.criterion, label.verdict, dataset, name) for label in filled.labels)
    with problems_at(f"{', '.join(map(str, paths))}: "):
        return [*_build_draws(filled, dataset), *found]


def _build_draws(filled: FilledLabels, dataset: RubricDataset) -> Iterator[Event]:
    for row in filled.rows:
        pair, (_, opened, seed, seen) = find_pair(dataset, row.item, row.criterion), filled.draws[row.batch]
        draw = LabelDraw(row.batch, "label_next", None, seed, row.probability, opened, seen)
        yield Event(0, 0.0, "draw", pair.item, pair.criterion, pair.digest, draw=draw)


def _build_label(index: int, place: int, verdict: object, dataset: RubricDataset, annotator: str) -> Event:
    pair = find_pair(dataset, index, place)
    word = check_verdict(dataset.get_item_rubric(index)[place], str(getattr(verdict, "value", verdict)))
    return Event(0, 0.0, "label", pair.item, pair.criterion, pair.digest, annotator, word)
