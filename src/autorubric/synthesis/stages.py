"""The plan of a synthesis run for one query, as data: a tuple of stages.

A stage owns three fields of the row: `<name>` has its value, `<name>_model` the model that made it, and
`<name>_error` the reason why there is none. Everything else follows from the stage's entry in the plan: its step
file, its place in the cost estimate, its entry in the manifest and its lines in the summary.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from autorubric.errors import ConfigError
from autorubric.llm.request import Answer, Failure, Model, Reply, Request, Unreadable

if TYPE_CHECKING:
    from autorubric.synthesis.run_summary import RubricCounts
    from autorubric.synthesis.stage_runner import RecordAccess

Fields: TypeAlias = Mapping[str, Any]
Models: TypeAlias = Mapping[str, Model]
Answers: TypeAlias = Sequence[Answer[Any] | Failure]

STEPS = ("reference", "responses", "rubrics", "merge", "augment", "gates")
"""The names of steps 0 to 5, as `--until` accepts them; only the full profile has the last."""

STEP_FILES = (
    *("step0_reference.jsonl", "step1_responses.jsonl", "step2_rubrics.jsonl", "step3_merged.jsonl"),
    *("step4_augmented.jsonl", "step5_gated.jsonl"),
)

HIDDEN_STEP_FILES = tuple(f".{name}" for name in STEP_FILES)
"""The folder in which a run without step files stores the rows of its last step until every row is finished."""

PASSTHROUGH, NO_RESPONSES = "passthrough", "skipped(no responses)"
DERIVED = frozenset({PASSTHROUGH, NO_RESPONSES})
"""Values computed without a model; they are recomputed from the current row, at no cost."""


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """The outcome of one stage of one record.

    Attributes:
        value: the value for the row; None if the stage failed.
        model: the author of the value; empty for the models that were called.
        failure: the reason why there is no value.
        notes: what was ignored or corrected when the replies were read.
        lost: failed calls without which the value was made; the row then counts as unfinished.
    """

    value: Any = None
    model: str = ""
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    lost: tuple[Failure, ...] = ()


class Call(NamedTuple):
    """A request to the model of a slot, and the function that reads its reply."""

    slot: str
    request: Request
    read: Callable[[Reply], Answer[Any] | Unreadable]


@dataclass(frozen=True, slots=True)
class Stage:
    """One field of the row, and how it is computed.

    Attributes:
        name: the field that it writes, together with `<name>_model` and `<name>_error`.
        step: the step file in which the field first appears, 0 to 5.
        reads: the fields that it needs; it starts when all of them exist.
        build: returns the calls for a row, or an outcome if no calls are needed. Pure.
        fold: combines the calls' answers, in order, into an outcome; None uses the value of the only call. Pure.
        slots: every slot that it may call; empty for a stage without a model.
        role: the role of its requests.
        reply_tokens: assumed length of a reply, if the ledger has none.
        example: a plausible value for a row, given the assumed reply length; for estimates.
        finished: whether a value found on disk counts as finished.
        empty: the value in the row if the stage failed.
        only_if: the condition under which it makes calls; empty if it always does.
        work: replaces build and fold if calls depend on earlier replies; `build` returns those known beforehand.
        tally: the name of its counts in the manifest, and the function that makes their counter.
        keys: the three fields that it owns.
    """

    name: str
    step: int
    reads: tuple[str, ...]
    build: Callable[[Fields, Models], Sequence[Call] | StageOutcome]
    fold: Callable[[Fields, Answers], StageOutcome] | None = None
    slots: tuple[str, ...] = ()
    role: str = ""
    reply_tokens: int = 0
    example: Callable[[Fields, float], Any] | None = None
    finished: Callable[[Any], bool] = bool
    empty: Any = None
    only_if: str = ""
    work: Callable[[Fields, RecordAccess], Awaitable[StageOutcome]] | None = None
    tally: tuple[str, Callable[[], RubricCounts]] | None = None
    keys: tuple[str, str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", (self.name, f"{self.name}_model", f"{self.name}_error"))

    def list_calls(self, fields: Fields, models: Models) -> Sequence[Call]:
        """List the distinct calls for a row that are known beforehand; equal requests are sent once."""
        built = self.build(fields, models)
        calls = () if isinstance(built, StageOutcome) else built
        return list({(call.slot, call.request.messages, call.request.draw): call for call in calls}.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """Stages in an order in which each finds the fields that it reads; `last_step` is the highest step of any stage.

    Raises:
        ConfigError: a stage reads a field that neither the input nor an earlier stage writes, or two stages
            write the same field.
    """

    stages: tuple[Stage, ...]
    given: tuple[str, ...] = ("question",)
    last_step: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "last_step", max(stage.step for stage in self.stages))
        known, problems = set(self.given), list[str]()
        for stage in self.stages:
            if stage.name in known:
                problems.append(f"two stages write {stage.name!r}")
            problems += [
                f"stage {stage.name!r} reads {name!r}, which nothing before it writes"
                for name in stage.reads
                if name not in known
            ]
            known.add(stage.name)
        if problems:
            raise ConfigError(problems)

    @property
    def waves(self) -> int:
        """The length of the longest chain of stages that call models."""
        depth: dict[str, int] = {}
        for stage in self.stages:
            depth[stage.name] = max((depth.get(name, 0) for name in stage.reads), default=0) + bool(stage.slots)
        return max(depth.values(), default=0)

    def cut_after(self, step: str) -> Plan:
        """Return the plan cut off after `step` (one of `STEPS` that it has)."""
        steps = STEPS[: self.last_step + 1]
        if step not in steps:
            raise ConfigError(f"unknown step {step!r}; the steps are {', '.join(steps)}")
        return Plan(tuple(s for s in self.stages if s.step <= STEPS.index(step)), self.given)


def list_letters(count: int) -> tuple[str, ...]:
    """Return the slot letters of `count` parallel models."""
    if not 0 <= count <= 26:
        raise ConfigError(f"{count} models for one step; the maximum is 26")
    return tuple(chr(ord("a") + i) for i in range(count))


def query_in(fields: Fields) -> Any:
    """Return the query of a row: its text without surrounding space, or the turns of a conversation."""
    question = fields["question"]
    return question.strip() if isinstance(question, str) else question


def fail_missing(field: str) -> StageOutcome:
    """Return the outcome of a stage whose input is missing because an earlier stage failed."""
    return StageOutcome(failure=Failure("missing_input", f"missing {field}"))


def find_missing(fields: Fields, names: Iterable[str]) -> StageOutcome | None:
    """Return the outcome of a stage that lacks one of these fields; None if it lacks none."""
    return next((fail_missing(name) for name in names if fields.get(name) is None), None)


def has_text(value: Any) -> bool:
    """True for a string that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def has_items(value: Any) -> bool:
    """True for a list with at least one entry."""
    return isinstance(value, list) and bool(value)


def is_list(value: Any) -> bool:
    """True for any list, also an empty one."""
    return isinstance(value, list)
