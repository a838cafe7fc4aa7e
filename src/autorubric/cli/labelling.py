"""What `autorubric agree` says of scores and labels: corrected scores, and which labels to collect next."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autorubric.cli.agreement_report import Ranged, Shown, intervals
from autorubric.core.counted import counted
from autorubric.core.criterion_names import criterion_names
from autorubric.core.verdict import CriterionVerdict
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.files import read_text
from autorubric.files.spreadsheet import defused
from autorubric.metrics.corrected import CorrectedScores, corrected_scores
from autorubric.metrics.corrected_rate import Corrections
from autorubric.metrics.interval import Estimate
from autorubric.metrics.label_choice import CellLabel, LabelRequest, label_next, sampled_score

COLUMNS = ("item", "id", "criterion", "name", "probability", "batch", "verdict")
"""Of the file that a person fills in: `verdict` is theirs, the rest stays as it is."""
_TEXTS = ("requirement", "choices", "submission")
_LONGEST_TEXT = 30_000
"""Characters of a text in that file: spreadsheets take 32,767 in a cell."""

_METHODS = {
    "raw": "as judged",
    "labels_only": "labels alone",
    "ppi": "corrected (PPI)",
    "rogan_gladen": "Rogan-Gladen",
}


def corrected(run: Any, dataset: RubricDataset, confidence: float) -> Shown:
    """The mean score and each criterion's rate: as judged, as labelled, and corrected for the judge's errors."""
    found = corrected_scores(run, dataset, confidence=confidence)
    rows = [{"figure": name, **_cells(figures)} for name, figures in _named(found)]
    above = [
        f"{counted(found.score.labelled, 'item')} with labels, {found.score.unlabelled} without; "
        f"{intervals(confidence)}; right where the labelled items were drawn at random",
        "",
    ]
    return Shown(rows, _whole(found), above, ["", *(f"note: {note}" for note in _notes(found))])


def to_label(run: Any, dataset: RubricDataset, k: int, labels: Sequence[CellLabel], seed: int) -> Shown:
    """The k pairs of item and criterion to label next, in the columns that `labels_in` reads back."""
    batch = 1 + max((label.batch for label in labels), default=-1)
    asked = label_next(run, k, dataset, labels=labels, seed=seed + batch)
    rows = [_row_to_label(request, batch, dataset) for request in asked]
    below = ["", "write these with --csv, fill in the column verdict, and give the file to --labels"]
    return Shown(rows, rows, (), below, _TEXTS)


def _row_to_label(request: LabelRequest, batch: int, dataset: RubricDataset) -> dict[str, Any]:
    item = dataset[request.item]
    criterion = dataset.get_item_rubric(request.item).rubric[request.criterion]
    words = [option.label for option in criterion.options] if criterion.options else ["MET", "UNMET"]
    return {
        "item": request.item,
        "id": item.id or "",
        "criterion": request.criterion,
        "name": request.name,
        "probability": repr(request.probability),
        "batch": batch,
        "requirement": criterion.requirement[:_LONGEST_TEXT],
        "choices": " | ".join(words),
        "submission": item.submission[:_LONGEST_TEXT],
        "verdict": "",
    }


def labelled_score(run: Any, dataset: RubricDataset, labels: Sequence[CellLabel], confidence: float) -> Shown:
    """The mean score that labels collected with `--label-next` give."""
    estimate = sampled_score(run, dataset, labels, confidence=confidence)
    rows = [{"figure": "mean score", "n": estimate.n, "labels": len(labels), "value": _ranged(estimate)}]
    notes = [f"note: {estimate.reason}"] if estimate.reason else []
    return Shown(rows, {"labels": len(labels), **asdict(estimate)}, (), ["", *notes] if notes else ())


def labels_in(paths: Sequence[Path], dataset: RubricDataset) -> list[CellLabel]:
    """The labels in files that `--label-next --csv` wrote and a person filled in; rows without a verdict are open.

    Args:
        paths: the files.
        dataset: what was graded.

    Raises:
        InputError: a column is missing, a cell is not what its column holds, or a row's id and name are not those
            of its item and criterion; all at once.
    """
    labels: list[CellLabel] = []
    problems: list[str] = []
    for path in paths:
        rows = csv.DictReader(io.StringIO(read_text(path, what="Label file")))
        try:
            for number, row in enumerate(_complete(rows), 2):
                made, wrong = _read(row, dataset)
                labels += made
                problems += (f"{path}:{number}: {sentence}" for sentence in wrong)
        except InputError as error:
            problems.append(f"{path}: {error}")
        except csv.Error as error:
            problems.append(f"{path}:{rows.line_num + 1}: no CSV as --label-next --csv writes it: {error}")
    if not labels and not problems:
        problems.append(f"{', '.join(map(str, paths))}: no row has a verdict")
    if problems:
        raise InputError(problems)
    return labels


def _complete(rows: csv.DictReader[str]) -> csv.DictReader[str]:
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise InputError(f"no column {', '.join(missing)}; expected {', '.join(COLUMNS)}")
    return rows


def _read(row: Mapping[str, str], dataset: RubricDataset) -> tuple[list[CellLabel], list[str]]:
    """The label of a row, none where the verdict is open, and sentences on what is wrong with the row."""
    try:
        made = list(_label(row))
    except (ValueError, TypeError):
        return [], ["item, criterion, probability and batch must stay as written"]
    return made, [wrong for label in made for wrong in _unlike(row, label, dataset)]


def _label(row: Mapping[str, str]) -> Iterator[CellLabel]:
    word = (row["verdict"] or "").strip()
    if not word:
        return
    verdict = CriterionVerdict(word.upper()) if word.upper() in CriterionVerdict.__members__ else word
    if int(row["batch"]) < 0:
        raise ValueError
    yield CellLabel(int(row["item"]), int(row["criterion"]), verdict, float(row["probability"]), int(row["batch"]))


def _unlike(row: Mapping[str, str], label: CellLabel, dataset: RubricDataset) -> Iterator[str]:
    """What the row calls its item and criterion, where the dataset calls them otherwise."""
    if not 0 <= label.item < len(dataset):
        return
    rubric = dataset.get_item_rubric(label.item).rubric
    known = {"id": dataset[label.item].id or ""}
    if 0 <= label.criterion < len(rubric):
        known["name"] = criterion_names(rubric)[label.criterion]
    for column, value in known.items():
        if row[column] not in ("", value, defused(value)):
            what = "item" if column == "id" else "criterion"
            yield (
                f"{column} is {row[column]!r}, but the run's {what} {row[what]} has {value!r}; "
                "give rows as --label-next wrote them to the run that asked"
            )


def _named(found: CorrectedScores) -> list[tuple[str, Corrections]]:
    return [("mean score", found.score), *found.criteria.items()]


def _cells(figures: Corrections) -> dict[str, Any]:
    counts = {"n": figures.raw.n, "labels": figures.labelled}
    return counts | {title: _ranged(getattr(figures, method)) for method, title in _METHODS.items()}


def _ranged(estimate: Estimate | None) -> Ranged:
    if estimate is None:
        return Ranged(None)
    return Ranged(estimate.value, *(estimate.interval or ())[:2])


def _notes(found: CorrectedScores) -> Iterator[str]:
    yield from found.notes
    concerned: dict[str, dict[str, list[str]]] = {}
    for method, title in _METHODS.items():
        for name, figures in _named(found):
            estimate: Estimate | None = getattr(figures, method)
            if estimate is not None and estimate.reason:
                what = f"no {'figure' if estimate.value is None else 'interval'} {title!r}"
                concerned.setdefault(estimate.reason, {}).setdefault(what, []).append(name)
    for reason, missing in concerned.items():
        figures_missing = (f"{what} for {', '.join(names)}" for what, names in missing.items())
        yield f"{'; '.join(figures_missing)}: {reason}"


def _whole(found: CorrectedScores) -> Any:
    return json.loads(json.dumps(asdict(found)))
