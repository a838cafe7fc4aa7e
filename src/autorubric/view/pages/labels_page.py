"""The pages of labelling: the queue, adjudication, and the figures of the labels."""

from typing import Any

from autorubric.errors import InputError
from autorubric.jobs.label_source import LabelChoice
from autorubric.labels.event import check_annotator
from autorubric.labels.label_store import FOLDER, STORE, read_history
from autorubric.llm.records.lock import find_lock_holder
from autorubric.view.index.schema import read_notes
from autorubric.view.label_figures import measure_labels
from autorubric.view.labelling import POLICIES, LabelQueues, describe_dispute, is_unended
from autorubric.view.page import Page, PageQuery, PageRefusal
from autorubric.view.sources import Source

_MOST_DISPUTES = 20


def build_label_page(source: Source, query: PageQuery, labelling: LabelQueues) -> Page:
    """Return the queue of an annotator, or the form that opens it. The pair itself comes with its own request."""
    annotator = _read_annotator(query)
    is_open = labelling.is_open(source)
    with source.reading() as connection:
        found = connection.execute("SELECT criterion, name FROM criteria ORDER BY criterion LIMIT 200")
        names = [row["name"] for row in source.name_apart(connection, found)]
        items, truths = connection.execute("SELECT count(*), total(labelled > 0) FROM items").fetchone()
        truths = 0 if "labels" in read_notes(connection) else int(truths)
    history = read_history(source.directory)
    last = next(reversed(history.draws.values()), None)  # its policy is the default
    data: dict[str, Any] = {
        "open": is_open,
        "unended": is_unended(source),
        "status": source.status,
        "annotator": annotator,
        "holder": None if is_open else find_lock_holder(source.directory / FOLDER),
        "policies": POLICIES,
        "criteria": names,
        "items": items,
        "ground_truths": truths,
        "policy": last.draw.policy if last and last.draw else "",
        "labels": history.annotators(),
    }
    rows = [{"annotator": name, "labels": n} for name, n in data["labels"].items()]
    return Page("label", f"Label {source.name}", data, rows)


def build_adjudication_page(source: Source, query: PageQuery, labelling: LabelQueues) -> Page:
    """Pairs on which annotators differ, their labels side by side; the judge's verdict stays hidden."""
    annotator = _read_annotator(query)
    disputes = [describe_dispute(dispute) for dispute in labelling.find_queue(source).disputes()]
    data = {"annotator": annotator, "count": len(disputes), "disputes": disputes[:_MOST_DISPUTES]}
    rows = [
        {"item": dispute["task"]["item"], "criterion": dispute["task"]["criterion"], **label}
        for dispute in disputes
        for label in dispute["labels"]
    ]
    return Page("adjudicate", f"Adjudicate {source.name}", data, rows)


def build_figures_page(source: Source, query: PageQuery, labelling: LabelQueues) -> Page:
    """How well judge and annotators agree with the labels, and what more labels would bring."""
    store = source.directory / STORE
    own = LabelChoice(labels=[store.parent])
    found = measure_labels(source.directory, own) if store.exists() else None
    found = found or {"problem": "no label was stored yet"}
    data = {"labels": read_history(source.directory).annotators(), "open": labelling.is_open(source), **found}
    rows = [found["judge"], *found["criteria"], *found["annotators"]] if not found["problem"] else []
    return Page("label_figures", f"Labels of {source.name}", data, rows)


def _read_annotator(query: PageQuery) -> str:
    name = query.read_text("annotator")
    try:
        return check_annotator(name) if name else ""
    except InputError as error:
        raise PageRefusal(400, str(error)) from None
