"""Keys that cannot be printed by accident, and texts with keys taken out."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

HIDDEN = "<hidden>"

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|gsk|xai|hf|pk|rk|fw)[-_][A-Za-z0-9_\-*]{8,}|\bAIza[\w\-]{16,}|(?<=Bearer )[^\s\"',}]{6,}"
)
_ESCAPED_ASCII = re.compile(r"\\(?:u00[2-7]|/)")
_SHORTEST_TOLD_APART = 6


@dataclass(frozen=True, slots=True)
class Secret:
    """A key whose `repr` and `str` do not show it.

    Example:
        >>> key = Secret("sk-planted")
        >>> key, f"{key}"
        (Secret(<hidden>), 'Secret(<hidden>)')
        >>> key.reveal()
        'sk-planted'
    """

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """The key itself, for the Authorization header and nothing else."""
        return self._value

    @property
    def fingerprint(self) -> str:
        """Eight hex digits that tell two keys apart and give neither away."""
        return hashlib.blake2b(self._value.encode(), digest_size=4, person=b"autorubric-key").hexdigest()

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__


_VARIABLE = re.compile(r"[A-Z_]+|(?=[A-Z0-9]*_)[A-Z_][A-Z0-9_]*")
_LONGEST_VARIABLE = 80

NO_VARIABLE = (
    "is not the name of an environment variable that is set; if it is the secret itself, put that into a variable "
    "and give the variable's name, such as OPENAI_API_KEY (the value is not repeated here)"
)


def is_variable_name(text: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether a text can be shown as the name of an environment variable: it is set, or no key looks like it.

    Args:
        text: what was given as a name, and may be the key itself.
        environ: environment variables; those of the process by default.

    Example:
        >>> [is_variable_name(text, {"my_key": "1"}) for text in ("VLLM_API_KEY", "API_KEY_2", "my_key")]
        [True, True, True]
        >>> [is_variable_name(text, {}) for text in ("sk-abc", "my_key", "AKIA0123456789", "")]
        [False, False, False, False]
    """
    environ = os.environ if environ is None else environ
    if not text.isascii() or not text.isprintable():
        return False
    return text in environ or (len(text) <= _LONGEST_VARIABLE and _VARIABLE.fullmatch(text) is not None)


def is_secret_header(name: str) -> bool:
    """True where a header by this name usually carries a credential.

    Example:
        >>> is_secret_header("api-key"), is_secret_header("X-Title")
        (True, False)
    """
    return _SECRET_HEADER.search(name) is not None


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that may be shown and stored, in their order.

    Example:
        >>> without_secrets({"X-Title": "my run", "Authorization": "Bearer sk-planted"})
        {'X-Title': 'my run'}
    """
    return {name: value for name, value in headers.items() if not is_secret_header(name)}


class HiddenHeaders(dict[str, str]):
    """Headers whose `repr`, as debuggers and tracebacks with local variables print it, shows no secret.

    Example:
        >>> HiddenHeaders({"Authorization": "Bearer sk-planted", "X-Title": "run"})
        HiddenHeaders({'Authorization': '<hidden>', 'X-Title': 'run'})
    """

    def __repr__(self) -> str:
        shown = {name: HIDDEN if is_secret_header(name) else value for name, value in self.items()}
        return f"HiddenHeaders({shown!r})"


def redacted(text: str, *secrets: str | None) -> str:
    """`text` with every given secret, and whatever has the shape of a well-known key, replaced.

    Example:
        >>> redacted("Incorrect API key provided: my-own-key-1", "my-own-key-1")
        'Incorrect API key provided: <hidden>'
        >>> redacted("Incorrect API key provided: sk-abcdefgh12345")
        'Incorrect API key provided: <hidden>'
    """
    return _LOOKS_LIKE_A_KEY.sub(HIDDEN, cleared(text, *secrets))


def cleared(text: str, *secrets: str | None) -> str:
    r"""`text` with every given secret replaced, and nothing else: a reply may speak of keys.

    A secret is known in JSON inside the text too, where any character may be written as an escape.

    Example:
        >>> cleared("Keys look like sk-abcdefgh12345, yours is my-own-key-1", "my-own-key-1")
        'Keys look like sk-abcdefgh12345, yours is <hidden>'
        >>> cleared(r'{"said": "my-own-\u006bey-1"}', "my-own-key-1")
        '{"said": "<hidden>"}'
    """
    escaped = _ESCAPED_ASCII.search(text) is not None
    for secret in secrets:
        # A very short "key" such as EMPTY's cousins would turn ordinary words into <hidden>.
        if secret and len(secret) >= _SHORTEST_TOLD_APART:
            text = text.replace(secret, HIDDEN)
            if escaped:
                text = re.sub("".join(map(_plain_or_escaped, secret)), HIDDEN, text)
    return text


def _plain_or_escaped(character: str) -> str:
    """A pattern for a character in JSON text, whose backslashes double each time that the text is quoted in JSON."""
    plain = r"\\{0,8}/" if character == "/" else re.escape(character)
    code = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{ord(character):04x}")
    return rf"(?:{plain}|\\{{1,8}}u{code})"
