"""The pages of labelling: the queue, adjudication, and the figures of the labels.

A child process makes the figures: it reads the whole run, and gives the memory back.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.errors import AutorubricError, InputError
from autorubric.labels.event import checked_annotator
from autorubric.labels.label_store import FOLDER, read_history
from autorubric.llm.records.lock import lock_holder
from autorubric.view.labelling import POLICIES, Labelling, dispute_values
from autorubric.view.page import Page, Query, Refusal
from autorubric.view.sources import Source

if TYPE_CHECKING:
    from autorubric.labels.label_agreement import Agreement

_MOST_DISPUTES = 20


def label_page(source: Source, query: Query, labelling: Labelling) -> Page:
    """The queue of an annotator, or the form that opens it. The pair itself comes with its own request."""
    annotator = _annotator(query)
    is_open = labelling.is_open(source)
    names: list[str] = []
    if not is_open:
        with source.reading() as connection:
            found = connection.execute("SELECT name FROM criteria GROUP BY name ORDER BY min(criterion) LIMIT 200")
            names = [name for (name,) in found]
    data: dict[str, Any] = {
        "open": is_open,
        "status": source.status,
        "annotator": annotator,
        "holder": None if is_open else lock_holder(source.directory / FOLDER),
        "policies": POLICIES,
        "criteria": names,
        "labels": read_history(source.directory).annotators(),
    }
    rows = [{"annotator": name, "labels": n} for name, n in data["labels"].items()]
    return Page("label", f"Label {source.name}", data, rows)


def adjudication_page(source: Source, query: Query, labelling: Labelling) -> Page:
    """Pairs on which annotators differ, their labels side by side; the judge's verdict stays hidden."""
    annotator = _annotator(query)
    disputes = [dispute_values(one) for one in labelling.queue(source).disputes()]
    data = {"annotator": annotator, "count": len(disputes), "disputes": disputes[:_MOST_DISPUTES]}
    rows = [
        {"item": one["task"]["item"], "criterion": one["task"]["criterion"], **label}
        for one in disputes
        for label in one["labels"]
    ]
    return Page("adjudicate", f"Adjudicate {source.name}", data, rows)


def figures_page(source: Source, query: Query, labelling: Labelling) -> Page:
    """How far judge and annotators agree with the labels, and what more labels would bring."""
    found = label_figures(source.directory)
    data = {"labels": read_history(source.directory).annotators(), "open": labelling.is_open(source), **found}
    rows = [found["judge"], *found["criteria"], *found["annotators"]] if not found["problem"] else []
    return Page("label_figures", f"Labels of {source.name}", data, rows)


def _annotator(query: Query) -> str:
    name = query.text("annotator")
    try:
        return checked_annotator(name) if name else ""
    except InputError as error:
        raise Refusal(400, str(error)) from None


_MORE = 40
_SECONDS = 120
_REPLICATES = 400


def label_figures(run: Path) -> dict[str, Any]:
    """The agreement of judge and annotators with the labels, and what 40 more labels would bring.

    `problem` says why there are none: too few labels, or a run that cannot be read.
    """
    command = [sys.executable, "-m", "autorubric.view.pages.labels_page", str(run)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        found: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, OSError, ValueError) as error:
        return {"problem": f"the figures could not be computed: {type(error).__name__}"}
    return found


def _computed(run: Path) -> dict[str, Any]:
    from autorubric.labels.label_agreement import label_agreement, projected_half_width
    from autorubric.metrics.jackknife import Draws
    from autorubric.runs.items_file import read_run

    stored = read_run(run)
    found = label_agreement(stored, stored.dataset, read_history(run), draws=Draws(_REPLICATES, seed=0))
    return {
        "problem": "",
        "judge": _row(found.judge),
        "criteria": [_row(one) for one in found.criteria[:200]],
        "annotators": [_row(one) for one in found.by_annotator],
        "adjudicated": None if found.adjudicated is None else _row(found.adjudicated),
        "more": _MORE,
        "half_width_then": projected_half_width(found.judge, _MORE),
        "weighted": found.weighted,
        "notes": list(found.notes),
        "between": asdict(found.annotators),
    }


def _row(one: Agreement) -> dict[str, Any]:
    interval = one.accuracy.interval
    return {
        "name": one.name,
        "n": one.n,
        "accuracy": one.accuracy.value,
        "interval": None if interval is None else [interval[0], interval[1]],
        "kappa": one.kappa.value,
    }


def main() -> int:
    """Print the figures of the run that is named as JSON."""
    try:
        found = _computed(Path(sys.argv[1]))
    except AutorubricError as error:
        found = {"problem": str(error)}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
