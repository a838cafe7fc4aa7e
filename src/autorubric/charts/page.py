"""HTML pages that stand alone in a file: without script, fonts or requests."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import DictLoader, StrictUndefined, Template
from jinja2.sandbox import ImmutableSandboxedEnvironment


@cache
def page_template(package: str) -> Template:
    """The template `page.html` of a package; it extends that of `autorubric.charts`, which has the common head."""
    sources = {name: files(name).joinpath("page.html").read_text("utf-8") for name in ("autorubric.charts", package)}
    environment = ImmutableSandboxedEnvironment(
        loader=DictLoader(sources), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(package)
