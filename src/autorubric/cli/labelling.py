"""The tables of `autorubric agree` on corrected scores and on labels to collect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from autorubric.cli.agreement_report import Ranged, Shown, interval_name
from autorubric.cli.label_file import TEXTS, Filled, row_to_label
from autorubric.core.counted import counted
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.corrected import CorrectedScores
from autorubric.metrics.corrected_rate import Corrections
from autorubric.metrics.intervals import Estimate
from autorubric.metrics.judged_pairs import JudgedPairs, judged_pairs
from autorubric.metrics.label_choice import choose_pairs, open_pairs, score_from_labels, with_labels

_METHODS = {
    "raw": "as judged",
    "labels_only": "labels alone",
    "ppi": "corrected (PPI)",
    "rogan_gladen": "Rogan-Gladen",
}


def show_corrected(found: CorrectedScores, confidence: float) -> Shown:
    """The mean score and each criterion's rate: as judged, as labelled, and corrected for the judge's errors."""
    rows = [{"metric": name, **_cells(one)} for name, one in _named(found)]
    above = [
        f"{counted(found.score.labelled, 'item')} with labels, {found.score.unlabelled} without; "
        f"{interval_name(confidence)}; valid if the labelled items were drawn at random",
        "",
    ]
    return Shown(rows, _whole(found), above, ["", *(f"note: {note}" for note in _notes(found))])


def show_labels_to_collect(run: Any, dataset: RubricDataset, k: int, filled: Filled, seed: int) -> Shown:
    """The k pairs of item and criterion to label next, in the columns that `labels_in` reads back."""
    batch = 1 + max((label.batch for label in filled.labels), default=-1)
    pairs = judged_pairs(run, dataset)
    asked = choose_pairs(pairs, k, filled.labels, seed + batch)
    free = len(open_pairs(pairs, with_labels(pairs, filled.labels)))
    draw = f"{len(asked)} of {free}, seed {seed + batch}"
    rows = [row_to_label(request, batch, draw, dataset) for request in asked]
    below = ["", "write these with --csv, fill in the column verdict, and give the file to --labels"]
    return Shown(rows, rows, (), below, TEXTS)


def show_labelled_score(run: Any, dataset: RubricDataset, filled: Filled, confidence: float) -> Shown:
    """The mean score that labels collected with `--label-next` give."""
    pairs = judged_pairs(run, dataset)
    _same_state(pairs, filled)
    estimate = score_from_labels(pairs, filled.weighted(), confidence)
    metric = "mean score before clamping" if pairs.clamped else "mean score"
    rows = [{"metric": metric, "n": estimate.n, "labels": len(filled.labels), "value": _ranged(estimate)}]
    notes = [*filled.notes()]
    if pairs.clamped:
        notes.append(
            f"{pairs.clamped} of {len(pairs.items)} scores are clamped to [0, 1], this estimate is not; "
            "label whole items and use --corrected for the mean of clamped scores"
        )
    notes += [estimate.reason] if estimate.reason else []
    whole = {"metric": metric, "labels": len(filled.labels), **asdict(estimate), "notes": notes}
    return Shown(rows, whole, (), ["", *(f"note: {note}" for note in notes)] if notes else ())


def _same_state(pairs: JudgedPairs, filled: Filled) -> None:
    """Refuse labels that were drawn while other pairs were open than are now."""
    with_labels(pairs, filled.labels)
    for batch, (_, then) in sorted(filled.draws.items()):
        earlier = [label for label in filled.labels if label.batch < batch]
        now = len(open_pairs(pairs, with_labels(pairs, earlier)))
        if now != then:
            raise InputError(
                f"batch {batch} was drawn from {then} open pairs, and {now} are open now",
                "Give the same run and --dataset as when it was drawn, and the labels that there were then.",
            )


def _named(found: CorrectedScores) -> list[tuple[str, Corrections]]:
    return [("mean score", found.score), *found.criteria.items()]


def _cells(one: Corrections) -> dict[str, Any]:
    counts = {"n": one.raw.n, "labels": one.labelled}
    return counts | {title: _ranged(getattr(one, method)) for method, title in _METHODS.items()}


def _ranged(estimate: Estimate | None) -> Ranged:
    if estimate is None:
        return Ranged(None)
    return Ranged(estimate.value, *(estimate.interval or ())[:2])


def _notes(found: CorrectedScores) -> Iterator[str]:
    yield from found.notes
    concerned: dict[str, dict[str, list[str]]] = {}
    for method, title in _METHODS.items():
        for name, one in _named(found):
            estimate: Estimate | None = getattr(one, method)
            if estimate is not None and estimate.reason:
                what = f"no {'estimate' if estimate.value is None else 'interval'} {title!r}"
                concerned.setdefault(estimate.reason, {}).setdefault(what, []).append(name)
    for reason, missing in concerned.items():
        affected = (f"{what} for {', '.join(names)}" for what, names in missing.items())
        yield f"{'; '.join(affected)}: {reason}"


def _whole(found: CorrectedScores) -> Any:
    return json.loads(json.dumps(asdict(found)))
