"""Rubrics for language models: from queries to rubrics, grades and training data.

Functions. Commands have the same names, except that `compare`, `agree_pairwise`, `label_next` and `label_agreement`
are modes of `agree`, the other functions of labels are `labels`, and `reward` has no command (`serve` gives rewards
over HTTP):

    synthesize(queries, models=...)  queries -> rubrics (SynthesisResult)
    grade(data, judge=...)         submissions -> scores and reports (EvalResult)
    agree(run, labels=...)         judge-human agreement of a run (MetricsResult)
    agree_pairwise(run)            agreement among judges or of two runs, without labels
    compare(run, against=...)      the agreement of two runs with the same labels
    label_next(run, n=...)         the most informative labels to collect next
    label_agreement(run)           agreement with the labels of the run's label store, weighted where drawn
    import_labels(run, files=...)  labels into the label store; export_labels and label_status likewise
    select(data, ...)              graded answers -> training data (SelectionResult)
    reward(data, judge=...)        submissions -> rewards for a trainer
    serve(judge=...)               rewards over HTTP
    improve(rubric, labels=...)    better wordings and weights, accepted on labels kept aside
    evolve(run, writer=…, judge=…)  rubrics that tell a run's rollouts apart, version by version
    gates(replay=file)             the gates on recorded replies, held against people's labels
    lint(rubrics)                  findings, without a model
    review(rubric, reviewer=...)   findings of a model, with quotes and proposed wordings
    convert(file, target=..., to=...)  rubric data between formats
    merge(shards)                  the shards of a run -> the run
    status(run)                    the state of a run
    show(run, item=...)            one item in full: verdicts, votes, prompts, raw replies
    drift(run)                     how rewards changed during training
    doctor()                       installation, API keys, endpoints

Functions that wait have a twin to await, such as `grade_async`; both work inside a running event loop (a notebook).
Keyword arguments are the fields of a settings model, such as `GradeSettings`. The same names are the flags of the
command, the keys of its `--config` file, and the record in the manifest of the run. `help(autorubric.grade)` shows
them all.

Nouns: Rubric, Criterion, CriterionOption, CriterionVerdict, RubricDataset, DataItem, LLMConfig, JudgeSpec,
CriterionGrader, EvalResult, ItemResult, EvaluationReport, Reward, Finding, InputError.

Every name is loaded when it is first used. The names of the published AutoRubric package work too; those that are not
names of this product's own are listed in `autorubric.compat`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.compat import *  # noqa: F403
    from autorubric.core.criterion import Criterion as Criterion
    from autorubric.core.criterion import CriterionOption as CriterionOption
    from autorubric.core.judgment import CriterionVerdict as CriterionVerdict
    from autorubric.core.report import CriterionReport as CriterionReport
    from autorubric.core.report import EnsembleCriterionReport as EnsembleCriterionReport
    from autorubric.core.report import EnsembleEvaluationReport as EnsembleEvaluationReport
    from autorubric.core.report import EvaluationReport as EvaluationReport
    from autorubric.core.rubric import Rubric as Rubric
    from autorubric.core.scoring import LengthPenalty as LengthPenalty
    from autorubric.dataset import DataItem as DataItem
    from autorubric.dataset import RubricDataset as RubricDataset
    from autorubric.errors import AutorubricError as AutorubricError
    from autorubric.errors import ConfigError as ConfigError
    from autorubric.errors import InputError as InputError
    from autorubric.graders.assembly import JudgeSpec as JudgeSpec
    from autorubric.graders.criterion_grader import CriterionGrader as CriterionGrader
    from autorubric.jobs.agree import AgreeSettings as AgreeSettings
    from autorubric.jobs.agree import CompareSettings as CompareSettings
    from autorubric.jobs.agree import PairwiseSettings as PairwiseSettings
    from autorubric.jobs.agree import agree as agree
    from autorubric.jobs.agree import agree_pairwise as agree_pairwise
    from autorubric.jobs.agree import compare as compare
    from autorubric.jobs.evolve import EvolveResult as EvolveResult
    from autorubric.jobs.evolve import EvolveSettings as EvolveSettings
    from autorubric.jobs.evolve import evolve as evolve
    from autorubric.jobs.evolve import evolve_async as evolve_async
    from autorubric.jobs.gates import GatesResult as GatesResult
    from autorubric.jobs.gates import GatesSettings as GatesSettings
    from autorubric.jobs.gates import gates as gates
    from autorubric.jobs.gates import gates_async as gates_async
    from autorubric.jobs.grade import GradeSettings as GradeSettings
    from autorubric.jobs.grade import grade as grade
    from autorubric.jobs.grade import grade_async as grade_async
    from autorubric.jobs.improve import ImproveResult as ImproveResult
    from autorubric.jobs.improve import ImproveSettings as ImproveSettings
    from autorubric.jobs.improve import improve as improve
    from autorubric.jobs.improve import improve_async as improve_async
    from autorubric.jobs.label_next import LabelNextSettings as LabelNextSettings
    from autorubric.jobs.label_next import label_next as label_next
    from autorubric.jobs.labels import ExportLabelsSettings as ExportLabelsSettings
    from autorubric.jobs.labels import ImportLabelsSettings as ImportLabelsSettings
    from autorubric.jobs.labels import LabelAgreementSettings as LabelAgreementSettings
    from autorubric.jobs.labels import LabelStatusSettings as LabelStatusSettings
    from autorubric.jobs.labels import export_labels as export_labels
    from autorubric.jobs.labels import import_labels as import_labels
    from autorubric.jobs.labels import label_agreement as label_agreement
    from autorubric.jobs.labels import label_status as label_status
    from autorubric.jobs.merge import MergeSettings as MergeSettings
    from autorubric.jobs.merge import merge as merge
    from autorubric.jobs.merge import merge_async as merge_async
    from autorubric.jobs.review import ReviewResult as ReviewResult
    from autorubric.jobs.review import ReviewSettings as ReviewSettings
    from autorubric.jobs.review import review as review
    from autorubric.jobs.review import review_async as review_async
    from autorubric.jobs.reward import RewardSettings as RewardSettings
    from autorubric.jobs.reward import reward as reward
    from autorubric.jobs.reward import reward_async as reward_async
    from autorubric.jobs.rubric_files import ConvertSettings as ConvertSettings
    from autorubric.jobs.rubric_files import LintSettings as LintSettings
    from autorubric.jobs.rubric_files import convert as convert
    from autorubric.jobs.rubric_files import lint as lint
    from autorubric.jobs.select import SelectSettings as SelectSettings
    from autorubric.jobs.select import select as select
    from autorubric.jobs.select import select_async as select_async
    from autorubric.jobs.selection_run import SelectionResult as SelectionResult
    from autorubric.jobs.serve import ServeSettings as ServeSettings
    from autorubric.jobs.serve import serve as serve
    from autorubric.jobs.serve import serve_async as serve_async
    from autorubric.jobs.status import DoctorSettings as DoctorSettings
    from autorubric.jobs.status import DriftSettings as DriftSettings
    from autorubric.jobs.status import ShowSettings as ShowSettings
    from autorubric.jobs.status import StatusSettings as StatusSettings
    from autorubric.jobs.status import doctor as doctor
    from autorubric.jobs.status import doctor_async as doctor_async
    from autorubric.jobs.status import drift as drift
    from autorubric.jobs.status import show as show
    from autorubric.jobs.status import show_async as show_async
    from autorubric.jobs.status import status as status
    from autorubric.jobs.synthesize import SynthesizeSettings as SynthesizeSettings
    from autorubric.jobs.synthesize import synthesize as synthesize
    from autorubric.jobs.synthesize import synthesize_async as synthesize_async
    from autorubric.linting.finding import Finding as Finding
    from autorubric.llm.config import LLMConfig as LLMConfig
    from autorubric.meta import ImprovementConfig as ImprovementConfig
    from autorubric.meta import ImprovementResult as ImprovementResult
    from autorubric.meta import ImprovementRunner as ImprovementRunner
    from autorubric.meta import IssueDetail as IssueDetail
    from autorubric.meta import IterationResult as IterationResult
    from autorubric.meta import improve_rubric as improve_rubric
    from autorubric.runs.progress import ProgressDisplay as ProgressDisplay
    from autorubric.runs.progress import RunState as RunState
    from autorubric.runs.result import EvalResult as EvalResult
    from autorubric.runs.result import ItemResult as ItemResult
    from autorubric.runs.stopping import Stop as Stop
    from autorubric.synthesis.run_summary import SynthesisResult as SynthesisResult
    from autorubric.training.reward import Reward as Reward
    from autorubric.training.reward import RewardRule as RewardRule
    from autorubric.training.rewarder import Sample as Sample
    from autorubric.view.report.job import Report as Report
    from autorubric.view.report.job import ReportSettings as ReportSettings
    from autorubric.view.report.job import VerifySettings as VerifySettings
    from autorubric.view.report.job import report as report
    from autorubric.view.report.job import verify as verify
    from autorubric.view.report.verification import Verification as Verification

    __version__: str

_HOMES = {
    "autorubric.core.criterion": "Criterion CriterionOption",
    "autorubric.core.scoring": "LengthPenalty",
    "autorubric.core.report": ("CriterionReport EnsembleCriterionReport EnsembleEvaluationReport EvaluationReport"),
    "autorubric.core.rubric": "Rubric",
    "autorubric.core.judgment": "CriterionVerdict",
    "autorubric.dataset": "DataItem RubricDataset",
    "autorubric.errors": "AutorubricError ConfigError InputError",
    "autorubric.runs.result": "EvalResult ItemResult",
    "autorubric.graders.criterion_grader": "CriterionGrader",
    "autorubric.graders.assembly": "JudgeSpec",
    "autorubric.jobs.agree": "AgreeSettings CompareSettings PairwiseSettings agree agree_pairwise compare",
    "autorubric.jobs.evolve": "EvolveResult EvolveSettings evolve evolve_async",
    "autorubric.jobs.grade": "GradeSettings grade grade_async",
    "autorubric.jobs.gates": "GatesResult GatesSettings gates gates_async",
    "autorubric.jobs.improve": "ImproveResult ImproveSettings improve improve_async",
    "autorubric.jobs.label_next": "LabelNextSettings label_next",
    "autorubric.jobs.labels": (
        "ExportLabelsSettings ImportLabelsSettings LabelAgreementSettings LabelStatusSettings export_labels "
        "import_labels label_agreement label_status"
    ),
    "autorubric.jobs.merge": "MergeSettings merge merge_async",
    "autorubric.jobs.review": "ReviewResult ReviewSettings review review_async",
    "autorubric.jobs.reward": "RewardSettings reward reward_async",
    "autorubric.jobs.serve": "ServeSettings serve serve_async",
    "autorubric.jobs.rubric_files": "ConvertSettings LintSettings convert lint",
    "autorubric.jobs.select": "SelectSettings select select_async",
    "autorubric.jobs.selection_run": "SelectionResult",
    "autorubric.jobs.status": (
        "DoctorSettings DriftSettings ShowSettings StatusSettings doctor doctor_async drift show show_async status"
    ),
    "autorubric.jobs.synthesize": "SynthesizeSettings synthesize synthesize_async",
    "autorubric.linting.finding": "Finding",
    "autorubric.llm.config": "LLMConfig",
    "autorubric.meta": (
        "ImprovementConfig ImprovementResult ImprovementRunner IssueDetail IterationResult improve_rubric"
    ),
    "autorubric.runs.progress": "ProgressDisplay RunState",
    "autorubric.runs.stopping": "Stop",
    "autorubric.synthesis.run_summary": "SynthesisResult",
    "autorubric.training.reward": "Reward RewardRule",
    "autorubric.training.rewarder": "Sample",
    "autorubric.view.report.job": "Report ReportSettings VerifySettings report verify",
    "autorubric.view.report.verification": "Verification",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """The public name, loaded from its home on first use (PEP 562)."""
    if name == "__version__":
        found: Any = import_module("importlib.metadata").version("autorubric-hub")
    elif name == "__all__" and sys._getframe(1).f_globals.get("__name__") != "pydoc":
        # Star imports need the list; pydoc would print every class in full instead of the overview above.
        found = sorted({*_NAMES, *import_module("autorubric.compat").NAMES})
    elif name in _NAMES:
        found = getattr(import_module(_NAMES[name]), name)
    elif not name.startswith("_") and name in (compat := import_module("autorubric.compat")).NAMES:
        found = getattr(compat, name)
    else:
        raise AttributeError(f"module 'autorubric' has no attribute {name!r}")
    if name != "__all__":
        globals()[name] = found
    return found


def __dir__() -> list[str]:
    own = {"TYPE_CHECKING", "Any", "annotations", "import_module", "sys"}
    return sorted({*globals(), *_NAMES, "__version__"} - own)
