"""Sections around untrusted texts, with markers that no text can forge.

The code in `<query-3f9c0a7d21be>` is computed from the texts and occurs in none of them, not even in capitals, in
full-width characters or with other characters in between. So no text can close its section or open another, equal
texts give equal prompts (and ledger keys), and nothing needs escaping. Users' templates run in a `Sandbox`.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from autorubric.errors import InputError

CODE_LENGTH = 12
MARKER = re.compile(rf"</?([a-z][a-z0-9_]*)-([0-9a-f]{{{CODE_LENGTH}}})>")
_NO_HEX_DIGIT = bytes(set(range(256)) - set(b"0123456789abcdef"))
_LABEL = re.compile(r"[a-z][a-z0-9_]*\Z")


def collect_texts(value: Any) -> list[str]:
    """Return all strings inside a value of strings, lists and mappings, in order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict | list | tuple):  # a fast check that covers nearly all values
        inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
    elif isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, Iterable):
        inner = value
    else:
        return []
    found: list[str] = []
    for part in inner:
        if type(part) is str:
            found.append(part)
        elif type(part) is not int:
            found += collect_texts(part)
    return found


def section_code(shared: Sequence[str], varying: Sequence[str] = ()) -> str:
    """Compute the code for the sections of one prompt from the `shared` texts; it occurs in none of the texts.

    Prompts that differ only in `varying` texts have the same code, and so a common prefix for the endpoint's cache.
    """
    # With the lengths, different lists of texts stay different after joining.
    whole = "".join([f"{len(text)}:{text}" for text in shared])
    digest = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16)
    spelled = extract_hex_digits("\n".join((*shared, *varying)))
    code = digest.hexdigest()[:CODE_LENGTH]
    while code.encode() in spelled:
        digest.update(b"+")
        code = digest.hexdigest()[:CODE_LENGTH]
    return code


def extract_hex_digits(text: str) -> bytes:
    """Return the hexadecimal digits of a text, in lower case; a text with a code in any spelling contains it here."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return text.encode("ascii", "ignore").lower().translate(None, _NO_HEX_DIGIT)


def fence(content: Any, label: str, code: str) -> str:
    """`content` as a section named `label`; a list of turns becomes a section with one section per turn.

    Raises:
        InputError: the content is neither a string nor a list of `{role, content}` turns.

    Example:
        >>> print(fence("2 + 2?", "query", "3f9c0a7d21be"))
        <query-3f9c0a7d21be>
        2 + 2?
        </query-3f9c0a7d21be>
    """
    if not _LABEL.match(label):
        raise InputError(f"section name {label!r} is not lower-case letters, digits and underscores")
    if not isinstance(content, str):
        content = "\n".join(fence(text, role, code) for role, text in _read_turns(content, label))
    return f"<{label}-{code}>\n{content}\n</{label}-{code}>"


def _read_turns(value: Any, label: str) -> list[tuple[str, str]]:
    if not isinstance(value, Sequence) or not value:
        raise InputError(
            f"section {label!r} got {value!r:.80}; expected a string or a list of {{role, content}} turns"
        )
    turns = []
    for number, turn in enumerate(value, 1):
        role, text = (turn.get("role"), turn.get("content")) if isinstance(turn, Mapping) else (None, None)
        if not (isinstance(role, str) and _LABEL.match(role) and isinstance(text, str)):
            raise InputError(
                f"turn {number} of {label!r} is {turn!r:.80}; expected {{role, content}} with text in both"
            )
        turns.append((role, text))
    return turns


MOST_REPEATED = 10_000
"""Maximum factor in a product, and maximum padding."""


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment for users' templates: no files, no internals; products, powers and padding are small.

    Example:
        >>> Sandbox().from_string("{{ 'x' * 10 ** 10 }}").render()
        Traceback (most recent call last):
        jinja2.exceptions.SecurityError: ...
    """

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)
        del self.globals["lipsum"]
        for name in ("center", "indent"):
            self.filters[name] = _bound_width(name)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Return the value of a product or power of small numbers."""
        if any(not isinstance(side, int | float) or abs(side) > MOST_REPEATED for side in (left, right)):
            raise jinja2.exceptions.SecurityError(f"'{operator}' takes numbers up to {MOST_REPEATED} here")
        return super().call_binop(context, operator, left, right)


def _bound_width(name: str) -> Any:
    inner = FILTERS[name]

    def apply_filter(text: str, width: int = 4, *more: Any, **named: Any) -> str:
        if not isinstance(width, int) or width > MOST_REPEATED:
            raise jinja2.exceptions.SecurityError(f"'{name}' takes a width up to {MOST_REPEATED} here")
        return str(inner(text, width, *more, **named))

    return apply_filter
