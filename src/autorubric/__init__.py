"""Rubrics for language models: from queries to rubrics, grades and training data.

Functions:

    synthesize(queries, models=...)     queries -> rubrics (SynthesisResult)
    grade(data, judge=...)              submissions -> scores and reports (EvalResult)
    agree(run, labels=...)              judge-human agreement of a run (MetricsResult)
    agree_pairwise(run)                 agreement among judges or between two runs, without labels
    agree_scores(run, score=...)        how the scores relate to human scores of whole submissions
    compare(run, against=...)           the agreement of two runs with the same labels
    label_next(run, n=...)              the most informative labels to collect next
    label_agreement(run)                agreement with the labels of the run's label store
    import_labels(run, files=...)       labels into the label store; also export_labels, label_status
    select(data, ...)                   graded answers -> training data (SelectionResult)
    reward(data, judge=...)             submissions -> rewards for a trainer
    serve(judge=...)                    rewards over HTTP
    improve(rubric, labels=...)         better wordings and weights, accepted on held-out labels
    evolve(run, writer=..., judge=...)  new criteria that discriminate between a run's rollouts
    gates(replay=file)                  the gates on recorded replies, compared with human labels
    lint(rubrics)                       weak or faulty criteria, found without a model
    review(rubric, reviewer=...)        findings of a model, with quotes and proposed wordings
    convert(file, target=..., to=...)   rubric data between formats
    merge(shards)                       the shards of a run -> the run
    status(run)                         the state of a run
    show(run, item=...)                 one item in full: verdicts, votes, prompts, raw replies
    report(run, out=...)                a run as one file; verify(report, run=...) checks its numbers
    drift(run)                          how rewards changed during training
    doctor()                            installation, API keys, endpoints

Commands have the same names, with these exceptions: `agree` covers `compare`, `agree_pairwise`, `agree_scores`,
`label_next` and `label_agreement`; `labels` covers the other label functions; `reward` has no command.

Functions that call models have an async version, such as `grade_async`; both work inside a running event loop (a
notebook). Keyword arguments are the fields of a settings model, such as `GradeSettings`; the flags of the command and
the keys of its `--config` file have the same names. `help(autorubric.grade)` lists them.

Classes: Rubric, Criterion, CriterionOption, CriterionVerdict, RubricDataset, DataItem, LLMConfig, JudgeSpec,
CriterionGrader, EvalResult, ItemResult, EvaluationReport, Reward, Finding, InputError, Note.

Names of the published AutoRubric package work too; `autorubric.compat` lists those that exist only for compatibility.
Every name is loaded when it is first used.
"""

import sys
from importlib import import_module
from typing import Any

from autorubric.lazy_names import read_stub_names

_NAMES = read_stub_names(__file__)


def __getattr__(name: str) -> Any:
    """A public name, loaded from its module on first use (PEP 562)."""
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
    own = {"Any", "annotations", "import_module", "build_lazy_names", "read_stub_names", "sys"}
    return sorted({*globals(), *_NAMES, "__version__"} - own)
