"""`autorubric.label_next`: the labels to collect next, their file, and the mean score estimated from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.scoring import build_cell
from autorubric.dataset import RubricDataset
from autorubric.dataset.ground_truth import match_label
from autorubric.errors import InputError, collected
from autorubric.files.printable import escape_formula
from autorubric.jobs.job import run_job
from autorubric.jobs.label_source import LabelSettings, read_labels
from autorubric.labels.drawing import Ask, KnownPair, draw_from_pairs, list_known
from autorubric.labels.event import PairFinder
from autorubric.labels.label_store import read_history
from autorubric.metrics import label_choice
from autorubric.metrics.intervals import Estimate
from autorubric.rows import read_rows
from autorubric.runs.items_file import read_run
from autorubric.settings import setting


class LabelNextSettings(LabelSettings):
    """The settings of `autorubric.label_next`.

    Example:
        >>> LabelNextSettings(run="graded", n=20).n
        20
    """

    n: int = setting(10, "How many (item, criterion) pairs to suggest.", ge=1)
    seed: int = setting(0, "Random seed of the draw.", ge=0, le=2**63 - 1)


@dataclass(frozen=True)
class LabelledScore:
    """The mean score estimated from labels of `label_next`.

    Attributes:
        estimate: the mean score with its interval.
        labels: the number of labels that it is based on.
        clamped: items whose score is clamped to [0, 1]; the estimate is of scores before clamping.
        notes: remarks for the reader.
    """

    estimate: Estimate
    labels: int
    clamped: int
    notes: tuple[str, ...] = ()


@run_job(LabelNextSettings)
def label_next(run: Path, settings: LabelNextSettings) -> list[dict[str, Any]]:
    """The n (item, criterion) pairs whose labels would narrow the interval of the mean score most, as rows.

    Write the rows to a CSV file, fill in the column `verdict`, and pass the file as `labels` to the next call or to
    `autorubric agree --labels`, which estimates the mean score. For `label_agreement`, import it with `import_labels`
    into the label store of the run. Without `labels`, pairs that the store
    has drawn or has labels for are left out.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object; `labels` are completed files of earlier calls.

    Raises:
        InputError: everything is labelled, a setting or file is wrong, or files of earlier calls are missing.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade, label_next
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> run = grade(["Yes", "It depends on it"], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> [row] = label_next(run, n=1)
        >>> row["name"], row["choices"], row["verdict"]
        ('Short', 'MET | UNMET', '')
    """
    truth, filled, pairs = _read_filled(settings)
    _refuse_other_state(pairs, filled)
    batch, seen = 1 + max((label.batch for label in filled.labels), default=-1), 0
    known = [KnownPair(label.item, label.criterion, label.verdict) for label in filled.labels]
    if not settings.files and settings.dataset is None:
        history = read_history(settings.run)
        batch, seen, known = len(history.batches), history.last, list_known(history, PairFinder(truth))
    found = draw_from_pairs(pairs, Ask("label_next", size=settings.n, seed=settings.seed), known, batch)
    if not found.pairs:
        raise InputError("every judged pair has a label or was drawn before; nothing is left to draw")
    draw = f"{len(found.pairs)} of {found.open}, seed {settings.seed + batch}" + f", event {seen}" * bool(seen)
    return [build_row(request, batch, draw, truth) for request in sorted(found.pairs)]


def estimate_labelled_score(settings: LabelSettings, confidence: float) -> LabelledScore:
    """Return the mean score estimated from completed files of `label_next`.

    Raises:
        InputError: the files belong to another run or to another state of its labels.
    """
    _, filled, pairs = _read_filled(settings)
    _refuse_other_state(pairs, filled)
    estimate = label_choice.score_from_labels(pairs, filled.weight_labels(), confidence)
    return LabelledScore(estimate, len(filled.labels), pairs.clamped, tuple(_list_notes(pairs, filled, estimate)))


def _read_filled(settings: LabelSettings) -> tuple[RubricDataset, FilledLabels, label_choice.JudgedPairs]:
    """Return the graded dataset, the labels in completed files, and the pairs of item and criterion."""
    stored = read_run(settings.run)
    truth = read_labels(stored, settings.model_copy(update={"labels": ()}))
    return truth, read_filled_labels(settings.files, truth), label_choice.read_pairs(stored, truth)


def _list_notes(pairs: label_choice.JudgedPairs, filled: FilledLabels, estimate: Estimate) -> Iterator[str]:
    yield from filled.find_open_batches()
    if pairs.clamped:
        yield (
            f"{pairs.clamped} of {len(pairs.items)} scores are clamped to [0, 1], but this estimate is not; "
            "for the mean of clamped scores, label whole items and use --corrected"
        )
    if estimate.reason:
        yield estimate.reason


def _refuse_other_state(pairs: label_choice.JudgedPairs, filled: FilledLabels) -> None:
    """Raise an error if labels were drawn when a different number of pairs was open."""
    label_choice.apply_labels(pairs, filled.labels)
    for batch in sorted({label.batch for label in filled.labels}):
        then = filled.draws[batch][1]
        earlier = [label for label in filled.labels if label.batch < batch]
        now = len(label_choice.find_open_pairs(pairs, label_choice.apply_labels(pairs, earlier)))
        if now != then:
            raise InputError(
                f"batch {batch} was drawn from {then} open pairs, and {now} are open now",
                "Pass the run, --dataset and labels that the batch was drawn with; if it was drawn from the label "
                "store of the run, import its file there with `autorubric labels RUN --import FILE`.",
            )


COLUMNS = ("item", "id", "criterion", "name", "probability", "batch", "draw", "verdict")
"""The columns of the file to fill in: annotators fill in `verdict`; the rest must not change."""
TEXTS = ("requirement", "choices", "submission")
"""Further columns, for the annotator to read."""
_LONGEST_TEXT = 30_000
"""Maximum characters of a text in that file; a spreadsheet cell takes 32,767."""
_LEAST_PROBABILITY = 1e-9
_KEPT = ("item", "criterion", "probability", "batch", "draw")
_DRAW = re.compile(r"(\d+) of (\d+), seed (\d+)(?:, event (\d+))?")


class FilledLabels(NamedTuple):
    """The labels of completed files.

    Attributes:
        labels: the labels.
        draws: the result of `read_draw` for each batch.
        rows: the labels, and the drawn pairs without one, whose verdict is empty.
    """

    labels: list[label_choice.CellLabel]
    draws: dict[int, tuple[int, int, int, int]]
    rows: list[label_choice.CellLabel]

    def weight_labels(self) -> list[label_choice.CellLabel]:
        """Return the labels, weighted to account for pairs of their batch without a label."""
        got = Counter(label.batch for label in self.labels)
        shares = {batch: min(1.0, got[batch] / asked) for batch, (asked, *_) in self.draws.items()}
        return [replace(label, probability=label.probability * shares[label.batch]) for label in self.labels]

    def find_open_batches(self) -> Iterator[str]:
        """Yield a note on each batch that has pairs without a label."""
        got = Counter(label.batch for label in self.labels)
        for batch, (asked, *_) in sorted(self.draws.items()):
            if 0 < got[batch] < asked:
                yield (
                    f"batch {batch}: {got[batch]} of {asked} labels; valid only if these are a random part, "
                    "not the easy ones"
                )


def build_row(request: label_choice.LabelRequest, batch: int, draw: str, dataset: RubricDataset) -> dict[str, Any]:
    """Return the row of a label request.

    Args:
        request: the pair to label.
        batch: the number of its batch.
        draw: the text of column `draw`: number of pairs drawn, number of open pairs, and the seed.
        dataset: the graded dataset.
    """
    item = dataset[request.item]
    criterion = dataset.get_item_rubric(request.item).rubric[request.criterion]
    options = [option for option in _list_choices(criterion) if option != CriterionVerdict.CANNOT_ASSESS]
    return {
        "item": request.item,
        "id": item.id or "",
        "criterion": request.criterion,
        "name": request.name,
        "probability": repr(request.probability),
        "batch": batch,
        "draw": draw,
        "requirement": criterion.requirement[:_LONGEST_TEXT],
        "choices": " | ".join(options),
        "submission": item.submission[:_LONGEST_TEXT],
        "verdict": "",
    }


def read_filled_labels(paths: Sequence[Path], dataset: RubricDataset) -> FilledLabels:
    """Read the labels in completed files of `--label-next --csv`; rows without a verdict stay open.

    Args:
        paths: the files.
        dataset: the graded dataset.

    Raises:
        InputError: a column is missing, a value is invalid, a row's id and name are not those of its item and
            criterion, or a batch comes from two draws; reports all problems together.
    """
    found: list[label_choice.CellLabel] = []
    draws: dict[int, str] = {}
    problems: list[str] = []
    for path in paths:
        with collected(problems):
            for record in read_rows(path, problems, what="Label file"):
                _check_columns(record.fields, path)
                made, wrong = _read_row(record.fields, dataset, draws)
                found += made
                problems += (f"{record.where}: {sentence}" for sentence in wrong)
    labels = [label for label in found if label.verdict]
    if not labels and not problems and paths:
        problems.append(f"{', '.join(map(str, paths))}: no row has a verdict in the column 'verdict'")
    if problems:
        raise InputError(problems)
    return FilledLabels(labels, {batch: read_draw(draw) for batch, draw in draws.items()}, found)


def read_draw(text: str) -> tuple[int, int, int, int]:
    """Parse the column `draw`: the pairs drawn, the open pairs, the seed, and the last event before the draw.

    The event is a number of the label store; 0 if there is none.

    Raises:
        ValueError: the text is not of this form.
    """
    found = _DRAW.fullmatch(text.strip())
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        raise ValueError
    asked, opened, seed, seen = map(int, found.groups("0"))
    return asked, opened, seed, seen


def _check_columns(row: Mapping[str, Any], path: Path) -> None:
    missing = [name for name in COLUMNS if name not in row]
    if missing:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; expected a completed file of --label-next (add other labels to "
            "the label store of the run with `autorubric labels RUN --import FILE`)"
        )


def _read_row(
    row: Mapping[str, str], dataset: RubricDataset, draws: dict[int, str]
) -> tuple[list[label_choice.CellLabel], list[str]]:
    """Return the label in a row, with an empty verdict if it is open, and the problems of the row."""
    try:
        label, draw = _read_label(row, dataset), row["draw"].strip()
        read_draw(draw)
    except (ValueError, TypeError, AttributeError):
        values = ", ".join(f"{name}={row.get(name)!r}" for name in _KEPT)
        return [], [f"item, criterion, probability, batch and draw must stay as written; found {values}"]
    if draws.setdefault(label.batch, draw) != draw:
        return [], [
            f"batch {label.batch} comes from two draws ({draws[label.batch]}; {draw}); "
            "pass the labels of the first with --labels before drawing the next"
        ]
    return [label], list(_find_problems(row, label, dataset)) if label.verdict else []


def _read_label(row: Mapping[str, str], dataset: RubricDataset) -> label_choice.CellLabel:
    text = (row["verdict"] or "").strip()
    probability = float(row["probability"])
    batch, item, place = (int(row[name]) for name in ("batch", "item", "criterion"))
    if batch < 0 or not _LEAST_PROBABILITY < probability <= 1.0:
        raise ValueError
    criteria = dataset.get_item_rubric(item).rubric if 0 <= item < len(dataset) else []
    meant = match_label(criteria[place], text) if 0 <= place < len(criteria) else None
    return label_choice.CellLabel(item, place, text if meant is None else meant, probability, batch)


def _list_choices(criterion: Criterion) -> list[str]:
    if criterion.options is None:
        return list(CriterionVerdict.__members__)
    return [option.label for option in criterion.options]


def _find_problems(row: Mapping[str, str], label: label_choice.CellLabel, dataset: RubricDataset) -> Iterator[str]:
    """Yield a problem for an id or name that differs from the dataset's, and for a verdict of no option."""
    if not 0 <= label.item < len(dataset):
        return
    rubric = dataset.get_item_rubric(label.item).rubric
    known, is_known = {"id": dataset[label.item].id or ""}, 0 <= label.criterion < len(rubric)
    if is_known:
        known["name"] = name_criteria(rubric)[label.criterion]
    for column, value in known.items():
        if row[column] not in ("", value, escape_formula(value)):
            what = "item" if column == "id" else "criterion"
            yield (
                f"{column} is {row[column]!r}, but the run's {what} {row[what]} has {value!r}; "
                "pass the rows as --label-next wrote them, with the same run"
            )
    try:
        if is_known:
            build_cell(rubric[label.criterion], label.verdict)
    except ValueError:
        yield f"verdict {str(label.verdict)!r} is not one of {', '.join(_list_choices(rubric[label.criterion]))}"
