"""What a synthesis run does to one query, as data: stages, what they read, what they write.

A stage owns three row fields: `<name>` holds its value, `<name>_model` who made it, `<name>_error` why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from autorubric.errors import ConfigError
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable

Fields: TypeAlias = Mapping[str, Any]

STEPS = ("reference", "responses", "rubrics", "merge", "augment")
"""The names of steps 0 to 4, as `--until` takes them."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A value that needs no model, such as the only candidate rubric standing for the merged one."""

    value: Any
    model: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One question a record puts to one model.

    Attributes:
        name: the row field it writes; `<name>_model` and `<name>_error` go with it.
        role: the part the model plays; names the model in the settings.
        step: the step file the field appears in first, 0 to 4.
        reads: the row fields it needs; it starts as soon as the last of them is settled.
        build: the request for a row, or the value or failure that makes a request needless. Pure.
        read: the value in a reply. Pure.
        holds: whether a value found on disk counts as finished.
        empty: what the row shows in the field's place when the stage failed.
    """

    name: str
    role: str
    step: int
    reads: tuple[str, ...]
    build: Callable[[Fields], Request | Settled | Failure]
    read: Callable[[Reply], Answer[Any] | Unreadable]
    holds: Callable[[Any], bool]
    empty: Any = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Stages in an order in which each finds what it reads.

    Raises:
        ConfigError: a stage reads a field that neither the input nor an earlier stage writes, or two stages
            write the same field.
    """

    stages: tuple[Stage, ...]
    given: tuple[str, ...] = ("question",)

    def __post_init__(self) -> None:
        known, problems = set(self.given), list[str]()
        for stage in self.stages:
            if stage.name in known:
                problems.append(f"two stages write {stage.name!r}")
            problems += [
                f"stage {stage.name!r} reads {field!r}, which nothing before it writes"
                for field in stage.reads
                if field not in known
            ]
            known.add(stage.name)
        if problems:
            raise ConfigError(problems)

    @property
    def last_step(self) -> int:
        """The highest step any stage belongs to."""
        return max(stage.step for stage in self.stages)

    def until(self, step: str) -> Plan:
        """The plan cut off after `step` (one of `STEPS`)."""
        if step not in STEPS:
            raise ConfigError(f"no step is called {step!r}; the steps are {', '.join(STEPS)}")
        return Plan(tuple(s for s in self.stages if s.step <= STEPS.index(step)), self.given)

    def roles(self) -> tuple[str, ...]:
        """Every role a model has to play, in the order of the stages."""
        return tuple(dict.fromkeys(stage.role for stage in self.stages))


def letters(count: int) -> tuple[str, ...]:
    """The slot letters of `count` parallel models.

    Example:
        >>> letters(3)
        ('a', 'b', 'c')
    """
    if not 0 <= count <= 26:
        raise ConfigError(f"{count} models for one step; at most 26 fit")
    return tuple(chr(ord("a") + i) for i in range(count))


def failures_in(stages: Iterable[Stage], fields: Fields) -> tuple[str, ...]:
    """The names of the stages that left an error in a row."""
    return tuple(stage.name for stage in stages if fields.get(f"{stage.name}_error"))
