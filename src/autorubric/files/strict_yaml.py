"""Strict YAML.

The scalars are those of YAML 1.2: `yes`, `no`, `on` and `off` are words, a date is text, `010` is ten and
`1e3` is a number. A key given twice is an error, and so are aliases that expand without bound.
"""

import re
from typing import TYPE_CHECKING, Any

import yaml

from autorubric.errors import InputError
from autorubric.files.strict_json import DEEPEST, describe_parse_error, find_json_problems, is_too_deep

MOST_NODES = 2_000_000

_INT = re.compile(r"^[-+]?[0-9]+$|^0o[0-7]+$|^0x[0-9a-fA-F]+$")
_FLOAT = re.compile(
    r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?$|^[-+]?[0-9]+[eE][-+]?[0-9]+$"
    r"|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
)
_SCALARS = (
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    ("tag:yaml.org,2002:int", _INT, "-+0123456789"),
    ("tag:yaml.org,2002:float", _FLOAT, "-+0123456789."),
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:merge", re.compile(r"^<<$"), "<"),
)

if TYPE_CHECKING:
    from yaml import SafeDumper as _FastDumper
    from yaml import SafeLoader as _FastLoader
else:
    _FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _FastDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Loader(_FastLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own way to set resolvers)


class _Dumper(_FastDumper):
    """A dumper that quotes texts that either version of YAML would read as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _construct_integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    digits = str(loader.construct_scalar(node))
    if len(digits) > 4300:  # Python's limit for decimals; other bases have none
        raise ValueError("a whole number has more than 4300 digits")
    return int(digits, {"0x": 16, "0o": 8}.get(digits[:2], 10))


for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, _pattern, list(_first))
    _Dumper.add_implicit_resolver(_tag, _pattern, list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_integer)


def parse_yaml(text: str, where: str = "YAML") -> Any:
    r"""Return the value of a YAML document; the empty document is None.

    Args:
        text: one YAML document.
        where: the head of every message.

    Raises:
        InputError: it is not valid YAML, gives a key twice, holds NaN or infinity, or expands without bound.

    Example:
        >>> parse_yaml("labels: [Yes, No]")
        {'labels': ['Yes', 'No']}
        >>> parse_yaml("weight: 1\nweight: 2", "rubric.yaml")
        Traceback (most recent call last):
        autorubric.errors.InputError: rubric.yaml:2: the key 'weight' is given twice
    """
    if not isinstance(text, str):
        raise InputError(f"{where}: expected a string, got {type(text).__name__}")
    try:
        _refuse_depth(text, where)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            problems = _find_problems(node)
            if problems:
                raise InputError(f"{where}{problem}" for problem in problems)
            value = loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: not valid YAML: {_format_error(error)}") from None
    if is_too_deep(value):  # through aliases, which the text does not show
        raise InputError(f"{where}: aliases are nested too deeply; the maximum is {DEEPEST} levels")
    found = [f"{where}: {problem}" for problem in find_json_problems(value)]
    if found:
        raise InputError(found)
    return value


def dump_yaml(value: Any) -> str:
    r"""`value` as YAML text: keys in their order, every language readable, no aliases.

    Raises:
        InputError: a number is NaN or infinite, a text contains a lone surrogate, or a value has no YAML form.

    Example:
        >>> dump_yaml({"weight": 1.0, "labels": ["Yes", "1e3"]})
        "weight: 1.0\nlabels:\n- 'Yes'\n- '1e3'\n"
    """
    problems = list(find_json_problems(value))
    if problems:
        raise InputError(problems)
    try:
        return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))
    except yaml.YAMLError as error:
        raise InputError(_format_error(error)) from None


def _refuse_depth(text: str, where: str) -> None:
    """Refuse deep nesting before composing: the C library would crash the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                line = f":{event.start_mark.line + 1}" if event.start_mark else ""
                raise InputError(f"{where}{line}: nested too deeply; the maximum is {DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _find_problems(root: yaml.Node) -> list[str]:
    """Return the problems of a node graph, before anything is built from it."""
    problems: list[str] = []
    sizes: dict[int, int] = {}
    opened: set[int] = set()
    stack: list[tuple[yaml.Node, bool]] = [(root, False)]
    while stack:
        node, closing = stack.pop()
        if id(node) in sizes:
            continue
        children = _list_children(node)
        if closing:
            opened.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
            continue
        opened.add(id(node))
        problems.extend(_find_repeated_keys(node))
        if any(id(child) in opened for child in children):
            return [f":{node.start_mark.line + 1}: an alias contains itself"]
        stack.append((node, True))
        stack.extend((child, False) for child in children)
    if sizes[id(root)] > MOST_NODES:
        problems.append(f": aliases unfold to {sizes[id(root)]} nodes; the maximum is {MOST_NODES}")
    return problems


def _list_children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _find_repeated_keys(node: yaml.Node) -> list[str]:
    if not isinstance(node, yaml.MappingNode):
        return []
    seen: set[tuple[str, str]] = set()
    problems = []
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if (key.tag, key.value) in seen:
            problems.append(f":{key.start_mark.line + 1}: the key {key.value!r} is given twice")
        seen.add((key.tag, key.value))
    return problems


def _format_error(error: Exception) -> str:
    return (
        " ".join(describe_parse_error(error).split())
        if isinstance(error, ValueError | RecursionError)
        else format_yaml_error(error)
    )


# PyYAML uses the same name for every text, and its slower reader quotes the line.
_MARK = re.compile(r'\n  in "<unicode string>", (line \d+, column \d+)(?::\n.*\n *\^)?')


def format_yaml_error(error: Exception) -> str:
    """Return a message of PyYAML on one line.

    Example:
        >>> try:
        ...     yaml.safe_load("a: [b")
        ... except yaml.YAMLError as error:
        ...     print(format_yaml_error(error))
        while parsing a flow sequence at line 1, column 4: expected ',' or ']', but got '<stream end>' at line 1, ...
    """
    return " ".join(_MARK.sub(r" at \1", str(error)).replace("\n", ": ").split())
