"""Import of labels from files into the store, and export as rows, events or a dataset."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError

from autorubric.dataset import RubricDataset
from autorubric.dataset.label_rows import GivenLabel, ItemFinder
from autorubric.errors import InputError, format_first, warn
from autorubric.expectations import describe_expectation, format_place
from autorubric.files.printable import escape_formula, to_utf8, unescape_formula
from autorubric.labels.event import (
    Event,
    Pair,
    PairFinder,
    check_annotator,
    check_seconds,
    check_text,
    check_verdict,
    find_pair,
)
from autorubric.labels.label_files import LabelFile
from autorubric.labels.label_store import History, LabelStore
from autorubric.labels.weights import describe_tied
from autorubric.rows import name_input, read_rows

Form: TypeAlias = Literal["csv", "jsonl", "dataset"]
FORMS: Mapping[str, Form] = {".csv": "csv", ".jsonl": "jsonl", ".json": "dataset"}
"""Forms by the suffix of the file."""

_EVENTS = TypeAdapter(Event)
_ROW = ("id", "criterion", "label", "annotator", "note", "quote", "seconds", "time", "batch", "policy", "probability")


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        labels: labels that were added.
        repeated: labels that the store had already.
        notes: columns that were guessed, and what was left out.
    """

    labels: int
    repeated: int
    notes: tuple[str, ...] = ()


class LabelsRead(NamedTuple):
    """The labels of files.

    Attributes:
        events: an event for each label; those of an export with their numbers and draws.
        exports: the files among these that `export_labels` wrote.
        notes: columns that were guessed, and what was left out.
    """

    events: tuple[Event, ...]
    exports: tuple[Path, ...]
    notes: tuple[str, ...]


def read_labels(
    dataset: RubricDataset,
    paths: Iterable[Path],
    annotator: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> LabelsRead:
    """Read the labels in files, and match them to the graded dataset.

    Args:
        dataset: the graded dataset.
        paths: CSV or other rows of id, criterion, label; a dataset with ground truth; a JSON export of Argilla or
            Label Studio; or events that `export_labels` wrote.
        annotator: the annotator of labels for which a file names none.
        columns: the columns named by the user, by role.

    Raises:
        InputError: a file cannot be read, or an id, criterion, verdict or annotator is wrong; lists all problems.
    """
    problems: list[str] = []
    events: list[Event] = []
    notes: list[str] = []
    exports: list[Path] = []
    finder, given = PairFinder(dataset), _GivenLabels(dataset, ItemFinder(dataset, notes), annotator, problems)
    for path in paths:
        before = len(events), len(problems)
        if is_events(path):
            exports.append(path)
            events += _read_events(path, dataset, finder, problems)
        else:
            events += given.read_events(LabelFile(path, columns or {}, notes).read_given(dataset, problems))
        if before == (len(events), len(problems)):
            problems.append(f"{name_input(path)}: no labels found")
    if problems:
        raise InputError(problems)
    return LabelsRead(tuple(events), tuple(exports), tuple(notes))


def add_labels(store: LabelStore, labels: LabelsRead, check: Callable[[History], object] | None = None) -> Imported:
    """Add the labels of files to a store, either all or none.

    A label that is already in the store is not added again, so an import may be repeated. Events of an export
    continue those of the store, which may have none, or more than the export.

    `check` may refuse the resulting history.

    Raises:
        InputError: events of an export are not those of the store; or batches were drawn after others that are
            missing, or in another state of the run or store.
        NotSavedError: the disk is full or failed; nothing was added.
    """
    count = len(store.history.events) if labels.exports else 0
    if len(labels.exports) > 1 or labels.events[:count] != (*store.history.events[:count],)[: len(labels.events)]:
        raise InputError(
            f"{labels.exports[-1]}: it contains the labels and draws of another label store, which can only be "
            "imported into an empty label store",
            "Export the labels as CSV to add them to others.",
        )
    fresh = list(_select_new_events(labels.events[count:], store.history))
    if check is not None and fresh:
        every = [*store.history.events, *fresh]
        check(History(replace(event, id=number) for number, event in enumerate(every, start=1)))
    store.append(fresh)
    added = sum(event.kind == "label" for event in fresh)
    replaced = sum(event.kind == "label" and not event.id and event.supersedes is not None for event in fresh)
    notes = [*labels.notes, *[f"{replaced} of them replace an earlier label of the same annotator"] * bool(replaced)]
    return Imported(added, sum(event.kind == "label" for event in labels.events) - added, tuple(notes))


@dataclass
class _GivenLabels:
    """Turns labels of files into events."""

    dataset: RubricDataset
    finder: ItemFinder
    annotator: str | None
    problems: list[str]
    first: dict[tuple[Any, str], tuple[str | None, str]] = field(default_factory=dict)

    def read_events(self, labels: Iterable[GivenLabel]) -> Iterator[Event]:
        """Yield an event for each label; add a problem for each invalid label."""
        nameless: dict[str, None] = {}
        for given in labels:
            try:
                event = self._read_event(given)
            except InputError as error:
                self.problems += (f"{given.where}: {problem}" for problem in error.problems)
                continue
            if not event.annotator:
                nameless[given.where] = None
                continue
            verdict, where = self.first.setdefault((event.key, event.annotator), (event.verdict, given.where))
            if verdict != event.verdict:
                self.problems.append(
                    f"{given.where}: {event.annotator!r} says {event.verdict} here and {verdict} at {where}; keep one"
                )
            yield event
        if nameless:
            ways = "pass --annotator NAME (Python: annotator=), or --column annotator=COLUMN if a column has it"
            self.problems.append(f"{format_first([*nameless], 1)}: the file does not say whose label this is; {ways}")

    def _read_event(self, given: GivenLabel) -> Event:
        pair = find_pair(self.dataset, *self.finder.find(given))
        criterion = self.dataset.get_item_rubric(pair.index)[pair.place]
        seconds = given.seconds
        try:
            seconds = None if seconds is None else float(seconds)
        except (TypeError, ValueError):
            raise InputError(f"seconds={seconds!r}; expected a number of seconds, 0 or more") from None
        verdict = check_verdict(criterion, self.finder.read_verdict(criterion, given.verdict))
        name = unescape_formula(given.annotator) or self.annotator
        return Event(
            0, 0.0, "label", pair.item, pair.criterion, pair.digest, check_annotator(name) if name else "", verdict,
            check_text(unescape_formula(given.note), "note"), check_text(unescape_formula(given.quote), "quote"),
            check_seconds(seconds),
        )  # fmt: skip


def _select_new_events(events: Iterable[Event], history: History) -> Iterator[Event]:
    """Yield the events with new information, each superseding the earlier label."""
    latest: dict[Any, str | None] = {}
    draws = dict(history.draws)
    events = tuple(events)
    first = 1 + max(history.batches, default=-1)  # of the batches that a completed file of --label-next brings
    own_first = min(
        (e.draw.batch for e in events if e.draw is not None and not e.id and e.key not in draws), default=0
    )
    if own_first > len(history.batches):
        raise InputError(
            f"batch {own_first} was drawn after {own_first} others, but only {len(history.batches)} of them are "
            "here, so its probabilities are not valid",
            "Import the completed files in the order of their batches, or all together.",
        )
    for event in events:
        if event.kind == "draw" and event.draw is not None and not event.id:
            if event.key not in draws:
                draws[event.key] = replace(event, draw=replace(event.draw, batch=first + event.draw.batch))
                yield draws[event.key]
            continue
        if event.kind != "label" or event.id:
            yield event
            continue
        own = history.own(event.key, event.annotator)
        key = event.key, event.annotator
        before = latest.get(key, None if own is None else own.verdict)
        if before == event.verdict:
            continue
        latest[key] = event.verdict
        drawn = draws.get(event.key)
        earlier = None if own is None else own.id
        yield replace(event, supersedes=earlier, draw=None if drawn is None else drawn.draw)


def as_history(labels: LabelsRead) -> History:
    """Return the labels of files as a history of their own.

    Raises:
        InputError: an export of events comes with other files.
    """
    if labels.exports and len({*labels.exports}) + any(not event.id for event in labels.events) > 1:
        raise InputError(f"{labels.exports[-1]}: it contains all events of a label store; import it alone")
    return History(replace(event, id=number) for number, event in enumerate(labels.events, start=1))


def is_events(path: Path) -> bool:
    """Return whether a file was written by `labels --export` as events."""
    return _read_first_keys(path) >= {"kind", "digest", "annotator"}


def is_rows(path: Path) -> bool:
    """Return whether a file was written by `labels --export` as rows of labels."""
    return _read_first_keys(path) == {*_ROW}


def _read_first_keys(path: Path) -> set[str]:
    first = next(iter(read_rows(path, [], what="Label file")), None)
    return set() if first is None else {*first.fields}


def _read_events(path: Path, dataset: RubricDataset, finder: PairFinder, problems: list[str]) -> Iterator[Event]:
    """Yield the events of a file that `export_labels` wrote."""
    for number, record in enumerate(read_rows(path, problems, what="Label file"), start=1):
        try:
            event = _EVENTS.validate_json(json.dumps(record.fields), strict=True)
            if event.id != number:
                raise ValueError(f"its id is {event.id}; expected {number}")
            if event.kind != "draw":
                check_annotator(event.annotator)
            pair = finder.find(event)
            if event.verdict is not None and pair is not None:
                check_verdict(dataset.get_item_rubric(pair.index)[pair.place], event.verdict)
        except ValidationError as error:
            problem = "; ".join(
                f"{format_place(error['loc'])}: {describe_expectation(error)}" for error in error.errors()[:3]
            )
            problems.append(f"{record.where}: this is not an event as `labels --export` writes it: {problem}")
            return
        except ValueError as error:
            problems.append(f"{record.where}: this is not an event as `labels --export` writes it: {error}")
            return
        yield event


def format_labels(history: History, dataset: RubricDataset, form: Form, *, final: bool = False) -> Iterator[str]:
    """Yield the labels of a run as text, in parts.

    Args:
        history: the events.
        dataset: the graded dataset.
        form: `csv`: one row per label; `jsonl`: one line per event, with undone labels and draws; `dataset`: the
            graded dataset, with the labels that count as ground truth for items with a label for every criterion.
        final: one row per pair in `csv`: the verdict that counts, without an annotator.

    Raises:
        InputError: there is nothing to export.
    """
    if form == "jsonl":
        if not history.events:
            raise InputError("the run has no labels yet")
        yield from (json.dumps(asdict(event), ensure_ascii=False) + "\n" for event in history.events)
    elif form == "dataset":
        yield build_labelled_dataset(history, dataset).to_json()
    else:
        yield from _format_csv(history, PairFinder(dataset), final=final)


def build_labelled_dataset(history: History, dataset: RubricDataset, annotator: str | None = None) -> RubricDataset:
    """Return the graded dataset; the ground truth of fully labelled items is the labels that count.

    Raises:
        InputError: no item has a label for every criterion.
    """
    finder, found = PairFinder(dataset), dict[int, dict[int, str]]()
    for key in history.labelled():
        pair, verdict = finder.find_key(key), history.verdict(key, annotator, finder.find_criterion(key))
        if pair is not None and verdict is not None and _is_ground_truth(dataset, pair, verdict):
            found.setdefault(pair.index, {})[pair.place] = verdict
    for note in () if annotator else describe_tied(history, finder):
        warn(note)
    items = list(dataset.items)
    whole = {index for index, by_place in found.items() if len(by_place) == len(dataset.get_item_rubric(index))}
    for index in whole:
        truth: list[Any] = [found[index][place] for place in sorted(found[index])]
        items[index] = replace(items[index], ground_truth=truth, ground_truth_reasons=None)
    if all(item.ground_truth is None for item in items):
        raise InputError(
            f"no item has a label for every criterion ({len(found)} have some), so none has ground truth",
            "`autorubric agree RUN` without another mode measures labels of single pairs (Python: "
            "autorubric.label_agreement), and --export FILE.csv or FILE.jsonl writes them.",
        )
    if len(whole) < len(found):
        warn(f"{len(found) - len(whole)} of {len(found)} labelled items have labels for some criteria only; left out")
    return replace(dataset, items=items)


def _is_ground_truth(dataset: RubricDataset, pair: Pair, verdict: str) -> bool:
    """Return whether a verdict can be ground truth: CANNOT_ASSESS cannot on a criterion with options."""
    options = dataset.get_item_rubric(pair.index)[pair.place].options
    return options is None or any(to_utf8(option.label) == verdict for option in options)


def _format_csv(history: History, finder: PairFinder, *, final: bool) -> Iterator[str]:
    yield _format_line(_ROW)
    count = 0
    for key in history.labelled():
        if finder.find_key(key) is None:
            continue
        for event in _select_events(history, key, finder, final=final):
            count += 1
            yield _format_line([escape_formula(value) for value in _list_cells(event, history)])
    if not count:
        raise InputError("no label in the run's label store counts, so there is nothing to export")
    for note in describe_tied(history, finder) if final else ():
        warn(note)


def _select_events(history: History, key: Any, finder: PairFinder, *, final: bool) -> Iterator[Event]:
    labels = history.labels(key)
    if not final:
        yield from labels.values()
        return
    verdict = history.verdict(key, None, finder.find_criterion(key))
    if verdict is not None:
        yield replace(history.decision(key) or next(iter(labels.values())), verdict=verdict, annotator="")


def _list_cells(event: Event, history: History) -> list[Any]:
    drawn = history.draws.get(event.key)
    draw = drawn.draw if drawn is not None else None
    item = event.item
    return [
        item, event.criterion, event.verdict, event.annotator, event.note, event.quote, event.seconds, event.at,
        *((None, None, None) if draw is None else (draw.batch, draw.policy, repr(draw.probability))),
    ]  # fmt: skip


def _format_line(values: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()
