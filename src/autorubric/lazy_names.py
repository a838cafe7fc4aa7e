"""Names that a package offers and loads on first use. They are listed once, in the package's type stub.

The method is that of SPEC 1 of Scientific Python. Type checkers and editors read the same stub.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def names_in_stub(file: str) -> dict[str, str]:
    """The module of each name that the type stub of a module imports, by lines `from MODULE import NAME as NAME`.

    Args:
        file: the path of the module itself; the stub is the file next to it that ends in `.pyi`.

    Example:
        >>> import autorubric
        >>> names_in_stub(autorubric.__file__)["Criterion"]
        'autorubric.core.criterion'
    """
    lines = Path(file).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    return {words[3]: words[1] for words in map(str.split, lines) if words[:1] == ["from"] and words[4:5] == ["as"]}


def lazy_names(module: str, file: str) -> tuple[list[str], Callable[[], list[str]], Callable[[str], Any]]:
    """`__all__`, `__dir__` and `__getattr__` of a package whose type stub lists its names.

    Example:
        >>> import autorubric.graders
        >>> names, _, load = lazy_names("autorubric.graders", autorubric.graders.__file__)
        >>> names, load("Grader").__name__
        (['CriterionGrader', 'EscalationConfig', 'Grader', 'JudgeSpec'], 'Grader')
    """
    homes = names_in_stub(file)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return sorted(homes), lambda: sorted({*homes, *vars(import_module(module))}), load
