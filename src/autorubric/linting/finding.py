"""Lint rules, the rubrics that they read, and their findings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from autorubric.linting.criterion_words import Phrasing

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the most to the least severe."""

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a rubric.

    Attributes:
        file: the file, as it was named; empty for a rubric in memory.
        row: the line in a JSONL file, or the row in a table or list (from 1), or the index of the item in a dataset
            (from 0, as in messages about datasets); None where the file holds one rubric.
        record: the row's id.
        part: the name of the rubric where a row or dataset has several, such as `rubrics_a`.
    """

    file: str = ""
    row: int | None = None
    record: str = ""
    part: str = ""


class RawOption(NamedTuple):
    """One option of a multi-choice criterion."""

    label: str
    value: float
    na: bool = False


@dataclass(frozen=True)
class RawCriterion:
    """One criterion; `check` is the name and parameters of the check that decides it instead of a judge."""

    text: str
    weight: float = 10.0
    name: str = ""
    options: tuple[RawOption, ...] | None = None
    scale: str = "ordinal"
    check: Mapping[str, Any] | None = None

    @cached_property
    def wording(self) -> Phrasing:
        """The wording, tokenized once for all rules."""
        return Phrasing(self.text)

    @property
    def label(self) -> str:
        """Its label in messages: its name, or its first words."""
        shown = " ".join((self.name or self.text).split())
        return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1].rstrip() + "…"


@dataclass(frozen=True)
class RawRubric:
    """One rubric as it was written, before validation, and its context.

    Attributes:
        criteria: the criteria, in order.
        query: the query of the submissions; empty where it is unknown.
        reference: whether a judge sees a reference submission.
        place: where the rubric is.
        refusals: why grading would reject the rubric, each with the position of its criterion from 1.
    """

    criteria: Sequence[RawCriterion]
    query: str = ""
    reference: bool = False
    place: Location = field(default_factory=Location)
    refusals: Sequence[tuple[int | None, str]] = ()

    @cached_property
    def judged(self) -> list[tuple[int, RawCriterion]]:
        """The criteria that a judge reads, with their positions from 1; those that a check decides are left out."""
        return [(n, c) for n, c in enumerate(self.criteria, 1) if c.check is None and c.text.strip()]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a rubric or of one of its criteria.

    Attributes:
        place: where the rubric is.
        criterion: the position of the criterion, from 1; None for the rubric as a whole.
        name: the name of the criterion, or its first words.
        rule: the id of the rule.
        severity: error, warning or note.
        message: the problem.
        suggestion: how to fix it.

    Example:
        >>> from autorubric import lint
        >>> [(one.severity, one.rule, one.criterion) for one in lint([{"requirement": "Has an apt tone."}])]
        [('warning', 'criteria-count', None), ...]
    """

    place: Location
    criterion: int | None
    name: str
    rule: str
    severity: Severity
    message: str
    suggestion: str

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values, flat.

        Example:
            >>> finding = Finding(Location("r.yaml"), 2, "Tone", "vague-words", "warning", "it is vague", "Say what.")
            >>> sorted(finding.as_dict())
            ['criterion', 'file', 'message', 'name', 'part', 'record', 'row', 'rule', 'severity', 'suggestion']
        """
        fields = asdict(self)
        return {**fields.pop("place"), **fields}

    def line(self) -> str:
        """Return the finding as a line of text.

        Example:
            >>> finding = Finding(Location("r.yaml"), 2, "Tone", "vague-words", "warning", "it is vague", "Say what.")
            >>> finding.line()
            'r.yaml: criterion 2 (Tone): warning: it is vague. Say what. [vague-words]'
        """
        place = self.place
        row = "" if place.row is None else f":{place.row}"
        inside = f" {place.part}:" if place.part else ""
        which = "" if self.criterion is None else f" criterion {self.criterion} ({self.name}):"
        return (
            f"{place.file or 'rubric'}{row}:{inside}{which} {self.severity}: "
            f"{self.message}. {self.suggestion} [{self.rule}]"
        )


class Hit(NamedTuple):
    """A match of a rule: the criterion's position (from 1, None for the rubric), the problem, how to fix it."""

    criterion: int | None
    message: str
    suggestion: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its id, the severity of its findings, a one-sentence summary, and the function that applies it."""

    id: str
    severity: Severity
    summary: str
    find: Callable[[RawRubric], Iterator[Hit]]


def apply_to_judged(
    find: Callable[[RawCriterion], str], problem: str, suggestion: str
) -> Callable[[RawRubric], Iterator[Hit]]:
    """Return a function that applies a rule to each criterion that a judge reads.

    Args:
        find: returns the words of a criterion that are wrong; empty if none are.
        problem: the message, with `{!r}` for these words.
        suggestion: how to fix it.
    """

    def find_hits(rubric: RawRubric) -> Iterator[Hit]:
        for position, criterion in rubric.judged:
            if words := find(criterion):
                yield Hit(position, problem.format(words), suggestion)

    return find_hits
