"""Every target by name."""

from __future__ import annotations

from fuzz import files, replies
from fuzz.target import Target

TARGETS: dict[str, Target] = {**replies.TARGETS, **files.TARGETS}
