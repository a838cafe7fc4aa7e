"""Where the labels of a run come from, for `agree`, `report`, `view` and everything else that reads labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from autorubric.dataset.ground_truth import MAJORITY
from autorubric.dataset.label_rows import LABEL_ROLES, is_dataset, is_label_table
from autorubric.dataset.label_table import LabelTable, PartialLabels
from autorubric.errors import InputError, warn
from autorubric.jobs.job import Columns, DatasetSource, RunSource, column_setting
from autorubric.labels.label_store import STORE, History, find_labelled_run, read_history
from autorubric.settings import FileNames, Settings, setting

if TYPE_CHECKING:
    from autorubric.dataset import RubricDataset
    from autorubric.runs.items_file import StoredRun


class LabelChoice(Settings):
    """The choice of labels; by default those of the graded dataset, else those of the run's label store."""

    dataset: DatasetSource | None = setting(
        None, "Dataset with labels, if the graded one has none.", metavar="FILE", group="Input", reads=True
    )
    labels: FileNames = setting(
        (), "Table or export of labels, or RUN/labels; repeatable.", group="Input", reads=True
    )
    annotator: str | None = setting(None, "Annotator whose labels count, or majority.", group="Input")
    column: Columns = column_setting("Column of --labels: id, criterion, label or annotator.")

    @property
    def is_default(self) -> bool:
        """Whether all fields have their defaults."""
        return not (self.dataset is not None or self.labels or self.annotator or self.column)

    @property
    def files(self) -> list[Path]:
        """The files that `labels` names."""
        return list(cast("list[Path]", self.labels))


class LabelSettings(LabelChoice):
    """A run and its labels."""

    run: RunSource = setting(..., "Run directory of `autorubric grade`.", argument=True, group="Input")


NAMELESS = "labels"
"""The annotator name for labels in a file without annotators."""


def read_labels(run: StoredRun, settings: LabelChoice) -> RubricDataset:
    """Read the graded dataset with the labels that the settings refer to; warnings list what did not match.

    Raises:
        InputError: the labels are for other items or criteria, or a file is wrong.
    """
    truth = run.dataset if settings.dataset is None else _relabel(run.dataset, settings.dataset)
    paths = settings.files
    if _has_dataset(paths):
        return _relabel(truth, paths[0])
    table = _find_label_table(settings) if paths or settings.column or settings.annotator else None
    if table is None:
        return truth
    from autorubric.jobs.submissions import join_labels

    return join_labels(truth, table)


def read_stored_labels(run: StoredRun, settings: LabelChoice, history: History | None) -> RubricDataset:
    """Return the graded dataset with the labels of `history`; without it, with the chosen labels or its own.

    Args:
        run: the run.
        settings: the choice of labels.
        history: the labels of single pairs; None if there are none.

    Raises:
        InputError: the labels are for other items or criteria, a file is wrong, or the labelled pairs were drawn.
    """
    if history is None:
        if not settings.is_default:
            return read_labels(run, settings)
        if (run.directory / STORE).exists():
            note_other_labels(run.directory)
        return run.dataset
    from autorubric.labels.exchange import build_labelled_dataset

    if has_drawn_labels(history):
        raise InputError(
            "the labelled pairs were drawn with unequal probabilities, so unweighted metrics would be biased",
            "`autorubric agree RUN` without another mode weights them (Python: autorubric.label_agreement).",
        )
    return build_labelled_dataset(history, run.dataset, resolve_annotator(history, settings.annotator))


def has_drawn_labels(history: History) -> bool:
    """Return whether any label is for a drawn pair."""
    return any(history.labels(key) for key in history.draws)


def resolve_annotator(history: History, name: str | None) -> str | None:
    """Return the annotator whose labels in a store count; None for the majority of all annotators.

    Raises:
        InputError: this annotator has no labels.
    """
    who, known = None if name == MAJORITY else name, history.annotators()
    if who is not None and who not in known:
        raise InputError(f"annotator {who!r} has no labels; the annotators are {', '.join(known) or 'none'}")
    return who


def note_other_labels(run: Path, count: int | None = None) -> None:
    """Warn about labels in the store of a run whose dataset has its own labels; `count` is their number if known."""
    if count is None:
        count = sum(read_history(run).annotators().values())
    if count:
        warn(
            f"the labels of the dataset count; those of the label store ({count}) do not. Pass --labels "
            f"{(run / STORE).parent} for them"
        )


def find_history(settings: LabelChoice, run: StoredRun) -> History | None:
    """Return the labels of single pairs that the settings refer to; None for labels of whole items, or none at all.

    They come from a label store, its export, or a table with labels for a part of an item's criteria. Without
    `labels` and `dataset`, they come from the run's own store, if there is one and its dataset has no labels.

    Raises:
        InputError: `labels` names a label store and other files, or a file is wrong.
    """
    if settings.labels:
        stores = [store for path in settings.files if (store := find_labelled_run(path)) is not None]
        if stores and len(settings.files) > 1:
            raise InputError("--labels takes either one label store or files; not both")
        return read_history(stores[0]) if stores else _read_pair_labels(settings, run)
    if settings.dataset is not None or not (run.directory / STORE).exists():
        return None
    return read_history(run.directory) if all(item.ground_truth is None for item in run.dataset) else None


def _read_pair_labels(settings: LabelChoice, run: StoredRun) -> History | None:
    """Return the labels in an export or in tables that label items partly; None for labels of whole items."""
    from autorubric.jobs.submissions import parse_columns
    from autorubric.labels import exchange

    paths = settings.files
    if not any(map(exchange.is_events, paths)):
        table = None if _has_dataset(paths) else _read_label_table(settings)
        try:
            if table is None or table.join_labels(run.dataset):
                return None
        except PartialLabels:
            pass
        except InputError:
            if not all(map(exchange.is_rows, paths)):
                raise
            # Read as a label store, which resolves disagreements between annotators.
    columns = parse_columns(settings.column, ("id", *LABEL_ROLES))
    read = exchange.read_labels(run.dataset, paths, NAMELESS, columns)
    for note in read.notes:
        warn(note)
    return exchange.as_history(read)


def _read_label_table(settings: LabelChoice) -> LabelTable:
    table = _find_label_table(settings)
    if table is None:
        raise InputError(
            f"{', '.join(map(str, settings.files))}: labels of drawn pairs must be weighted, so completed files of "
            "label_next are read from the label store here",
            "Import them with `autorubric labels RUN --import FILE --annotator NAME` (Python: "
            "autorubric.import_labels), then leave out labels=. `autorubric agree RUN --labels FILE` estimates the "
            "mean score.",
        )
    return table


def has_completed_files(settings: LabelChoice) -> bool:
    """Return whether `labels` are completed files of `label_next`, not rows of id, criterion, label."""
    paths = settings.files
    return bool(paths) and not any(map(find_labelled_run, paths)) and _find_label_table(settings) is None


def _find_label_table(settings: LabelChoice) -> LabelTable | None:
    """Return the labels in files with rows of id, criterion and label; None for files of `--label-next`.

    Raises:
        InputError: files of both kinds are given, or flags for reading rows of labels without such rows.
    """
    paths, column = settings.files, settings.column
    if any(map(find_labelled_run, paths)):
        return None
    kinds = {*map(is_label_table, paths)}
    if len(kinds) > 1:
        raise InputError("--labels takes either files of --label-next or rows of id, criterion, label; not both")
    if kinds == {True}:
        from autorubric.jobs.submissions import parse_columns

        return LabelTable(paths, settings.annotator, parse_columns(column, ("id", *LABEL_ROLES)))
    for flag, value in (("--annotator", settings.annotator), ("--column", column)):
        if value:
            raise InputError(f"{flag} needs --labels FILE with rows of id, criterion, label")
    return None


def _has_dataset(paths: list[Path]) -> bool:
    """Return whether one of the files is a labelled dataset.

    Raises:
        InputError: it is given together with other files.
    """
    found = [path for path in paths if is_dataset(path)]
    if found and len(paths) > 1:
        raise InputError(f"{found[0]}: --labels takes either one dataset or other files; not both")
    return bool(found)


def _relabel(graded: RubricDataset, source: RubricDataset | Path | str) -> RubricDataset:
    from autorubric.dataset import RubricDataset
    from autorubric.metrics.joining import relabel

    labels = source if isinstance(source, RubricDataset) else RubricDataset.from_file(Path(source))
    try:
        made, notes = relabel(graded, labels)
    except InputError as error:
        where = "" if isinstance(source, RubricDataset) else f"{source}: "
        advice = "Give the labels of what was graded, with the same texts and criteria."
        raise InputError([f"{where}{problem}" for problem in error.problems], advice) from None
    for note in notes:
        warn(note)
    return made
