"""Prompt templates: one Jinja file a prompt, compiled once, filled in one pass."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import jinja2
from jinja2 import meta, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from autorubric.errors import InputError, MissingFileError
from autorubric.prompts.fences import fence, section_code, texts_in

Turn: TypeAlias = tuple[Literal["system", "user"], str]
PACKAGED = "autorubric"

_CODE = "section_code"
_JSON = json.JSONEncoder(ensure_ascii=False)
_BLOCKS: tuple[Literal["system", "user"], ...] = ("system", "user")


class Prompt(Protocol):
    """What a stage needs of a prompt, whichever kind of file it came from."""

    @property
    def name(self) -> str:
        """The prompt's name, as in `rubric`."""
        ...

    @property
    def origin(self) -> str:
        """Where the text came from: `autorubric`, or the path of the user's file."""
        ...

    @property
    def fingerprint(self) -> str:
        """A short hash of name and source: two prompts with one fingerprint are the same prompt."""
        ...

    @property
    def variables(self) -> frozenset[str]:
        """The names of the values that the text uses."""
        ...

    @property
    def counts(self) -> dict[str, int]:
        """How many entries a list value must have, where the text fixes it."""
        ...

    def render(self, **values: Any) -> tuple[Turn, ...]:
        """The filled-in messages as (role, content) pairs, system first."""
        ...


class Template:
    """A prompt in Jinja, compiled once.

    `{% block system %}` and `{% block user %}` become one message each; a file without blocks is a single
    user message. Values are filled in once and never read as template text. `{{ query | fence("query") }}`
    puts an outside text into a section it cannot leave; `{{ sets | json }}` writes a value as JSON.

    Args:
        name: the prompt's name.
        source: the template text.
        origin: where the text came from, for messages and manifests.
        varies: values that differ between requests which should otherwise begin alike (see `section_code`).

    Raises:
        InputError: the source is not a template of this kind.

    Example:
        >>> greet = Template("greet", "Say hello to {{ who }}.")
        >>> greet.render(who="{{ everyone }}")
        (('user', 'Say hello to {{ everyone }}.'),)
    """

    __slots__ = ("_compiled", "_parts", "_varies", "fingerprint", "name", "origin", "source", "variables")

    def __init__(self, name: str, source: str, origin: str = PACKAGED, varies: frozenset[str] = frozenset()) -> None:
        self.name, self.source, self.origin = name, source, origin
        self.fingerprint = source_fingerprint(name, source)
        try:
            tree = _ENVIRONMENT.parse(source)
            self._compiled = _ENVIRONMENT.from_string(tree)
        except jinja2.TemplateError as error:
            line = f":{error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise InputError(f"{_place(name, origin)}{line}: {error.message}") from error
        self._parts = _message_parts(tree, _place(name, origin))
        self.variables = frozenset(meta.find_undeclared_variables(tree) - _ENVIRONMENT.globals.keys())
        self._varies = varies

    @classmethod
    def from_package(cls, name: str, varies: frozenset[str] = frozenset()) -> Template:
        """The template of that name that comes with the package.

        Example:
            >>> sorted(Template.from_package("rubric").variables)
            ['query', 'reference']
        """
        return _packaged(name, varies)

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, varies: frozenset[str] = frozenset()) -> Template:
        """The template in a file; its name is the file's stem unless given.

        Example:
            >>> import tempfile
            >>> file = Path(tempfile.mkdtemp()) / "hello.jinja"
            >>> _ = file.write_text("Hello {{ query }}")
            >>> Template.from_file(file).render(query="you")
            (('user', 'Hello you'),)
        """
        path = Path(path)
        return cls(name or path.stem, read_source(path), str(path), varies)

    @property
    def counts(self) -> dict[str, int]:
        """Nothing: a Jinja template takes lists of any length."""
        return {}

    def render(self, /, **values: Any) -> tuple[Turn, ...]:
        """The filled-in messages as (role, content) pairs, system first; an empty message is left out.

        Raises:
            InputError: a value that the template uses is missing or cannot be shown.
        """
        shared = [text for key, value in values.items() if key not in self._varies for text in texts_in(value)]
        varying = [text for key, value in values.items() if key in self._varies for text in texts_in(value)]
        context = self._compiled.new_context({**values, _CODE: section_code(shared, varying)})
        try:
            if not self._parts:
                return (("user", "".join(self._compiled.root_render_func(context)).removesuffix("\n")),)
            filled = [
                (role, "".join(self._compiled.blocks[role](context)).removesuffix("\n")) for role in self._parts
            ]
        except jinja2.TemplateRuntimeError as error:
            raise InputError(self._missing(values, error)) from error
        return tuple((role, content) for role, content in filled if content)

    def _missing(self, values: dict[str, Any], error: jinja2.TemplateRuntimeError) -> str:
        missing = sorted(self.variables - values.keys())
        what = f"needs {', '.join(map(repr, missing))}" if missing else str(error.message)
        return f"{_place(self.name, self.origin)} {what}; given: {', '.join(values) or 'nothing'}"

    def __repr__(self) -> str:
        return f"Template({self.name!r}, origin={self.origin!r}, fingerprint={self.fingerprint!r})"


def source_fingerprint(name: str, source: str) -> str:
    """The short hash that identifies a prompt.

    Example:
        >>> source_fingerprint("rubric", "a") == source_fingerprint("merge", "a")
        False
    """
    return hashlib.sha256(f"{name}\0{source}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def as_json(value: Any) -> str:
    """A value as JSON in its own script, a list of objects with one a line: easy to read and cheap in tokens.

    Example:
        >>> print(as_json([{"title": "剂量", "weight": 9}, {"title": "Tone", "weight": 2}]))
        [
          {"title": "剂量", "weight": 9},
          {"title": "Tone", "weight": 2}
        ]
    """
    if not isinstance(value, list | tuple) or not value:
        return _JSON.encode(value)
    # Inside a JSON string every quote is escaped, so this run of signs stands between two objects only.
    return "[\n  " + _JSON.encode(value)[1:-1].replace('}, {"', '},\n  {"') + "\n]"


def read_source(path: Path) -> str:
    """The text of a prompt file.

    Raises:
        MissingFileError: there is no such file.
        InputError: the file is blank or not UTF-8.

    Example:
        >>> read_source(Path("no-such.jinja"))
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: no-such.jinja: no such prompt file
    """
    try:
        source = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise MissingFileError(f"{path}: no such prompt file") from error
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from error
    if not source.strip():
        raise InputError(f"{path}: the prompt is blank")
    return source


@cache
def _packaged(name: str, varies: frozenset[str]) -> Template:
    source = files("autorubric.prompts").joinpath(f"{name}.jinja")
    if not source.is_file():
        raise MissingFileError(f"no prompt is called {name!r}")
    return Template(name, source.read_text(encoding="utf-8"), PACKAGED, varies)


def _place(name: str, origin: str) -> str:
    return f"prompt {name!r}" if origin == PACKAGED else origin


def _message_parts(tree: nodes.Template, place: str) -> tuple[Literal["system", "user"], ...]:
    """The message blocks that a template has, in order; none where the whole text is one message."""
    blocks = [block.name for block in tree.find_all(nodes.Block)]
    if not blocks:
        return ()
    problems = [
        f"{place}: unknown block {name!r}; expected system and user" for name in blocks if name not in _BLOCKS
    ]
    if "user" not in blocks:
        problems.append(f"{place}: has no user block")
    loose = (part for output in tree.body if isinstance(output, nodes.Output) for part in output.nodes)
    if any(not isinstance(part, nodes.TemplateData) or part.data.strip() for part in loose):
        problems.append(f"{place}: text outside the system and user blocks would never be sent")
    if problems:
        raise InputError(problems)
    return tuple(role for role in _BLOCKS if role in blocks)


@jinja2.pass_context
def _fence_filter(context: Context, content: Any, label: str) -> str:
    return fence(_defined(content), label, str(context.resolve(_CODE)))


def _json_filter(value: Any) -> str:
    return as_json(_defined(value))


def _defined(value: Any) -> Any:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises the error that names the missing value
    return value


# Sandboxed because prompt folders are passed around between people: a prompt is text, not a program.
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.filters["fence"] = _fence_filter
_ENVIRONMENT.filters["json"] = _json_filter
