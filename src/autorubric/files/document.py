"""One document of a file, by the file's extension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autorubric.errors import InputError
from autorubric.files.strict_json import DEEPEST, blemishes, in_short, is_too_deep, parse_json
from autorubric.files.text import read_text

_EXTENSIONS = (".json", ".yaml", ".yml", ".toml")


def read_document(path: str | Path, *, what: str = "File") -> Any:
    r"""The value in a `.json`, `.yaml`, `.yml` or `.toml` file.

    Args:
        path: the file; its extension (of any case) says how to read it.
        what: the noun for the message about a missing file.

    Raises:
        MissingFileError: there is no such file.
        InputError: it cannot be read, or another extension.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "synth.toml"
        >>> _ = path.write_text('[roles.merge]\nmodel = "openai/gpt-5.1"')
        >>> read_document(path)
        {'roles': {'merge': {'model': 'openai/gpt-5.1'}}}
    """
    extension = Path(path).suffix.lower()
    if extension not in _EXTENSIONS:
        raise InputError(f"{path}: Unsupported file format {extension!r}; expected {', '.join(_EXTENSIONS)}")
    text = read_text(path, what=what)
    if extension == ".json":
        return parse_json(text, str(path))
    if extension == ".toml":
        return parse_toml(text, str(path))
    from autorubric.files.strict_yaml import parse_yaml

    return parse_yaml(text, str(path))


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The table of a TOML text.

    Raises:
        InputError: it is not TOML, or holds a value that JSON does not have.

    Example:
        >>> parse_toml("a = 1", "synth.toml")
        {'a': 1}
    """
    import tomllib

    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its own error, and the one about numbers of thousands of digits
        raise InputError(f"{where}: {in_short(error)}") from None
    if is_too_deep(value):
        raise InputError(f"{where}: nested too deeply; the most is {DEEPEST} levels")
    problems = [f"{where}: {problem}" for problem in blemishes(value)]
    if problems:
        raise InputError(problems)
    return value
