"""`autorubric labels`, and what `autorubric agree` prints about labels."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, ClassVar, Self

from pydantic import model_validator

from autorubric.cli.agreement_report import INTERVALS, MetricCell, TableReport, describe_intervals, format_simulation
from autorubric.cli.command import command
from autorubric.errors import InputError, pluralize
from autorubric.files import dump_json
from autorubric.jobs.label_next import TEXTS, LabelledScore
from autorubric.jobs.labels import (
    ExportLabelsSettings,
    ImportLabelsSettings,
    LabelStatus,
    export_labels,
    import_labels,
    label_status,
)
from autorubric.labels.annotators import Annotators
from autorubric.labels.label_agreement import LabelAgreement
from autorubric.metrics.corrected import CorrectedScores
from autorubric.metrics.corrected_rate import Corrections
from autorubric.metrics.intervals import Estimate
from autorubric.metrics.metrics_text import show
from autorubric.metrics.results import CoverageSimulation
from autorubric.metrics.simulated_coverage import CORRECTIONS
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.settings import setting

_EXAMPLES = """
autorubric labels graded
autorubric labels graded --import labels.csv --annotator ana
autorubric labels graded --export labels.csv
"""


class LabelsFlags(ImportLabelsSettings, ExportLabelsSettings):
    """The flags of `autorubric labels`, which covers several functions."""

    json_output: bool = setting(False, "Print the state as JSON.", flag="--json", group="Output")

    needs: ClassVar = {"--import FILE": ("annotator", "column"), "--export FILE": ("final", "force")}

    @model_validator(mode="after")
    def _check_flags(self) -> Self:
        if {"files", "target"} <= self.model_fields_set:
            raise InputError("--import and --export are mutually exclusive; use one of them")
        return self


@command(LabelsFlags, _EXAMPLES)
def labels(settings: LabelsFlags) -> int:
    """Show the labels of a run, or import or export them."""
    if settings.target is not None:
        print(f"wrote {export_labels(settings)}")
        return 0
    if settings.files:
        done = import_labels(settings)
        again = f"; {done.repeated:,} already existed" if done.repeated else ""
        print(f"added {pluralize(done.labels, 'label')}{again}")
        return 0
    found = label_status(settings.run)
    print(dump_json(asdict(found), 2) if settings.json_output else "\n".join(format_label_status(found)))
    return 0


_ZERO = 1e-9
_BINARY = "kappa of the binary ones"


def format_label_status(found: LabelStatus) -> Iterator[str]:
    """Yield the state of the labels, as lines of text."""
    yield f"{pluralize(found.pairs, 'pair')} with labels"
    if found.labelled_items:
        yield f"{pluralize(found.labelled_items, 'item')} with ground truth in the dataset, not counted here"
    for name, count in found.annotators.labels.items():
        yield f"  {name}: {pluralize(count, 'label')}"
    if found.drawn:
        yield f"{pluralize(found.drawn, 'pair')} drawn for labelling, {found.open} without a label"
    if found.annotators.n:
        yield (
            f"{pluralize(found.annotators.n, 'pair')} with two labels or more: {found.annotators.differing} differ, "
            f"{found.decided} adjudicated"
        )
    yield from format_annotators(found.annotators)
    if found.skipped:
        yield f"{found.skipped} skipped"
    if found.changed:
        yield f"{pluralize(found.changed, 'labelled pair')} changed since; their labels are kept but not counted"


_MANY_LABELS = 100
"""From this number of labels on, the normal interval of PPI++ needs no note."""
_METHODS = {"raw": "as judged", **CORRECTIONS}


def show_corrected(
    found: CorrectedScores, confidence: float, simulation: CoverageSimulation | None = None
) -> TableReport:
    """Build the table of the mean score and each criterion's rate: as judged, as labelled, and corrected."""
    rows = [{"metric": name, **_build_cells(corrections)} for name, corrections in _list_corrections(found)]
    drawn = "; valid if the labelled items were drawn at random (Rogan-Gladen also if stratified by label)"
    above = [
        f"{pluralize(found.score.labelled, 'item')} with labels, {found.score.unlabelled} without; "
        f"{INTERVALS.format(100.0 * confidence)}{'' if found.weighted else drawn}",
        "",
    ]
    below = ["", *(f"note: {note}" for note in _list_notes(found))]
    below += format_simulation(simulation) if simulation else ()
    simulated = {} if simulation is None else {"simulation": simulation.model_dump(mode="json")}
    return TableReport(rows, asdict(found) | simulated, above, below)


def show_labels_to_collect(rows: list[dict[str, Any]]) -> TableReport:
    """Return the pairs of item and criterion to label next, as a file to fill in."""
    below = ["", "write a file with --csv, fill in its column verdict, and pass it to labels --import or --labels"]
    return TableReport(rows, rows, (), below, TEXTS)


def show_labelled_score(found: LabelledScore) -> TableReport:
    """Return the mean score estimated from labels collected with `--label-next`."""
    metric = _name_mean_score(found.clamped)
    rows = [{"metric": metric, "n": found.estimate.n, "labels": found.labels, "value": _to_cell(found.estimate)}]
    notes = list(found.notes)
    whole = {"metric": metric, "labels": found.labels, **asdict(found.estimate), "notes": notes}
    return TableReport(rows, whole, (), ["", *(f"note: {note}" for note in notes)] if notes else ())


def show_label_agreement(found: LabelAgreement, confidence: float, by: str = "criterion") -> TableReport:
    """Return the judge against the labels of a label store, by criterion or judge; annotators against each other."""
    judge = found.judge
    if by == "judge" and not found.by_judge:
        raise InputError("--by judge needs a run with several judges; this run has one")
    of_panel = " of the panel" if found.by_judge else ""
    how = "weighted by the probabilities of the draw" if found.weighted else "unweighted"
    above = [
        f"{pluralize(judge.items, 'item')} with labels, {pluralize(judge.n, 'pair')} of label and verdict, {how}; "
        f"{INTERVALS.format(100.0 * confidence)} clustered by item",
        f"accuracy{of_panel} {_to_cell(judge.accuracy)} (majority-class baseline {show(judge.baseline)})"
        + _format_kappas(_to_cell(judge.mean_kappa), _to_cell(judge.kappa), "kappa of all binary pairs"),
    ]
    if found.mean_score is not None:
        above.append(f"{_name_mean_score(found.apart)} {_to_cell(found.mean_score)}, corrected by the labels")
    shown = found.by_judge if by == "judge" else found.criteria
    rows = [
        {by: each.name, "n": each.n, "kappa": _to_cell(each.kappa), "accuracy": _to_cell(each.accuracy),
         "baseline": each.baseline}
        for each in sorted(shown, key=lambda each: (each.kappa.value is None, each.kappa.value or 0.0))
    ]  # fmt: skip
    # κ is 0 if all labels or verdicts are equal, which says nothing about the judge.
    named = [
        (repr(agreement.name), _to_cell(agreement.kappa).interval)
        for agreement in found.criteria
        if abs(agreement.kappa.value or 0) > _ZERO
    ]
    conclusions = describe_intervals(sorted(named, key=lambda pair: pair[0]))
    below = ["", *_format_label_agreement(found), *conclusions, *(f"note: {note}" for note in found.notes)]
    # Where items have their own rubrics, no mean was computed.
    mean = judge.mean_kappa.value if judge.mean_kappa.n else judge.kappa.value
    return TableReport(rows, asdict(found), [*above, ""], below, kappa=mean)


def _format_label_agreement(found: LabelAgreement) -> Iterator[str]:
    decided, judge = found.adjudicated, "panel" if found.by_judge else "judge"
    for agreement in (*found.by_annotator, *((decided,) if decided is not None else ())):
        who = "the adjudicated labels" if agreement is decided else agreement.name
        pairs = pluralize(agreement.n, "pair")
        kappas = _format_kappas(_to_cell(agreement.mean_kappa), _to_cell(agreement.kappa), _BINARY)
        yield f"{judge} and {who}: accuracy {_to_cell(agreement.accuracy)} over {pairs}{kappas}"
    yield from format_annotators(found.annotators)


def format_annotators(found: Annotators) -> Iterator[str]:
    """Yield how much annotators agree with each other; nothing if no pair has two labels."""
    for two in found.by_two:
        kappas = _format_kappas(MetricCell(two.mean_kappa), MetricCell(two.kappa), _BINARY)
        yield f"{two.a} and {two.b}: agree on {two.agreement:.3f} of {pluralize(two.n, 'pair')}{kappas}"
    if found.n:
        alphas = ", ".join(f"{name} {show(alpha)}" for name, alpha in found.by_criterion.items())
        binary = "" if found.alpha is None else f"binary pairs {show(found.alpha)}; "
        yield f"Krippendorff's alpha among annotators: {binary}by criterion: {alphas}"


def _format_kappas(mean: MetricCell, pooled: MetricCell, name: str) -> str:
    """Return the two kappas over several criteria, without one that is undefined while the other is not."""
    both = [("mean kappa", mean), (name, pooled)]
    known = [(named, kappa) for named, kappa in both if kappa.value is not None] or both[:1]
    return "".join(f", {named} {kappa}" for named, kappa in known)


def _list_corrections(found: CorrectedScores) -> list[tuple[str, Corrections]]:
    return [(_name_mean_score(found.apart), found.score), *found.criteria.items()]


def _name_mean_score(apart: int) -> str:
    """Return the name of the mean score; `apart` items have a score that differs from the sum of their criteria."""
    return "mean score before clamping" if apart else "mean score"


def _build_cells(corrections: Corrections) -> dict[str, Any]:
    counts = {"n": corrections.raw.n, "labels": corrections.labelled}
    return counts | {title: _to_cell(getattr(corrections, method)) for method, title in _METHODS.items()}


def _to_cell(estimate: Estimate | None) -> MetricCell:
    if estimate is None:
        return MetricCell(None)
    return MetricCell(estimate.value, ConfidenceInterval.from_interval(estimate.interval))


def _list_notes(found: CorrectedScores) -> Iterator[str]:
    yield from found.notes
    if found.score.labelled < _MANY_LABELS and any(
        corrections.ppi_plus_plus.interval for _, corrections in _list_corrections(found)
    ):
        yield (
            "PPI++ has the published normal interval, which with 30 labels covers a true rate in 76 to 93% of "
            "simulated runs; prefer the post-stratified estimate"
        )
    concerned: dict[str, dict[str, list[str]]] = {}
    for method, title in _METHODS.items():
        for name, corrections in _list_corrections(found):
            estimate: Estimate | None = getattr(corrections, method)
            if estimate is not None and estimate.reason:
                what = f"no {title!r} {'estimate' if estimate.value is None else 'interval'}"
                concerned.setdefault(estimate.reason, {}).setdefault(what, []).append(name)
    for reason, missing in concerned.items():
        affected = (f"{what} for {', '.join(names)}" for what, names in missing.items())
        yield f"{'; '.join(affected)}: {reason}"
