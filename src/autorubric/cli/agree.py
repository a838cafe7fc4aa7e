"""`autorubric agree`: how far a run agrees with its labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.cli.command import is_typed
from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.dataset import RubricDataset

_Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory of `autorubric grade`.")]
_Dataset = Annotated[
    Path | None, typer.Option("--dataset", help="Labels, where they are not in the dataset that was graded.")
]
_By = Annotated[str, typer.Option("--by", help="A row for each criterion, judge or tag.")]
_Against = Annotated[Path | None, typer.Option("--against", help="Another run on the same items, to compare with.")]
_Criteria = Annotated[bool, typer.Option("--criteria", help="What each criterion is worth; needs no labels.")]
_Rollouts = Annotated[int, typer.Option(min=2, max=1_000_000, help="Submissions in a group, for --criteria.")]
_Corrected = Annotated[
    bool, typer.Option("--corrected", help="The scores, corrected with the labels for the judge's errors.")
]
_LabelNext = Annotated[
    int | None, typer.Option("--label-next", min=1, help="So many pairs of item and criterion to label next.")
]
_Labels = Annotated[
    list[Path] | None,
    typer.Option(
        "--labels",
        help="Rows of id, criterion, label; or files of --label-next, filled in, for the mean score; repeatable.",
    ),
]
_Annotator = Annotated[
    str | None, typer.Option("--annotator", help="Whose labels of --labels count, or majority, where they disagree.")
]
_Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="Column of --labels: id, criterion, label or annotator."),
]
_Json = Annotated[bool, typer.Option("--json", help="All figures as JSON.")]
_Csv = Annotated[bool, typer.Option("--csv", help="The table as CSV.")]
_Markdown = Annotated[bool, typer.Option("--md", help="The table as Markdown.")]
_Abstain = Annotated[str, typer.Option("--cannot-assess", help="CANNOT_ASSESS: exclude, as_unmet or as_category.")]
_Na = Annotated[str, typer.Option("--na", help="Option that is not applicable: exclude, as_unmet or as_category.")]
_Confidence = Annotated[float, typer.Option(help="Of the intervals.")]
_Replicates = Annotated[int, typer.Option(min=2, max=1_000_000, help="Of bootstrap and permutation.")]
_Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of bootstrap and permutation.")]


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
    """Say how far a run agrees with the labels of its items: worst criteria first, with intervals."""
    form = _form(json, csv, md)
    if by not in ("criterion", "judge", "tag"):
        raise InputError(f"--by {by!r} is not one of criterion, judge, tag")
    from autorubric.jobs.submissions import label_table, labelled

    table = label_table(labels, annotator, column)
    given = frozenset(name for name in context.params if is_typed(context, name)) - ({"labels"} if table else set())
    _refuse_silent_flags(_question(given), given)
    from autorubric.cli import labelling
    from autorubric.cli.agreement_report import Shown, agreement, comparison, worth
    from autorubric.cli.label_file import labels_in

    options = {"cannot_assess": cannot_assess, "na_mode": na, "confidence_level": confidence, "seed": seed}
    result, truth = _read(run)
    if dataset is not None:
        truth = _relabelled(truth, dataset)
    if table is not None:
        truth, labels = labelled(truth, table), None
    shown: Shown
    if criteria:
        shown = worth(result, truth, rollouts, confidence)
    elif against is not None:
        shown = comparison(result, _read(against)[0], truth, replicates, options)
    elif corrected:
        shown = labelling.corrected(result, truth, confidence)
    elif label_next or labels:
        filled = labels_in(labels or [], truth)
        shown = (
            labelling.to_label(result, truth, label_next, filled, seed)
            if label_next
            else labelling.labelled_score(result, truth, filled, confidence)
        )
    else:
        shown = agreement(result, truth, by, replicates, options)
    print(shown.text(form), end="" if form == "csv" else "\n")
    return 0


_ABSTENTIONS = frozenset({"cannot_assess", "na"})
_HEEDED = {
    "by": _ABSTENTIONS | {"confidence", "replicates", "seed"},
    "criteria": frozenset({"confidence", "rollouts"}),
    "against": _ABSTENTIONS | {"confidence", "replicates", "seed"},
    "corrected": frozenset({"confidence"}),
    "label_next": frozenset({"labels", "seed"}),
    "labels": frozenset({"confidence"}),
}
"""The questions, by the flag that asks them, and the flags that say how; the first is asked without its flag too."""


def _question(given: frozenset[str]) -> str:
    """The flag of what is asked."""
    asked = [name for name in _HEEDED if name in given]
    if asked == ["label_next", "labels"]:
        return "label_next"
    if len(asked) > 1:
        raise InputError(f"{' and '.join(map(_flag, asked))} are different questions; ask one of them")
    return asked[0] if asked else "by"


def _refuse_silent_flags(question: str, given: frozenset[str]) -> None:
    """Refuse flags that the question does not heed: nobody who passes one means it to do nothing."""
    flags = {name: None for heeded in _HEEDED.values() for name in sorted(heeded)}
    silent = [name for name in flags if name in given and name not in {question, *_HEEDED[question]}]
    if silent:
        verb, them = ("says", "it") if len(silent) == 1 else ("say", "them")
        where = f"to {_flag(question)}" if question in given else "here"
        askers = sorted({_flag(asker) for name in silent for asker, heeded in _HEEDED.items() if name in heeded})
        raise InputError(
            f"{', '.join(map(_flag, silent))} {verb} nothing {where}; leave {them} out, or ask {' or '.join(askers)}"
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _form(json: bool, csv: bool, md: bool) -> str:
    chosen = [name for name, given in (("json", json), ("csv", csv), ("md", md)) if given]
    if len(chosen) > 1:
        raise InputError(f"--{' and --'.join(chosen)} exclude each other; give one of them")
    return chosen[0] if chosen else "text"


def _read(run: Path) -> tuple[Any, RubricDataset]:
    """The run, and its own copy of the dataset."""
    from autorubric.dataset import RubricDataset
    from autorubric.runs.experiment import DATASET_FILE
    from autorubric.runs.result import EvalResult

    result = EvalResult.from_experiment(run)
    if not result.item_results:
        raise InputError(f"{run}: no item has been graded yet")
    return result, RubricDataset.from_file(run / DATASET_FILE)


def _relabelled(graded: RubricDataset, path: Path) -> RubricDataset:
    """What was graded with the labels of a file; what does not fit is said on the standard error."""
    from autorubric.jobs.submissions import dataset_in
    from autorubric.metrics.relabelling import relabelled

    labels = dataset_in(path)
    try:
        made, notes = relabelled(graded, labels)
    except InputError as error:
        advice = "Give the labels of what was graded, with the same texts and criteria."
        raise InputError([f"{path}: {problem}" for problem in error.problems], advice) from None
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return made
