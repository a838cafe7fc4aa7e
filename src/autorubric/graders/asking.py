"""The parts shared by all judges that call a model: options, prompt variables and reply schemas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import starmap
from typing import Any, Literal, TypeAlias

from autorubric.errors import ConfigError
from autorubric.extras import require
from autorubric.graders.few_shot import FewShot
from autorubric.graders.judge import JudgeInput, ShownOptions, as_judged, order_options
from autorubric.llm.request import Message, Model, Reply, ReplySchema, Request, Unreadable, build_reask
from autorubric.prompts.judging import OWN_NUMBER, JudgePrompts, package_judge_prompts
from autorubric.prompts.library import load_schema


@dataclass(frozen=True, slots=True)
class Unsupported(Unreadable):
    """A reply with quotes that are not in the submission: requested again once, then accepted with a flag.

    Attributes:
        quotes: the quotes that were not found; empty if MET came without any.
    """

    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How a judge makes its requests.

    Attributes:
        shuffle_options: show the options of multi-choice criteria in a shuffled order, which each judgment records.
        auto_na_option: add an option for "not applicable" to multi-choice criteria that have none.
        seed: the seed of orders and examples; fixed by default, so that the same submission gives the same prompts
            in every run.
        evidence: ask for quotes, and look for them in the submission.
        few_shot: the source of labelled examples, or None.
        prompts: the templates.
        binary_schema: the schema of replies on binary criteria, instead of the package's.
        choice_schema: likewise for multi-choice criteria.

    Raises:
        ConfigError: the seed is not a whole number.
        MissingPackageError: `evidence` is set and its package is not installed.
    """

    shuffle_options: bool = True
    auto_na_option: bool = True
    seed: int = 0
    evidence: bool = False
    few_shot: FewShot | None = None
    prompts: JudgePrompts = field(default_factory=package_judge_prompts)
    binary_schema: ReplySchema | None = None
    choice_schema: ReplySchema | None = None

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ConfigError(f"seed={self.seed!r}; expected a whole number")
        if self.evidence:
            require(("rapidfuzz",), "evidence", "evidence=True (--evidence)")

    def follow_up(self, request: Request, reply: Reply, problem: Unreadable) -> Request:
        """Return the request after an unusable reply, with that reply and its problem."""
        unfound = list(problem.quotes) if isinstance(problem, Unsupported) else []
        turns = self.prompts.reask.render(problem=problem.message, unfound=unfound)
        return build_reask(request, reply, problem, tuple(starmap(Message, turns)))


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """A judge that asks one model.

    Attributes:
        model: the model.
        judge_id: the id of its judgments.
        weight: its weight in a panel.
        draw: the number of the independent sample of its replies.
        options: how it makes its requests.
    """

    model: Model
    judge_id: str = "default"
    weight: float = 1.0
    draw: int = 0
    options: JudgeOptions = field(default_factory=JudgeOptions)

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """Its own id."""
        return (self.judge_id,)


def collect_values(inputs: JudgeInput, evidence: bool) -> dict[str, Any]:
    """Return the values for every prompt on a submission."""
    return {
        "query": inputs.query,
        "reference": inputs.reference,
        "guidelines": inputs.guidelines,
        "thinking": inputs.thinking,
        "submission": inputs.submission,
        "evidence": evidence,
    }


def show_options(inputs: JudgeInput, index: int, judge_id: str, options: JudgeOptions) -> ShownOptions:
    """Return the options of a multi-choice criterion as this judge sees them."""
    criterion = inputs.criteria[index]
    if options.auto_na_option:
        criterion = as_judged(criterion)
    if not options.shuffle_options:
        return ShownOptions(criterion, tuple(range(len(criterion.options or ()))), shuffled=False)
    return ShownOptions(criterion, order_options(criterion, options.seed, inputs.submission, index, judge_id))


NumberType: TypeAlias = Literal["integer", "number"]


def find_number_type(shown: Sequence[ShownOptions]) -> NumberType | None:
    """Return the type of the numbers of scales among the options; None if there are none."""
    numbers = [number for options in shown if options.scale for number in options.numbers]
    return None if not numbers else "integer" if all(isinstance(number, int) for number in numbers) else "number"


@cache
def load_judgment_schema(
    kind: Literal["binary", "choice"], evidence: bool, number_type: NumberType | None = None
) -> ReplySchema:
    """Return the schema of a reply on one criterion: quotes if `evidence` is set, then explanation, then verdict."""
    name = f"judge_{kind}"
    body = load_schema(name)
    if number_type is not None:
        body["properties"]["selected_option"] |= {"type": number_type, "description": OWN_NUMBER}
    if not evidence:
        del body["properties"]["quotes"]
        body["required"].remove("quotes")
    shape: Mapping[str, Any] = body
    return ReplySchema(name, shape)
