"""What lint says about a rubric."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the gravest to the lightest."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rubric stands.

    Attributes:
        file: the file, as it was named; empty for a rubric in memory.
        row: its line in a JSONL file, its row in a parquet file (both from 1), the index of its item in a
            dataset (from 0, as in the messages about datasets); None where the file holds one rubric.
        record: the row's own id.
        part: which of several rubrics of a row or dataset it is, such as `rubrics_a`.
    """

    file: str = ""
    row: int | None = None
    record: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a rubric or one of its criteria.

    Attributes:
        place: where the rubric stands.
        criterion: the position of the criterion, from 1; None for the rubric as a whole.
        name: the name of the criterion, or its first words.
        rule: the id of the rule.
        severity: how grave it is.
        message: what is wrong.
        suggestion: what to do.
    """

    place: Place
    criterion: int | None
    name: str
    rule: str
    severity: Severity
    message: str
    suggestion: str

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON values, flat.

        Example:
            >>> finding = Finding(Place("r.yaml"), 2, "Tone", "vague-words", "warning", "it is vague", "Say what.")
            >>> sorted(finding.as_dict())
            ['criterion', 'file', 'message', 'name', 'part', 'record', 'row', 'rule', 'severity', 'suggestion']
        """
        fields = asdict(self)
        return {**fields.pop("place"), **fields}

    def line(self) -> str:
        """The finding as a line of text.

        Example:
            >>> finding = Finding(Place("r.yaml"), 2, "Tone", "vague-words", "warning", "it is vague", "Say what.")
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
