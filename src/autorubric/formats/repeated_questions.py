"""Which questions of a file are repeated in it or in another split."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from hashlib import blake2b

from autorubric.formats.format import Record
from autorubric.rows.record import as_text

MOST_EXAMPLES = 5


class _WordCharacters(dict[int, str]):
    """For `str.translate`: letters, marks, numbers and symbols stay, each looked up once; all else is a space."""

    def __missing__(self, code: int) -> str:
        kept = self[code] = chr(code) if unicodedata.category(chr(code))[0] in "LMNS" else " "
        return kept


_WORDS = _WordCharacters()


def question_key(record: Record) -> bytes:
    """16 bytes that two records share if they ask the same, ignoring case, spaces and punctuation.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> one, two = (Record((Criterion(requirement="r"),), text) for text in ("Why  so?", "why so"))
        >>> question_key(one) == question_key(two)
        True
    """
    text = unicodedata.normalize("NFKC", as_text(record.prompt)).casefold()
    return blake2b(" ".join(text.translate(_WORDS).split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class Questions:
    """The questions of a file, 16 bytes each, and where they are repeated.

    Attributes:
        repeated: rows whose question an earlier row of the file has.
        leaked: rows whose question another split has: another file, or rows with another value under `split`.
        examples: the first of these, as (place, place of the earlier one).
    """

    repeated: int = 0
    leaked: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    _seen: dict[bytes, tuple[str, str | None]] = field(default_factory=dict)
    _others: dict[bytes, str] = field(default_factory=dict)

    def add_other(self, record: Record, place: str) -> None:
        """Note a question of another file."""
        if record.prompt:
            self._others.setdefault(question_key(record), place)

    def add(self, record: Record, place: str) -> None:
        """Count a question of this file; a record without one is not counted."""
        if not record.prompt:
            return
        key = question_key(record)
        split = record.metadata.get("split")
        name = split if isinstance(split, str) else None
        first, of = self._seen.setdefault(key, (place, name))
        if first != place:
            self.repeated += 1
        elsewhere = self._others.get(key) or (first if of != name else None)
        if elsewhere is not None:
            self.leaked += 1
        if (first != place or elsewhere is not None) and len(self.examples) < MOST_EXAMPLES:
            self.examples.append((place, elsewhere or first))
