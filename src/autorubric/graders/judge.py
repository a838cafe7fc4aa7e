"""The input of judges, the order of options, the interface of every judge, and how judges reach models."""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b, sha256
from itertools import count, starmap
from random import Random
from typing import Any, Protocol, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import Judgment
from autorubric.llm.executor import FollowUp
from autorubric.llm.records.call_rows import encode_identity
from autorubric.llm.request import Answer, Failure, Message, Model, Reply, Request, Unreadable, build_reask
from autorubric.prompts.library import package_prompts

_NUMBER = re.compile(r"\W*+(?:option|选项)?\W*+(\d{1,3})\b", re.IGNORECASE)
UNCHECKED = re.compile(r"\[\s*\]")  # an empty box, as in "[ ] MET"
_MARK = r"[\s*_`\"'“”‘’(\[#:：)\]]*+"  # none that changes a number, as in "-2", "2+" and ">2"
_FULL_NUMBER = re.compile(rf"(?:{_MARK}(?:option|no\.|选项))?{_MARK}(\d{{1,3}})(?:\.0+)?\.?{_MARK}\.?", re.IGNORECASE)
_OWN = r"(?P<number>[-+−–]?(?:\d{1,9}(?:[.,]\d{1,2})?|0[.,]\d{1,9}))(?![.,]?\d|[^\W\u3040-\uffef])"
_WORD = r"(?:(?P<word>[^\W\d_]{1,20}) ?)?"
_OWN_NUMBER = re.compile(
    rf"^{_MARK}{_WORD}{_OWN}(?!\s*(?:[-–—~～〜]|to|or|and|bis|oder|ou|至|到|或)\s*[-+−]?\d)", re.IGNORECASE
)
"""The number with which a label begins, also after a word ("Level 2"): not "1-2", "1st" or "1,000"."""
_DIGITS_FIRST = re.compile(rf"{_MARK}{_WORD}[-+−–]?\d")
REPLIED = re.compile(rf"(?:{_MARK}(?:option|no\.|选项))?{_MARK}{_OWN}", re.IGNORECASE)
MENTIONED = re.compile(
    r"(?:\b(?:option|choice|answer)(?: is| should be| to)?|选项)\W{0,4}?"
    r"(?P<number>(?:(?<=\s)[-−])?\d{1,3}(?:\.\d+)?)(?!\d|\s*(?:[%/|,]|or\b))",
    re.IGNORECASE,
)
"""An option in a sentence."""
_OUT_OF = re.compile(rf"\s*(?:points?|分)?\s*(?:(?:/|out of|of)\s*(?P<most>\d{{1,9}}))?\.?{_MARK}\.?", re.IGNORECASE)
_SEPARATORS = " .:：=()[]-–—\t\"'*"
_MOST_LISTED = 21


def order_options(criterion: Criterion, seed: int, text: str, index: int, judge_id: str) -> tuple[int, ...]:
    """Return the original index of the option at each displayed position.

    The same arguments always give the same order, so that a prompt sent earlier is found in the ledger. Options whose
    labels begin with a number keep their order.

    Args:
        criterion: the multi-choice criterion, as it is judged.
        seed: another seed gives other orders.
        text: the submission.
        index: the index of the criterion in its rubric.
        judge_id: judges of a panel see different orders, which averages out their position bias.

    Example:
        >>> options = [{"label": label, "value": 1} for label in ("None", "Some", "All")]
        >>> criterion = Criterion(requirement="How many?", options=options)
        >>> sorted(order_options(criterion, 0, "A text.", 0, "default"))
        [0, 1, 2]
    """
    options = criterion.options or []
    order = list(range(len(options)))
    if any(_NUMBER.match(option.label) for option in options) or find_scale(criterion):
        return tuple(order)
    key = sha256(f"{seed}:{_digest(text)}:{index}:{judge_id}".encode()).hexdigest()[:16]
    Random(int(key, 16) % 2**31).shuffle(order)
    return tuple(order)


@lru_cache(maxsize=8)  # the criteria of a submission follow each other
def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@lru_cache(maxsize=4096)
def as_judged(criterion: Criterion) -> Criterion:
    """Return the criterion with an option for "not applicable", the same object each time."""
    return criterion.with_guaranteed_na_option()


@lru_cache(maxsize=4096)
def find_scale(criterion: Criterion) -> tuple[float | None, ...]:
    """Return the numbers with which labels begin; empty if they are not distinct, or some begin with a range.

    The number may follow a word that all share ("Level 2"). One option, and options for "not applicable", may be
    without (None).

    Example:
        >>> labels = ("0 - poor", "0.5", "1 or more", "Not stated")
        >>> find_scale(Criterion(requirement="?", options=[{"label": label, "value": 0} for label in labels]))
        (0.0, 0.5, 1.0, None)
    """
    options = criterion.options or []
    found = [_OWN_NUMBER.match(option.label) for option in options]
    numbers = tuple(number and _parse_number(number["number"]) for number in found)
    others = [option for option, number in zip(options, numbers, strict=True) if number is None]
    known = len(options) - len(others)
    words = {(number["word"] or "").casefold() for number in found if number}
    if (
        len(words) != 1
        or known < 2
        or len({*numbers} - {None}) < known
        or sum(not option.na for option in others) > 1
    ):
        return ()
    return () if any(_DIGITS_FIRST.match(option.label) for option in others) else numbers


def _parse_number(text: str) -> float:
    return float(text.replace(",", ".").replace("−", "-").replace("–", "-"))


@dataclass(frozen=True)
class ShownOptions:
    """Options in the order shown.

    They are numbered from 1, unless their labels begin with other numbers: then a judge replies with these.
    """

    criterion: Criterion
    order: tuple[int, ...]
    shuffled: bool = True

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order shown, each on one line."""
        options = self.criterion.options or []
        return tuple(" ".join(options[index].label.split()) for index in self.order)

    @cached_property
    def scale(self) -> tuple[float | None, ...]:
        """The numbers with which the labels begin, in the order shown; empty if these are the positions."""
        found = find_scale(self.criterion)
        scale = tuple(found[index] for index in self.order) if found else ()
        are_positions = all(number in (place, None) for place, number in enumerate(scale, 1))
        return () if are_positions else scale

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The numbers to reply with, in the order shown; 99, 999, … for labels without in a scale of numbers."""
        if not self.scale:
            return tuple(range(1, len(self.order) + 1))
        codes = (code for digits in count(2) if (code := 10**digits - 1) > self._most)
        numbers = [next(codes) if number is None else number for number in self.scale]
        return tuple(int(number) if number == int(number) else number for number in numbers)

    @property
    def _most(self) -> float:
        return max(number for number in self.scale if number is not None)

    @cached_property
    def text(self) -> str:
        """One line per option, which begins with its number."""
        scale = self.scale or (None,) * len(self.order)
        lines = zip(self.labels, self.numbers, scale, strict=True)
        return "\n".join(
            f"{number}. {label}" if own is None or label[0].isalpha() else label for label, number, own in lines
        )

    @cached_property
    def expected(self) -> str:
        """What a judge may reply with, for messages."""
        if not self.scale:
            return f"a number from 1 to {len(self.order)}"
        numbers = [str(number) for number in self.numbers]
        if len(numbers) > _MOST_LISTED:
            numbers[3:-3] = ["…"]
        return f"the number with which an option begins, one of {', '.join(numbers)}"

    @cached_property
    def are_distinct(self) -> bool:
        """Whether labels differ in more than case and marks, which prose may add (`A` and `A*` do not)."""
        return len(set(map(_fold, self.labels))) == len(self.labels)

    def find_number(self, label: str) -> float | None:
        """Return the number of the option with this label, ignoring case and marks if unambiguous; else None."""
        wanted = " ".join(label.split())
        if wanted in self.labels:
            return self.numbers[self.labels.index(wanted)]
        labels = zip(self.numbers, self.labels, strict=True)
        numbers = [number for number, known in labels if _fold(known) == _fold(wanted)]
        return numbers[0] if len(numbers) == 1 else None

    def find_index(self, choice: object) -> int | None:
        """Return the original index of the option that a judge means; None if that is ambiguous."""
        if isinstance(choice, bool):
            return None
        if isinstance(choice, int | float):
            return self.order[self.numbers.index(choice)] if choice in self.numbers else None
        return self._find_index_in_text(choice) if isinstance(choice, str) and not UNCHECKED.search(choice) else None

    def _find_index_in_text(self, choice: str) -> int | None:
        if self.scale:
            return self.find_index(self._find_own_number(choice))
        number = _FULL_NUMBER.fullmatch(choice)
        placed = int(number[1]) if number else None
        meant = {placed, self.find_number(choice) or self._find_number_before_label(choice)} - {None}
        return self.find_index(meant.pop()) if len(meant) == 1 else None

    def _find_own_number(self, choice: str) -> float | None:
        """Return the number in "3", "Option 3", "3 (fair)" or "3/5", or that of the label "3 - fair" in "fair"."""
        labelled = self.find_number(choice)
        if labelled is not None:
            return labelled
        words = [_fold(_OWN_NUMBER.sub("", label, count=1).strip(_SEPARATORS)) for label in self.labels]
        replied = REPLIED.match(choice)
        if replied is None:
            places = [place for place, word in enumerate(words) if word and word == _fold(choice)]
            return self.numbers[places[0]] if len(places) == 1 else None
        number, rest = _parse_number(replied["number"]), choice[replied.end() :]
        if number not in self.numbers:
            return None
        out_of = _OUT_OF.fullmatch(rest)
        is_alone = out_of and (out_of["most"] is None or float(out_of["most"]) == self._most)
        place, word = self.numbers.index(number), _fold(rest.strip(_SEPARATORS))
        named = {words[place], _fold(self.labels[place].strip(_SEPARATORS))} - {""}
        return number if is_alone or word in named else None

    def _find_number_before_label(self, choice: str) -> int | None:
        """Return the number in "2. Partly" or "Option 2: Partly" if it is the number of that label."""
        number = _NUMBER.match(choice)
        if number is None:
            return None
        rest = choice[number.end() :].strip(" .:()]-–—\t\"'")
        return int(number[1]) if rest and self.find_number(rest) == int(number[1]) else None


def _fold(label: str) -> str:
    return label.strip(" .*`\"'“”[]").casefold()


Query: TypeAlias = str | Sequence[Mapping[str, str]]
"""The query of a submission: a text, or the turns of a conversation as `{role, content}`."""


@dataclass(frozen=True, slots=True)
class JudgeInput:
    """One submission and its rubric.

    Attributes:
        submission: the text that is graded.
        criteria: the rubric's criteria, in order.
        query: the query that the submission answers: a text, or a conversation whose next turn it is.
        reference: an exemplary submission.
        guidelines: advice that applies to every criterion.
        thinking: the submission's own thinking section, if it has one.
        dropped: the reasoning before the submission, which was removed and is not graded.
        item: the id of the dataset row, for the ledger.
        copies: for each criterion, the number of earlier inputs with the same question about the same submission;
            empty if there are none, or if equal inputs share their replies.
    """

    submission: str
    criteria: tuple[Criterion, ...]
    query: Query | None = None
    reference: str | None = None
    guidelines: str | None = None
    thinking: str | None = None
    item: str = ""
    copies: tuple[int, ...] = ()
    dropped: str = ""

    def find_copy(self, wanted: Sequence[int]) -> int:
        """Return the copy number of a request about the wanted criteria, from 0.

        It is the minimum over the criteria, so a later submission with all of these questions has a greater number.

        Example:
            >>> JudgeInput("Yes.", (), copies=(2, 1, 2)).find_copy([0, 1]), JudgeInput("Yes.", ()).find_copy([0])
            (1, 0)
        """
        return min(self.copies[index] for index in wanted) if self.copies and wanted else 0


Read: TypeAlias = Callable[[Reply], Answer[Any] | Unreadable]
"""A function that reads the value in a reply."""

Answered: TypeAlias = Answer[Any] | Failure

Ask: TypeAlias = Callable[[Model, Request, Read, FollowUp], Awaitable[Answered]]
"""`Executor.ask_for`, or a function with its signature: the only way for judges to reach models."""


class Judge(Protocol):
    """Judges criteria of a submission. A panel and a cascade are judges made of judges."""

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids of the simple judges inside, in order; all distinct."""
        ...

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgment on each wanted criterion (an index into `inputs.criteria`), in the order of `wanted`.

        A failed call or unusable reply gives a judgment with a failure; no exception is raised.
        """
        ...


class Seats:
    """Provides an `Ask` for each judge of a panel or cascade, so that equal questions get separate replies.

    The first judge with a question has seat 0, and so the same request key as a single judge; each further judge with
    the same question to the same model has the next seat. Judges whose prompts differ (other examples, options in
    another order) do not share a question, so all have seat 0. Judges ask in a fixed order, so a later run assigns
    the same seats. A judge that repeats a question within a submission keeps its seat.
    """

    __slots__ = ("_ask", "_taken")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._taken: dict[Hashable, dict[tuple[int, int], int]] = {}

    def ask_from(self, place: int) -> Ask:
        """Return the `Ask` of the judge at `place`; each judge of an inner panel counts."""

        async def ask(model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
            schema = b"" if request.schema is None else request.schema.encoded
            question = encode_identity(model), request.messages, schema, request.draw, request.copy
            taken = self._taken.setdefault(question, {})
            seat = taken.setdefault((place, request.seat), len(taken))
            if seat != request.seat:
                request = replace(request, seat=seat)
            return await self._ask(model, request, read, follow_up)

        return ask


@dataclass(frozen=True, slots=True)
class CopiesApart:
    """Gives identical items separate replies if the inner judge does not do so.

    A request with the role `judge` and no copy number gets the minimum of the input's copy numbers. Items with equal
    requests for other roles share the replies.
    """

    inside: Judge

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids of the judge inside."""
        return self.inside.judge_ids

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgments of the judge inside."""
        # The minimum over all criteria, not the wanted ones: a resumed run wants fewer, and its requests must not
        # change.
        copy = min(inputs.copies, default=0)

        async def ask_for_copy(model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
            if request.role == "judge" and not request.copy:
                request = replace(request, copy=copy)
            return await ask(model, request, read, follow_up)

        return await self.inside.judge(inputs, wanted, ask_for_copy if copy else ask)


class QuestionCounter:
    """Numbers equal questions in the order of the submissions.

    A question is a criterion as judges see it, with everything else in its prompt: submission, thinking, query,
    reference and guidelines. Its first occurrence has number 0. At most `most` questions are remembered.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._met: OrderedDict[Hashable, int] = OrderedDict()

    def number_questions(self, inputs: JudgeInput) -> JudgeInput:
        """Return the inputs with the number of each question; a criterion that occurs twice is one question."""
        content = repr((inputs.submission, inputs.thinking, inputs.query, inputs.reference, inputs.guidelines))
        digest = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        questions = [(digest, _as_shown(criterion)) for criterion in inputs.criteria]
        numbers = {question: self._met.get(question, 0) for question in questions}
        for question, number in numbers.items():
            self._met[question] = number + 1
            self._met.move_to_end(question)
        while self._most is not None and len(self._met) > self._most:
            self._met.popitem(last=False)
        return replace(inputs, copies=tuple(numbers[question] for question in questions))


def _as_shown(criterion: Criterion) -> Hashable:
    """Return the parts of a criterion that judges see."""
    labels = tuple(option.label for option in criterion.options or ())
    return criterion.requirement, criterion.weight < 0, labels


def request_again(request: Request, reply: Reply, problem: Unreadable) -> Request:
    """Build the request that follows an unusable reply, with the package's own prompt."""
    turns = package_prompts().reask.render(problem=problem.message)
    return build_reask(request, reply, problem, tuple(starmap(Message, turns)))
