"""`autorubric agree`: judge-human agreement of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.cli.judge_flags import typed
from autorubric.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autorubric.cli.agreement_report import Shown
    from autorubric.dataset import RubricDataset
    from autorubric.evaluation.stored_run import StoredRun

_Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory of `autorubric grade`.")]
_Dataset = Annotated[Path | None, typer.Option("--dataset", help="Dataset with labels, if the graded one has none.")]
_By = Annotated[str, typer.Option("--by", help="Table rows: criterion, judge or tag.")]
_Against = Annotated[Path | None, typer.Option("--against", help="Another run on the same items to compare with.")]
_Criteria = Annotated[
    bool,
    typer.Option(
        "--criteria", help="Analyze each criterion: pass rate, discrimination, redundancy, advice; needs no labels."
    ),
]
_Rollouts = Annotated[int, typer.Option(min=2, max=1_000_000, help="Submissions per training group, for --criteria.")]
_Corrected = Annotated[
    bool, typer.Option("--corrected", help="Correct the scores for the judge's errors, using the labels.")
]
_LabelNext = Annotated[
    int | None,
    typer.Option("--label-next", min=1, help="Suggest the N most informative (item, criterion) pairs to label."),
]
_Labels = Annotated[
    list[Path] | None,
    typer.Option(
        "--labels",
        help="Labels as rows of id, criterion, label, or completed --label-next files for the mean score; repeatable",
    ),
]
_Annotator = Annotated[
    str | None, typer.Option("--annotator", help="Annotator whose labels in --labels count, or majority.")
]
_Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="Column of --labels: id, criterion, label or annotator."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print all metrics as JSON.")]
_Csv = Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")]
_Markdown = Annotated[bool, typer.Option("--md", help="Print the table as Markdown.")]
_Abstain = Annotated[
    str, typer.Option("--cannot-assess", help="How CANNOT_ASSESS counts: exclude, as_unmet or as_category.")
]
_Na = Annotated[str, typer.Option("--na", help="How not-applicable options count: exclude, as_unmet or as_category.")]
_Confidence = Annotated[float, typer.Option(help="Confidence level.")]
_Replicates = Annotated[int, typer.Option(min=2, max=1_000_000, help="Bootstrap and permutation replicates.")]
_Seed = Annotated[
    int, typer.Option(min=0, max=2**63 - 1, help="Random seed of bootstrap, permutation and --label-next.")
]


def agree(
    context: typer.Context,
    run: _Run,
    dataset: _Dataset = None,
    by: _By = "criterion",
    against: _Against = None,
    criteria: _Criteria = False,
    corrected: _Corrected = False,
    label_next: _LabelNext = None,
    labels: _Labels = None,
    annotator: _Annotator = None,
    column: _Column = None,
    json: _Json = False,
    csv: _Csv = False,
    md: _Markdown = False,
    cannot_assess: _Abstain = "exclude",
    na: _Na = "exclude",
    confidence: _Confidence = 0.95,
    rollouts: _Rollouts = 8,
    replicates: _Replicates = 1000,
    seed: _Seed = 0,
) -> int:
    """Report judge-human agreement per criterion, worst first, with confidence intervals."""
    form = _form(json, csv, md)
    if by not in ("criterion", "judge", "tag"):
        raise InputError(f"--by {by!r} is not one of criterion, judge, tag")
    from autorubric.jobs.submissions import label_table, labelled

    table = label_table(labels, annotator, column)
    given = typed(context) - ({"labels"} if table else set())
    _refuse_silent_flags(_question(given), given)
    result = _read(run)
    truth = result.dataset if dataset is None else _relabelled(result.dataset, dataset)
    if table is not None:
        truth, labels = labelled(truth, table), None
    options = {"cannot_assess": cannot_assess, "na_mode": na, "confidence_level": confidence, "seed": seed}
    if criteria:
        shown = _analysis(result, truth, rollouts, confidence)
    elif against is not None:
        shown = _comparison(result, _read(against), truth, replicates, options)
    elif corrected:
        shown = _corrected(result, truth, confidence)
    elif label_next or labels:
        shown = _labelling(result, truth, (label_next, labels, seed), confidence)
    else:
        shown = _agreement(result, truth, by, replicates, options)
    print(shown.text(form), end="" if form == "csv" else "\n")
    return 0


def _agreement(run: StoredRun, truth: RubricDataset, by: str, replicates: int, options: Mapping[str, Any]) -> Shown:
    from autorubric.cli.agreement_report import show_agreement
    from autorubric.metrics.compute import compute_metrics

    found = compute_metrics(run, truth, bootstrap=True, n_bootstrap=replicates, per_judge=by == "judge", **options)
    if found.n_items < 2:
        raise InputError(
            f"only {found.n_items} item has both labels and verdicts; agreement needs two or more, and useful "
            "intervals need 30 or more"
        )
    return show_agreement(found, by)


def _comparison(
    run: StoredRun, other: StoredRun, truth: RubricDataset, replicates: int, options: Mapping[str, Any]
) -> Shown:
    from autorubric.cli.agreement_report import show_comparison
    from autorubric.metrics.compare import compare_judges

    return show_comparison(compare_judges(run, other, truth, n_replicates=replicates, **options))


def _analysis(run: StoredRun, truth: RubricDataset, rollouts: int, confidence: float) -> Shown:
    from autorubric.cli.agreement_report import show_analysis
    from autorubric.metrics.rubric_analysis import analyze_rubric

    return show_analysis(analyze_rubric(run, truth, rollouts=rollouts, confidence=confidence), rollouts)


def _corrected(run: StoredRun, truth: RubricDataset, confidence: float) -> Shown:
    from autorubric.cli.labelling import show_corrected
    from autorubric.metrics.corrected import corrected_scores

    return show_corrected(corrected_scores(run, truth, confidence=confidence), confidence)


def _labelling(
    run: StoredRun, truth: RubricDataset, of: tuple[int | None, list[Path] | None, int], confidence: float
) -> Shown:
    from autorubric.cli.label_file import labels_in
    from autorubric.cli.labelling import show_labelled_score, show_labels_to_collect

    k, files, seed = of
    filled = labels_in(files or [], truth)
    if k:
        return show_labels_to_collect(run, truth, k, filled, seed)
    return show_labelled_score(run, truth, filled, confidence)


_ABSTENTIONS = frozenset({"cannot_assess", "na"})
_HEEDED = {
    "by": _ABSTENTIONS | {"confidence", "replicates", "seed"},
    "criteria": frozenset({"confidence", "rollouts"}),
    "against": _ABSTENTIONS | {"confidence", "replicates", "seed"},
    "corrected": frozenset({"confidence"}),
    "label_next": frozenset({"labels", "seed"}),
    "labels": frozenset({"confidence"}),
}
"""The modes by the flag that selects them, and the flags that each heeds; the first is the default."""


def _question(given: frozenset[str]) -> str:
    """The flag of the selected mode."""
    asked = [name for name in _HEEDED if name in given]
    if asked == ["label_next", "labels"]:
        return "label_next"
    if len(asked) > 1:
        raise InputError(f"{' and '.join(map(_flag, asked))} exclude each other; use one of them")
    return asked[0] if asked else "by"


def _refuse_silent_flags(question: str, given: frozenset[str]) -> None:
    """Refuse flags that the mode ignores."""
    flags = {name: None for heeded in _HEEDED.values() for name in sorted(heeded)}
    silent = [name for name in flags if name in given and name not in {question, *_HEEDED[question]}]
    if silent:
        verb, them = ("has", "it") if len(silent) == 1 else ("have", "them")
        where = f"with {_flag(question)}" if question in given else "here"
        askers = sorted({_flag(asker) for name in silent for asker, heeded in _HEEDED.items() if name in heeded})
        flags_given = ", ".join(map(_flag, silent))
        raise InputError(f"{flags_given} {verb} no effect {where}; leave {them} out, or use {' or '.join(askers)}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _form(json: bool, csv: bool, md: bool) -> str:
    chosen = [name for name, given in (("json", json), ("csv", csv), ("md", md)) if given]
    if len(chosen) > 1:
        raise InputError(f"--{' and --'.join(chosen)} exclude each other; give one of them")
    return chosen[0] if chosen else "text"


def _read(run: Path) -> StoredRun:
    from autorubric.evaluation.stored_run import read_run

    return read_run(run)


def _relabelled(graded: RubricDataset, path: Path) -> RubricDataset:
    """What was graded with the labels of a file; what does not fit is said on the standard error."""
    from autorubric.jobs.submissions import dataset_in
    from autorubric.metrics.joining import relabelled

    labels = dataset_in(path)
    try:
        made, notes = relabelled(graded, labels)
    except InputError as error:
        advice = "Give the labels of what was graded, with the same texts and criteria."
        raise InputError([f"{path}: {problem}" for problem in error.problems], advice) from None
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return made
