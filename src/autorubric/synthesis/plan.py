"""What a synthesis run does to one query, as data: stages, what they read, what they write.

A stage owns three row fields: `<name>` holds its value, `<name>_model` who made it, `<name>_error` why there is none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from autorubric.errors import ConfigError
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable

if TYPE_CHECKING:
    from autorubric.graders.judge import Ask

Fields: TypeAlias = Mapping[str, Any]

STEPS = ("reference", "responses", "rubrics", "merge", "augment", "gates")
"""The names of steps 0 to 5, as `--until` takes them; only the full method has the last."""

PASSTHROUGH, NO_RESPONSES = "passthrough", "skipped(no responses)"
DERIVED = frozenset({PASSTHROUGH, NO_RESPONSES})
"""Who made a value that no model made: it is made again, and for nothing, from what is there now."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A value that needs no further call, such as the only candidate rubric standing for the merged one.

    Attributes:
        value: what goes into the row.
        model: who made it.
        notes: what had to be overlooked on the way.
        lost: calls that failed and that the value had to do without; the row counts as unfinished.
    """

    value: Any
    model: str
    notes: tuple[str, ...] = ()
    lost: tuple[Failure, ...] = ()


class ModelAccess(Protocol):
    """Where a stage that asks more than once reaches its models."""

    @property
    def item(self) -> str:
        """The id of the record that is worked on."""
        ...

    @property
    def models(self) -> Mapping[str, Model]:
        """The model of every slot."""
        ...

    def is_recorded(self, slot: str, request: Request) -> bool:
        """Whether a whole reply to a request of a slot is recorded."""
        ...

    def ask_as(self, slot: str) -> Ask:
        """How the model of a slot is asked: `Executor.ask_for` for this record."""
        ...


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

    @property
    def slots(self) -> tuple[str, ...]:
        """The one slot it asks."""
        return (self.role,)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Several questions a record puts to one or more models, with one value in the end.

    Attributes:
        name: as in `Stage`; so are `step`, `reads`, `holds` and `empty`.
        slots: every slot it may ask.
        work: the value for a row, asked for through the models it is given.
        requests: slot and request of every call that `work` makes for a row if nothing has to be asked again,
            as far as they can be known beforehand. Pure; for estimates.
        only_if: under which condition it asks; empty where it always does.
    """

    name: str
    step: int
    reads: tuple[str, ...]
    slots: tuple[str, ...]
    work: Callable[[Fields, ModelAccess], Awaitable[Settled | Failure]]
    requests: Callable[[Fields, Mapping[str, Model]], list[tuple[str, Request]]]
    holds: Callable[[Any], bool]
    empty: Any = None
    only_if: str = ""


@dataclass(frozen=True, slots=True)
class Derivation:
    """A value made from what is there, without a model.

    Attributes:
        name: as in `Stage`; so are `step`, `reads`, `holds` and `empty`.
        derive: the value for a row, or why there is none. Pure.
    """

    name: str
    step: int
    reads: tuple[str, ...]
    derive: Callable[[Fields], Settled | Failure]
    holds: Callable[[Any], bool]
    empty: Any = None

    @property
    def slots(self) -> tuple[str, ...]:
        """Nobody is asked."""
        return ()


AnyStage: TypeAlias = Stage | Inquiry | Derivation


@dataclass(frozen=True, slots=True)
class Plan:
    """Stages in an order in which each finds what it reads.

    Raises:
        ConfigError: a stage reads a field that neither the input nor an earlier stage writes, or two stages
            write the same field.
    """

    stages: tuple[AnyStage, ...]
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
        """The plan cut off after `step` (one of `STEPS` that it has)."""
        steps = STEPS[: self.last_step + 1]
        if step not in steps:
            raise ConfigError(f"no step is called {step!r}; the steps are {', '.join(steps)}")
        return Plan(tuple(s for s in self.stages if s.step <= STEPS.index(step)), self.given)

    def roles(self) -> tuple[str, ...]:
        """Every role a model has to play, in the order of the stages."""
        return tuple(dict.fromkeys(slot for stage in self.stages for slot in stage.slots))


def letters(count: int) -> tuple[str, ...]:
    """The slot letters of `count` parallel models.

    Example:
        >>> letters(3)
        ('a', 'b', 'c')
    """
    if not 0 <= count <= 26:
        raise ConfigError(f"{count} models for one step; at most 26 fit")
    return tuple(chr(ord("a") + i) for i in range(count))


def failures_in(stages: Iterable[AnyStage], fields: Fields) -> tuple[str, ...]:
    """The names of the stages that left an error in a row."""
    return tuple(stage.name for stage in stages if fields.get(f"{stage.name}_error"))
