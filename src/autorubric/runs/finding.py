"""One thing that `doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what.
        value: what was found.
        verdict: `ok`, `note` (works, but worth knowing) or `problem`.
        advice: what to do about it, or what it means.
    """

    subject: str
    value: str
    verdict: Verdict = "ok"
    advice: str = ""
