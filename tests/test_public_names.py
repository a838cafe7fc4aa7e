import inspect
import pydoc
import subprocess
import sys
from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path

import pytest

import autorubric
from autorubric import compat
from tests.offenders import each


def test_every_public_name_is_there() -> None:
    names = dir(autorubric)
    assert [name for name in names if getattr(autorubric, name, None) is None and not name.startswith("__")] == []
    assert {"grade", "grade_async", "select", "reward", "lint", "convert", "Rubric", "EvalResult"} <= set(names)


def test_names_of_the_published_package_are_names_of_this_one() -> None:
    published = compat.NAMES
    assert [name for name in published if getattr(autorubric, name) is not getattr(compat, name)] == []
    assert set(published).isdisjoint(set(autorubric._NAMES))


def test_a_star_import_brings_every_public_name() -> None:
    found: dict[str, object] = {}
    exec("from autorubric import *", found)
    assert {"LLMConfig", "evaluate", "Rubric", "verdict_to_binary"} <= set(found)
    assert set(autorubric.__all__) == {*autorubric._NAMES, *compat.NAMES} == set(found) - {"__builtins__"}


def test_every_name_that_a_type_stub_lists_is_there() -> None:
    root = Path(autorubric.__file__).parents[1]
    stubs = [".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("autorubric/**/*.pyi")]
    listed = {name.removesuffix(".__init__") for name in stubs}
    assert {"autorubric", "autorubric.compat", "autorubric.metrics", "autorubric.graders"} <= listed
    missing = [
        f"{home}: {name}"
        for home in sorted(listed)
        for name in import_module(home).__all__
        if getattr(import_module(home), name, None) is None
        or (home != "autorubric" and name not in dir(import_module(home)))  # where editors look
    ]
    assert missing == []


def test_help_of_the_package_fits_a_few_screens() -> None:
    shown = pydoc.plain(pydoc.render_doc(autorubric))
    assert shown.count("\n") <= 150
    assert "grade(data, judge=...)" in shown


def test_each_public_function_documents_its_settings() -> None:
    functions = [name for name in dir(autorubric) if name.islower() and f"{name.title()}Settings" in dir(autorubric)]
    assert {"grade", "select", "reward", "serve", "lint", "convert", "status", "drift", "doctor"} <= set(functions)
    wrong = []
    for name in functions:
        model, function = getattr(autorubric, f"{name.title()}Settings"), getattr(autorubric, name)
        if set(inspect.signature(function).parameters) != set(model.model_fields):
            wrong.append(f"{name}: signature")
        wrong += [
            f"{name}: {field} has no help" for field, info in model.model_fields.items() if not info.description
        ]
        wrong += [f"{name} has no docstring"] if not function.__doc__ else []
    assert wrong == []


def test_every_public_class_and_function_has_an_example() -> None:
    public = {name: getattr(autorubric, name) for name in autorubric.__all__}
    documented = {name: value.__doc__ or "" for name, value in public.items() if isclass(value) or isroutine(value)}
    without = {name for name, text in documented.items() if ">>> " not in text}
    assert {name for name in without if f"{name}_sync" not in documented.keys() - without} == set()


def test_signatures_show_as_positional_only_what_a_call_takes_so() -> None:
    shown = {name: inspect.signature(getattr(autorubric, name)) for name in ("convert", "show", "verify", "grade")}
    for name, signature in shown.items():
        kinds = [one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in signature.parameters.values()]
        assert kinds == [True] + [False] * (len(kinds) - 1), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'autorubric' has no attribute 'Rubrik'"):
        autorubric.Rubrik  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, autorubric; "
        "print(sorted({'pydantic', 'yaml', 'numpy', 'pyarrow', 'aiohttp', 'jinja2', 'rich', 'typer'}"
        " & set(sys.modules)))"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert found.stdout.strip() == "[]"


def test_the_published_module_of_evaluation_works() -> None:
    published = import_module("autorubric.eval")
    assert [name for name in published.__all__ if getattr(published, name) is not getattr(autorubric, name)] == []


@each(
    ("module", "names"),
    [
        ("types", "Criterion CriterionJudgment CriterionReport JudgeVote LLMCalls FewShotConfig TokenUsage"),
        ("rubric", "Rubric"),
        ("scoring", "score_reports"),
        ("dataset", "DataItem RubricDataset"),
        ("llm", "LLMConfig ThinkingConfig ThinkingLevel"),
        ("graders", "CriterionGrader EscalationConfig Grader JudgeSpec"),
        ("metrics", "compute_metrics MetricsResult"),
    ],
)
def test_published_modules_hold_their_published_names(module: str, names: str) -> None:
    found = import_module(f"autorubric.{module}")
    for name in names.split():
        thing = getattr(found, name)
        assert thing is getattr(autorubric, name, thing)
    assert set(names.split()) <= set(found.__all__)
    with pytest.raises(AttributeError):
        _ = found.Rubrik


def test_a_model_writes_its_reason_before_its_verdict_in_the_published_shapes() -> None:
    for shape, verdict in (
        (autorubric.CriterionJudgment, "criterion_status"),
        (autorubric.MultiChoiceJudgment, "selected_option"),
    ):
        fields = list(shape.model_json_schema()["properties"])
        assert fields.index("explanation") < fields.index(verdict)
