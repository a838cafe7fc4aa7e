"""Audit of a file while it is read: whether criteria's wordings agree with their signs, and repeated questions.

Formats disagree on the meaning of a negative weight. Here it marks a pitfall: the criterion describes a fault, and
meeting it costs points. Elsewhere a pitfall is worded "avoids X", and meeting it is good.
"""

import unicodedata
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal, TypeAlias, get_args

from autorubric.core.criterion import Criterion
from autorubric.core.sign_wording import Meaning, find_conflict, read_meaning
from autorubric.errors import InputError
from autorubric.formats.format import Record
from autorubric.rows.record import as_text

Polarity: TypeAlias = Literal["as-is", "met-is-good", "met-is-bad", "audit"]
"""The user's statement on the negative weights of a file."""

MOST_EXAMPLES = 5


@dataclass(slots=True)
class PolarityAudit:
    """Counts the agreement of wordings and signs in a file while it is read.

    Attributes:
        counts: criteria by sign (`positive`, `negative`, `zero`) and wording.
        examples: the first criteria whose wording contradicts their sign, with their places.
        turned: criteria whose sign was changed.
        kept: negative criteria that keep their sign because they are worded as faults.
    """

    counts: Counter[tuple[str, Meaning]] = field(default_factory=Counter)
    examples: list[tuple[str, float, str]] = field(default_factory=list)
    turned: int = 0
    kept: int = 0

    def add(self, record: Record, place: str) -> None:
        """Count the criteria of a record."""
        for criterion in record.criteria:
            sign = "negative" if criterion.weight < 0 else "positive" if criterion.weight else "zero"
            self.counts[sign, read_meaning(criterion.requirement).meaning] += 1
            if find_conflict(criterion.requirement, criterion.weight) and len(self.examples) < MOST_EXAMPLES:
                self.examples.append((place, criterion.weight, criterion.requirement))

    @property
    def contradictions(self) -> int:
        """Criteria whose wording contradicts their sign."""
        return self.counts["negative", "good"] + self.counts["positive", "fault"]


def parse_polarity(name: str) -> Polarity:
    """Return the polarity of this name.

    Raises:
        InputError: the name is unknown.

    Example:
        >>> parse_polarity("as-is")
        'as-is'
    """
    known: tuple[Polarity, ...] = get_args(Polarity)
    found = next((polarity for polarity in known if polarity == name), None)
    if found is None:
        raise InputError(f"polarity is {name!r}; expected one of {', '.join(known)}")
    return found


def convert_polarity(record: Record, polarity: Polarity, audit: PolarityAudit) -> Record:
    """Return the record, converted to our convention if the user stated that the file has another.

    With `met-is-good`, a negative criterion that is not worded as a fault becomes a demand of the same size, because
    meeting it was good in the file. Other polarities change nothing.

    Example:
        >>> record = Record((Criterion(weight=-2, requirement="Avoids jargon."),))
        >>> convert_polarity(record, "met-is-good", PolarityAudit()).criteria[0].weight
        2.0
    """
    if polarity != "met-is-good":
        return record
    return replace(record, criteria=tuple(_convert_sign(criterion, audit) for criterion in record.criteria))


def _convert_sign(criterion: Criterion, audit: PolarityAudit) -> Criterion:
    if criterion.weight >= 0:
        return criterion
    if read_meaning(criterion.requirement).meaning == "fault":
        audit.kept += 1
        return criterion
    audit.turned += 1
    return criterion.model_copy(update={"weight": -criterion.weight})


class _WordCharacters(dict[int, str]):
    """A table for `str.translate` that keeps letters, marks, numbers and symbols; all else becomes a space."""

    def __missing__(self, code: int) -> str:
        kept = self[code] = chr(code) if unicodedata.category(chr(code))[0] in "LMNS" else " "
        return kept


_WORDS = _WordCharacters()


def hash_question(record: Record) -> bytes:
    """Return a digest of 16 bytes of a record's question, ignoring case, spaces and punctuation.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> one, two = (Record((Criterion(requirement="r"),), text) for text in ("Why  so?", "why so"))
        >>> hash_question(one) == hash_question(two)
        True
    """
    text = unicodedata.normalize("NFKC", as_text(record.prompt)).casefold()
    return blake2b(" ".join(text.translate(_WORDS).split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class Questions:
    """The questions of a file, 16 bytes each, and their repetitions.

    Attributes:
        repeated: rows with the question of an earlier row.
        leaked: rows with a question of another split: another file, or rows with another value under `split`.
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
            self._others.setdefault(hash_question(record), place)

    def add(self, record: Record, place: str) -> None:
        """Count a question of this file; a record without one is not counted."""
        if not record.prompt:
            return
        key = hash_question(record)
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
