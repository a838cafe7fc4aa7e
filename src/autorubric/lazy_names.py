"""Public names of a package, loaded on first use and listed once, in its type stub (Scientific Python's SPEC 1)."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def read_stub_names(file: str) -> dict[str, str]:
    """Return the home module of each name that a stub imports by a line `from MODULE import NAME as NAME`.

    Args:
        file: the path of the module, next to its `.pyi` stub.

    Example:
        >>> import autorubric
        >>> read_stub_names(autorubric.__file__)["Criterion"]
        'autorubric.core.criterion'
    """
    lines = Path(file).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    return {words[3]: words[1] for words in map(str.split, lines) if words[:1] == ["from"] and words[4:5] == ["as"]}


def build_lazy_names(module: str, file: str) -> tuple[list[str], Callable[[], list[str]], Callable[[str], Any]]:
    """`__all__`, `__dir__` and `__getattr__` of a package whose type stub lists its names.

    Example:
        >>> import autorubric.graders
        >>> names, _, load = build_lazy_names("autorubric.graders", autorubric.graders.__file__)
        >>> names, load("Grader").__name__
        (['CriterionGrader', 'EscalationConfig', 'Grader', 'JudgeSpec'], 'Grader')
    """
    homes = read_stub_names(file)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return sorted(homes), lambda: sorted({*homes, *vars(import_module(module))}), load
