"""`autorubric agree`: judge-human agreement of a run."""

import sys
from typing import Literal, Self

from pydantic import model_validator

from autorubric.cli import EXIT_SCORE
from autorubric.cli.agreement_report import (
    TableReport,
    show_agreement,
    show_analysis,
    show_comparison,
    show_human_scores,
    show_judges,
)
from autorubric.cli.command import command
from autorubric.errors import InputError
from autorubric.jobs.agree import (
    OF_LABEL_STORES,
    CompareSettings,
    agree_pairwise,
    agree_scores,
    analyze_run,
    compare,
    measure_agreement,
    refuse_simulation,
)
from autorubric.jobs.label_source import find_history, has_completed_files, read_stored_labels
from autorubric.runs.items_file import read_run
from autorubric.settings import setting

_EXAMPLES = """
autorubric agree graded --labels labels.csv
autorubric agree graded --against graded-other
autorubric agree graded --simulate
autorubric agree graded --fail-under 0.6
autorubric agree graded --corrected --simulate
autorubric agree graded --score overall --labels scores.csv
autorubric agree panel --pairwise --by judge
autorubric agree graded --label-next 50 --csv > to_label.csv
"""
_ABSTENTIONS = frozenset({"cannot_assess", "na"})
_HEEDED = {
    "by": _ABSTENTIONS | {"confidence", "replicates", "seed", "simulate", "fail_under"},
    "criteria": frozenset({"confidence", "rollouts"}),
    "against": _ABSTENTIONS | {"confidence", "replicates", "seed"},
    "pairwise": _ABSTENTIONS | {"confidence", "replicates", "seed", "by", "against", "items"},
    "score": frozenset({"confidence"}),
    "corrected": frozenset({"confidence", "seed", "simulate"}),
    "label_next": frozenset({"labels", "seed"}),
    "labels": frozenset({"confidence"}),
}
"""The modes by the flag that selects them, and the flags that each uses; the first is the default."""


class AgreeFlags(CompareSettings):
    """The flags of `autorubric agree`, which covers several functions."""

    by: Literal["criterion", "judge", "tag"] = setting(
        "criterion", "Table rows: criterion, judge or tag.", group="Mode"
    )
    criteria: bool = setting(False, "Analyze each criterion: pass rate, redundancy; needs no labels.", group="Mode")
    pairwise: bool = setting(False, "Compare judges, or two runs with --against; needs no labels.", group="Mode")
    score: str | None = setting(
        None, "Compare with human scores: metadata key, or column of --labels.", metavar="KEY", group="Mode"
    )
    corrected: bool = setting(False, "Correct the scores for the judge's errors, using the labels.", group="Mode")
    label_next: int | None = setting(
        None, "Suggest the N most informative (item, criterion) pairs to label.", metavar="N", group="Mode", ge=1
    )
    rollouts: int = setting(
        8, "Submissions per training group, for --criteria.", group="Statistics", ge=2, le=1_000_000
    )
    fail_under: float | None = setting(
        None, "Exit with status 100 if the mean kappa is below this.", group="Output", ge=-1, le=1
    )
    json_output: bool = setting(False, "Print all metrics as JSON.", flag="--json", group="Output")
    csv: bool = setting(False, "Print the table as CSV.", group="Output")
    md: bool = setting(False, "Print the table as Markdown.", group="Output")

    @model_validator(mode="after")
    def _check_flags(self) -> Self:
        forms = [name for name, given in (("json", self.json_output), ("csv", self.csv), ("md", self.md)) if given]
        if len(forms) > 1:
            raise InputError(f"--{' and --'.join(forms)} are mutually exclusive; pass one of them")
        given = self.model_fields_set
        # Rows of labels fit every mode; completed files are their own mode.
        if "labels" in given and not has_completed_files(self):
            given = given - {"labels"}
        asked = [name for name in _HEEDED if name in given]
        if self.score is not None and (unread := sorted(given & {"dataset", "annotator"})):
            raise InputError(f"{' and '.join(map(_to_flag, unread))} cannot be used with --score")
        if "pairwise" in asked:  # the rows of its table, and the other run
            asked = [name for name in asked if name not in ("by", "against")]
        if asked == ["label_next", "labels"]:
            asked = ["label_next"]
        if len(asked) > 1:
            raise InputError(f"{' and '.join(map(_to_flag, asked))} are mutually exclusive; use one of them")
        mode = asked[0] if asked else "by"
        flags = {name: None for heeded in _HEEDED.values() for name in sorted(heeded)}
        ignored = [name for name in flags if name in given and name not in {mode, *_HEEDED[mode]}]
        if ignored:
            verb, them = ("has", "it") if len(ignored) == 1 else ("have", "them")
            where = f"with {_to_flag(mode)}" if mode in given else "here"
            users = {_to_flag(user) for name in ignored for user, heeded in _HEEDED.items() if name in heeded}
            more = f", or use {' or '.join(sorted(users - {'--by'}))}" if users - {"--by"} else ""
            raise InputError(f"{', '.join(map(_to_flag, ignored))} {verb} no effect {where}; leave {them} out{more}")
        return self


@command(AgreeFlags, _EXAMPLES)
def agree(settings: AgreeFlags) -> int:
    """Report judge-human agreement per criterion, with confidence intervals."""
    form = "json" if settings.json_output else "csv" if settings.csv else "md" if settings.md else "text"
    report, least = _choose_report(settings), settings.fail_under
    print(report.render(form), end="" if settings.csv else "\n")
    if least is not None and (report.kappa is None or round(report.kappa, 12) < least):
        shown = "undefined" if report.kappa is None else f"{report.kappa:.12g}, below {least:.12g}"
        print(f"--fail-under: the mean kappa is {shown}", file=sys.stderr)
        return EXIT_SCORE
    return 0


def _choose_report(settings: AgreeFlags) -> TableReport:
    if settings.criteria or settings.score is not None:
        return _report_criteria(settings)
    if settings.corrected or settings.label_next is not None or (settings.labels and has_completed_files(settings)):
        return _report_labels(settings)
    if settings.pairwise:
        return show_judges(agree_pairwise(settings), settings.by)
    run = read_run(settings.run)
    store, judges = find_history(settings, run), (run.grader_config or {}).get("judges")
    may_have_labels = store is not None or settings.labels or settings.dataset is not None
    needs_labels = settings.by == "tag" or settings.fail_under is not None
    several_judges = settings.against is not None or (isinstance(judges, list) and len(judges) > 1)
    # Without labels, judges are compared with each other.
    is_labelled = may_have_labels or any(item.ground_truth is not None for item in run.dataset.items)
    if several_judges and not is_labelled and not needs_labels:
        return show_judges(agree_pairwise(settings), settings.by)
    if store is not None or settings.against is not None:
        return show_comparison(compare(settings)) if settings.against is not None else _report_label_store(settings)
    by_judge = settings.model_copy(update={"per_judge": settings.by == "judge"})
    return show_agreement(measure_agreement(run, read_stored_labels(run, settings, store), by_judge), settings.by)


def _report_criteria(settings: AgreeFlags) -> TableReport:
    """Return the table of criteria by themselves, or against human scores."""
    if settings.criteria:
        return show_analysis(analyze_run(settings, settings.rollouts), settings.rollouts)
    given = {name: getattr(settings, name) for name in ("score", "labels", "column", "confidence")}
    return show_human_scores(agree_scores(settings.run, **given))


def _report_label_store(settings: AgreeFlags) -> TableReport:
    """Agreement with the labels of a label store; labels of drawn pairs are weighted."""
    from autorubric.cli.labels import show_label_agreement
    from autorubric.jobs.labels import label_agreement

    refuse_simulation(settings, OF_LABEL_STORES)
    if settings.by == "tag":
        raise InputError(
            f"--by {settings.by} has no table for labels of a label store; leave it out, or export the labels "
            "(`autorubric labels RUN --export labels.csv`) and pass the file to --labels"
        )
    return show_label_agreement(label_agreement(settings), settings.confidence, settings.by)


def _report_labels(settings: AgreeFlags) -> TableReport:
    """Return what labels say about scores, and which labels to collect next."""
    from autorubric.cli.labels import show_corrected, show_labelled_score, show_labels_to_collect
    from autorubric.jobs.label_next import estimate_labelled_score, label_next
    from autorubric.jobs.labels import correct_scores

    if settings.corrected:
        found, simulated = correct_scores(settings)
        return show_corrected(found, settings.confidence, simulated)
    if settings.label_next is None:
        return show_labelled_score(estimate_labelled_score(settings, settings.confidence))
    given = {name: getattr(settings, name) for name in ("dataset", "labels", "annotator", "column")}
    return show_labels_to_collect(label_next(settings.run, n=settings.label_next, seed=settings.seed, **given))


def _to_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
