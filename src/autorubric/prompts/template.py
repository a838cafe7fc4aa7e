"""Prompt templates: one Jinja file per prompt, in a sandbox, compiled once, rendered in one pass."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import jinja2
from jinja2 import meta, nodes
from jinja2.runtime import Context

from autorubric.errors import InputError, MissingFileError
from autorubric.files import read_text
from autorubric.prompts.fences import Sandbox, collect_texts, extract_hex_digits, fence, section_code

Turn: TypeAlias = tuple[Literal["system", "user"], str]
PACKAGED = "autorubric"

LONGEST_SOURCE = 1_000_000

_CODE = "section_code"


def _refuse(value: Any) -> str:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises the error that names the missing value
    raise TypeError(f"{type(value).__name__} has no JSON form")


_JSON = json.JSONEncoder(ensure_ascii=False, default=_refuse)
_BLOCKS: tuple[Literal["system", "user"], ...] = ("system", "user")
_TAIL = "criterion"


_LIST = re.compile(
    r"\bjson[ -]?(?:array|list)\b|\b(?:array|list) of (?:json )?(?:objects|dict)|"
    r"\[\s*\{(?![{%#])|json ?(?:数组|列表)",
    re.IGNORECASE,
)
_OBJECT = re.compile(r"\bjson object\b|\{\s*\"\w+\"\s*:\s*\[", re.IGNORECASE)


def is_list_prompt(source: str) -> bool:
    """Return whether a prompt asks for a bare JSON array, not one in an object."""
    return _LIST.search(source) is not None and _OBJECT.search(source) is None


_MOST_TAILS = 4096
"""Maximum criterion blocks that a template caches."""


class _Tail(NamedTuple):
    """A criterion block with `code` in its markers, and the hexadecimal digits of the texts in it."""

    text: str
    code: str
    digits: bytes


_OPTIONAL = re.compile(r"(\w+) is defined")


class Template:
    """A prompt in Jinja, compiled once.

    `{% block system %}` and `{% block user %}` become one message each; a file without blocks is a single user
    message. Values are never read as template text. `{{ query | fence("query") }}` puts an untrusted text into a
    section it cannot leave; `{{ sets | json }}` writes a value as JSON. `{% block criterion %}` ends the user message
    of prompts with a common prefix; see `begin`.

    Args:
        name: the prompt's name.
        source: the template text.
        origin: where the text came from, for messages and manifests.
        varies: values that differ between requests with a common prefix (see `section_code`).
        system: the system message, in place of the block.

    Attributes:
        fingerprint: a short hash of name and source, which identifies the prompt.
        wants_list: whether this is a user's prompt that asks for a JSON array; ours ask for an object.

    Raises:
        InputError: the source is not a template of this kind.

    Example:
        >>> greet = Template("greet", "Say hello to {{ who }}.")
        >>> greet.render(who="{{ everyone }}")
        (('user', 'Say hello to {{ everyone }}.'),)
    """

    def __init__(
        self,
        name: str,
        source: str,
        origin: str = PACKAGED,
        varies: frozenset[str] = frozenset(),
        system: str | None = None,
    ) -> None:
        self.name, self.source, self.origin = name, source, origin
        self._place = f"prompt {name!r}" if origin == PACKAGED else origin
        self.fingerprint = compute_fingerprint(name, source if system is None else f"{system}\0{source}")
        self.wants_list = origin != PACKAGED and is_list_prompt(source)
        try:
            tree = _ENVIRONMENT.parse(source)
            self._compiled = _ENVIRONMENT.from_string(tree)
            self._globals: dict[str, Any] = dict(self._compiled.globals)
        except jinja2.TemplateError as error:
            line = f":{error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise InputError(f"{self._place}{line}: {error.message}") from error
        except (RecursionError, MemoryError, SyntaxError) as error:  # from the generated Python
            raise InputError(f"{self._place}: nested too deeply") from error
        self._parts = _find_parts(tree, self._place)
        self._tail = _TAIL in self._compiled.blocks
        self._tail_names = _find_tail_names(tree) if self._tail else frozenset[str]()
        self._tails: dict[tuple[Any, ...], _Tail | None] = {}
        self._system, self._varies = system, varies

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a copy is compiled again from the same source."""
        return type(self), (self.name, self.source, self.origin, self._varies, self._system)

    @classmethod
    @cache
    def from_package(cls, name: str, varies: frozenset[str] = frozenset()) -> Template:
        """Return the template of this name that comes with the package.

        Example:
            >>> sorted(Template.from_package("rubric").variables)
            ['chinese', 'query', 'reference']
        """
        source = files("autorubric.prompts").joinpath(f"{name}.jinja")
        if not source.is_file():
            raise MissingFileError(f"unknown prompt {name!r}")
        return cls(name, source.read_text(encoding="utf-8"), PACKAGED, varies)

    @classmethod
    def from_file(cls, path: str | Path, varies: frozenset[str] = frozenset()) -> Template:
        """Return the template in a file; its name is the file's stem.

        Example:
            >>> import tempfile
            >>> file = Path(tempfile.mkdtemp()) / "hello.jinja"
            >>> _ = file.write_text("Hello {{ query }}")
            >>> Template.from_file(file).render(query="you")
            (('user', 'Hello you'),)
        """
        path = Path(path)
        return cls(path.stem, read_source(path), str(path), varies)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of the values that the text uses; finding them takes as long as compiling."""
        tree = _ENVIRONMENT.parse(self.source)
        return frozenset(meta.find_undeclared_variables(tree) - _ENVIRONMENT.globals.keys())

    @property
    def counts(self) -> dict[str, int]:
        """Empty: a Jinja template takes lists of any length."""
        return {}

    def with_system(self, text: str) -> Template:
        """Return this template with `text` as its system message.

        Example:
            >>> Template.from_package("rubric").with_system("Be brief.").render(query="q", reference="r")[0]
            ('system', 'Be brief.')
        """
        return Template(self.name, self.source, self.origin, self._varies, text)

    def reword(self, phrase: str, other: str) -> Template:
        """Return this template with another phrase in place of one that it may have.

        Example:
            >>> Template("greet", "Say hello.").reword("hello", "goodbye").source
            'Say goodbye.'
        """
        return Template(self.name, self.source.replace(phrase, other), self.origin, self._varies, self._system)

    def render(self, /, **values: Any) -> tuple[Turn, ...]:
        """Return the filled-in messages as (role, content) pairs, system first; empty messages are left out.

        Raises:
            InputError: a value that the template uses is missing or cannot be rendered.
        """
        turns, code = self._render_start(values)
        return Beginning(self, values, turns, code).finish() if self._tail else turns

    def begin(self, /, **values: Any) -> Beginning:
        """Return the prompt up to its criterion block, filled in once for all requests with this prefix.

        A template without a criterion block is rendered for each of them. A missing value is an `InputError`.

        Example:
            >>> source = "{% block user %}{{ text }} {% endblock %}{% block criterion %}{{ ask }}{% endblock %}"
            >>> begun = Template("judge", source).begin(text="2 + 2 = 4.")
            >>> [begun.finish(ask=ask)[0][1] for ask in ("Right?", "Brief?")]
            ['2 + 2 = 4. Right?', '2 + 2 = 4. Brief?']
        """
        turns, code = self._render_start(values) if self._tail else ((), "")
        return Beginning(self, values, turns, code)

    def _render_start(self, values: dict[str, Any]) -> tuple[tuple[Turn, ...], str]:
        shared = [text for key, value in values.items() if key not in self._varies for text in collect_texts(value)]
        varying = [text for key, value in values.items() if key in self._varies for text in collect_texts(value)]
        code = section_code(shared, varying)
        given = {**values, _CODE: code}
        if not self._parts:
            return (("user", self._fill(self._compiled.root_render_func, given).removesuffix("\n")),), code
        turns: list[Turn] = []
        for role in self._parts:
            text = self._system if role == "system" else None
            if text is None:
                text = self._fill(self._compiled.blocks[role], given)
            if not (self._tail and role == "user"):
                text = text.removesuffix("\n")
            if text:
                turns.append((role, text))
        return tuple(turns), code

    def _find_tail(self, values: dict[str, Any]) -> _Tail | None:
        """Return the criterion block for these values, cached for any code; None if it depends on more, or on a list.

        Each criterion is asked about for every submission, and only the code of its sections differs.
        """
        try:
            key = tuple([(name, value.__class__, value or None) for name, value in values.items()])
            if key in self._tails:
                return self._tails[key]
        except TypeError:  # a list
            return None
        if len(self._tails) >= _MOST_TAILS:
            self._tails.clear()
        if not self._tail_names <= values.keys():
            return None
        texts = collect_texts(values)
        codes = section_code(texts), section_code([*texts, ""])
        render = self._compiled.blocks[_TAIL]
        one, other = (self._fill(render, {**values, _CODE: code}).removesuffix("\n") for code in codes)
        # A user's template may do more with a section than render it.
        fits = one.replace(*codes) == other
        found = self._tails[key] = _Tail(one, codes[0], extract_hex_digits("\n".join(texts))) if fits else None
        return found

    def _fill(self, render: Callable[[Context], Iterator[str]], given: dict[str, Any]) -> str:
        try:
            # Jinja copies its globals for each context, through a slow chain of maps; this copies them once.
            return "".join(render(self._compiled.new_context({**self._globals, **given}, shared=True)))
        except jinja2.TemplateRuntimeError as error:
            raise InputError(self._describe_missing(given, error)) from error

    def _describe_missing(self, values: dict[str, Any], error: jinja2.TemplateRuntimeError) -> str:
        missing = sorted(self.variables - values.keys() - set(_OPTIONAL.findall(self.source)))
        given = [name for name in values if name != _CODE]
        if not isinstance(error, jinja2.UndefinedError):
            return f"{self._place}: {error.message}"
        what = f"needs {', '.join(map(repr, missing))}" if missing else str(error.message)
        return f"{self._place} {what}; given: {', '.join(given) or 'nothing'}"

    def __repr__(self) -> str:
        return f"Template({self.name!r}, origin={self.origin!r}, fingerprint={self.fingerprint!r})"


class Beginning:
    """A prompt filled in up to its criterion block, from `Template.begin`."""

    __slots__ = ("_code", "_given", "_template", "_turns")

    def __init__(self, template: Template, values: dict[str, Any], turns: tuple[Turn, ...], code: str) -> None:
        self._template, self._turns, self._code = template, turns, code
        self._given = {**values, _CODE: code}

    def finish(self, /, **values: Any) -> tuple[Turn, ...]:
        """Return the complete messages, with these values in the criterion block; `InputError` if one is missing."""
        template = self._template
        tail = template._find_tail(values) if self._turns else None
        if tail is not None and self._code.encode() not in tail.digits:
            return (*self._turns[:-1], ("user", self._turns[-1][1] + tail.text.replace(tail.code, self._code)))
        given = {**self._given, **values}
        if not self._turns or self._code.encode() in extract_hex_digits("\n".join(collect_texts(values))):
            del given[_CODE]
            return template.render(**given)
        text = template._fill(template._compiled.blocks[_TAIL], given).removesuffix("\n")
        return (*self._turns[:-1], ("user", self._turns[-1][1] + text))


def compute_fingerprint(name: str, source: str) -> str:
    """Return the short hash of a name and a source, which identifies a prompt."""
    return hashlib.sha256(f"{name}\0{source}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def as_json(value: Any) -> str:
    """Return a value as JSON without ASCII escapes, a list of objects with one per line.

    Example:
        >>> print(as_json([{"title": "剂量", "weight": 9}, {"title": "Tone", "weight": 2}]))
        [
          {"title": "剂量", "weight": 9},
          {"title": "Tone", "weight": 2}
        ]
    """
    if not isinstance(value, list | tuple) or not value:
        return _JSON.encode(value)
    # Inside a JSON string every quote is escaped, so these characters occur only between two objects.
    return "[\n  " + _JSON.encode(value)[1:-1].replace('}, {"', '},\n  {"') + "\n]"


def read_source(path: Path) -> str:
    """Return the text of a prompt file; an `InputError` if the file is missing, blank, too long or not UTF-8."""
    source = read_text(path, what="Prompt file")
    if len(source) > LONGEST_SOURCE:
        raise InputError(f"{path}: has {len(source)} characters; the longest prompt file has {LONGEST_SOURCE}")
    if not source.strip():
        raise InputError(f"{path}: the prompt is blank")
    return source


def _find_tail_names(tree: nodes.Template) -> frozenset[str]:
    """Return the names of the values that the criterion block uses."""
    body = [node for block in tree.find_all(nodes.Block) if block.name == _TAIL for node in block.body]
    block = nodes.Template(body, lineno=1, environment=_ENVIRONMENT)
    return frozenset(meta.find_undeclared_variables(block) - _ENVIRONMENT.globals.keys())


def _find_parts(tree: nodes.Template, place: str) -> tuple[Literal["system", "user"], ...]:
    """Return the message blocks of a template, in order; none if the whole text is one message."""
    blocks = [block.name for block in tree.find_all(nodes.Block)]
    if not blocks:
        return ()
    problems = [
        f"{place}: unknown block {name!r}; expected system and user"
        for name in blocks
        if name not in (*_BLOCKS, _TAIL)
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
    if isinstance(content, jinja2.Undefined):
        str(content)  # raises the error that names the missing value
    return fence(content, label, str(context.resolve(_CODE)))


_ENVIRONMENT = Sandbox()
_ENVIRONMENT.filters["fence"] = _fence_filter
_ENVIRONMENT.filters["json"] = as_json
