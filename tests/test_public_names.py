import subprocess
import sys

import pytest

import autorubric


@pytest.mark.parametrize("name", autorubric.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(autorubric, name) is not None
    assert name in dir(autorubric)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'autorubric' has no attribute 'Rubrik'"):
        autorubric.Rubrik  # noqa: B018


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
    from autorubric import eval as published
    from autorubric import evaluation

    assert set(published.__all__) == set(evaluation.__all__)
    assert published.EvalRunner is evaluation.EvalRunner
