"""Few-shot examples from labelled data, shown to a judge before the criterion for which they were labelled."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict
from autorubric.dataset.collection import RubricDataset
from autorubric.errors import InputError, clip
from autorubric.graders.judge import JudgeInput
from autorubric.llm.thinking import Reasoning, split_reasoning


@dataclass(slots=True)
class FewShotConfig:
    """How examples are chosen.

    Attributes:
        n_examples: the number of examples.
        balance_verdicts: distribute them evenly over the verdicts (or options) that occur.
        include_reason: show the annotator's reason if there is one.
        seed: another seed gives other examples; None uses the grader's seed.

    Raises:
        ValueError: `n_examples` is not a whole number from 0.

    Example:
        >>> FewShotConfig().n_examples
        3
    """

    n_examples: int = 3
    balance_verdicts: bool = True
    include_reason: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n_examples, int) or isinstance(self.n_examples, bool) or self.n_examples < 0:
            raise InputError(f"n_examples is {self.n_examples!r}; expected a whole number, 0 or more")


@dataclass(slots=True)
class FewShotExample:
    """A submission with the label of an annotator.

    Attributes:
        submission: the text.
        verdict: MET, UNMET or CANNOT_ASSESS, or the label of an option.
        reason: the annotator's reason.
        query: the query of the submission; None if it is that of the graded submission.

    Example:
        >>> FewShotExample("Because of the moon.", "MET", reason="It names the moon.").verdict
        'MET'
    """

    submission: str
    verdict: CriterionVerdict | str
    reason: str | None = None
    query: str | None = None

    def values(self) -> dict[str, Any]:
        """Return the example as values for a prompt; the order of the keys affects request keys."""
        return {"query": self.query, "submission": self.submission, "reason": self.reason, "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class _LabelledExample:
    submission: str
    item: str | None
    query: str | None
    label: str
    reason: str | None
    flat: str


# Includes the options, because a label has a meaning only among its own options.
_Kind: TypeAlias = tuple[str | None, str, tuple[str, ...]]


@dataclass(frozen=True)
class FewShot:
    """Labelled data to draw examples from.

    An example is shown for a criterion only if it was labelled for the same criterion (name, requirement and
    options), at any position in its rubric. The graded submission is never its own example.

    Attributes:
        data: a dataset with ground truth.
        config: how examples are chosen.
        seed: the seed of the choice if the configuration has none.
        reasoning: whether examples keep the reasoning at the beginning of their submission.

    Raises:
        ValueError: the data has no ground truth.

    Example:
        >>> from autorubric.core.rubric import Rubric
        >>> polite = Criterion(name="Tone", requirement="Is polite")
        >>> data = RubricDataset("Say hello", Rubric([polite]))
        >>> data.add_item("Good day to you.", "a", [CriterionVerdict.MET])
        >>> data.add_item("What?", "b", [CriterionVerdict.UNMET])
        >>> inputs = JudgeInput("Good day to you.", (polite,), query="Say hello")
        >>> [example.submission for example in FewShot(data).choose_examples(inputs, 0, "default")]
        ['What?']
    """

    data: RubricDataset
    config: FewShotConfig = field(default_factory=FewShotConfig)
    seed: int = 0
    reasoning: Reasoning = "drop"
    _pools: dict[_Kind, list[_LabelledExample]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _rows: list[dict[_Kind, _LabelledExample]] = field(default_factory=list, init=False, repr=False, compare=False)
    _orders: dict[tuple[_Kind, int, str], list[_LabelledExample]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for index, item in enumerate(self.data.items):
            if item.ground_truth is None:
                continue
            reasons = item.ground_truth_reasons or [None] * len(item.ground_truth)
            query, (_, shown) = self.data.get_item_prompt(index), split_reasoning(item.submission, self.reasoning)
            flat = _flatten(shown)
            row: dict[_Kind, _LabelledExample] = {}
            for criterion, label, reason in zip(
                self.data.get_item_rubric(index).rubric, item.ground_truth, reasons, strict=True
            ):
                text = label.value if isinstance(label, CriterionVerdict) else label
                labelled = _LabelledExample(shown, item.id, query, text, reason, flat)
                self._pools.setdefault(_find_kind(criterion), []).append(labelled)
                row[_find_kind(criterion)] = labelled
            self._rows.append(row)
        if not self._pools:
            raise InputError("the data for few-shot examples has no ground truth")

    def find_missing(self, criteria: Iterable[Criterion]) -> list[str]:
        """Return the names of the criteria that a model judges and for which no example was labelled."""
        missing = (each for each in criteria if each.check is None and _find_kind(each) not in self._pools)
        return [repr(criterion.name or clip(criterion.requirement, 60)) for criterion in missing]

    def choose_examples(self, inputs: JudgeInput, index: int, judge_id: str) -> list[FewShotExample]:
        """Return the examples for one criterion, the same each time."""
        config = self.config
        own = _flatten(inputs.submission)
        order = self._order(inputs.criteria[index], index, judge_id)
        chosen = list(islice((example for example in order if not _is_same(example, inputs, own)), config.n_examples))
        return [
            FewShotExample(
                labelled.submission,
                labelled.label,
                labelled.reason if config.include_reason else None,
                None if labelled.query == inputs.query else labelled.query,
            )
            for labelled in chosen
        ]

    def choose_whole_examples(
        self, inputs: JudgeInput, wanted: Sequence[int], judge_id: str, shown: Callable[[int, str], str]
    ) -> list[FewShotExample]:
        """Return the examples for several criteria at once, the same each time.

        With balanced verdicts, each example is chosen to add the most verdicts that earlier ones lack. An example
        shows only the criteria for which it was labelled. `shown` renders the label of a criterion.

        Example:
            >>> from autorubric.core.rubric import Rubric
            >>> polite = Criterion(name="Tone", requirement="Is polite")
            >>> data = RubricDataset("Say hello", Rubric([polite]))
            >>> data.add_item("What?", "b", [CriterionVerdict.UNMET])
            >>> case = JudgeInput("Hi.", (polite,), query="Say hello")
            >>> FewShot(data).choose_whole_examples(case, [0], "default", lambda index, label: label)
            [FewShotExample(submission='What?', verdict='c0 UNMET', reason=None, query=None)]
        """
        config = self.config
        kinds = {index: _find_kind(inputs.criteria[index]) for index in wanted}
        own = _flatten(inputs.submission)
        rows = [{index: row[kind] for index, kind in kinds.items() if kind in row} for row in self._rows]
        rows = [row for row in rows if row and not _is_same(next(iter(row.values())), inputs, own)]
        Random(f"{self._seed}:few_shot:item:{judge_id}").shuffle(rows)
        chosen = _choose_covering(rows, config.n_examples) if config.balance_verdicts else rows
        examples = []
        for row in chosen[: config.n_examples]:
            first = next(iter(row.values()))
            verdicts = ", ".join(f"c{index} {shown(index, example.label)}" for index, example in row.items())
            explained = row.items() if config.include_reason else ()
            reasons = [f"c{index}: {example.reason}" for index, example in explained if example.reason]
            query = None if first.query == inputs.query else first.query
            examples.append(FewShotExample(first.submission, verdicts, "\n".join(reasons) or None, query))
        return examples

    @property
    def _seed(self) -> int:
        return self.seed if self.config.seed is None else self.config.seed

    def _order(self, criterion: Criterion, index: int, judge_id: str) -> list[_LabelledExample]:
        kind = _find_kind(criterion)
        key = (kind, index, judge_id)
        order = self._orders.get(key)
        if order is None:
            pool = list(self._pools.get(kind, ()))
            Random(f"{self._seed}:few_shot:{index}:{judge_id}").shuffle(pool)
            order = self._orders[key] = _balance(pool) if self.config.balance_verdicts else pool
        return order


def _balance(pool: list[_LabelledExample]) -> list[_LabelledExample]:
    """Return the pool with its labels taken in turn, so that any prefix is as balanced as possible."""
    classes: dict[str, list[_LabelledExample]] = {}
    for labelled in sorted(pool, key=lambda labelled: labelled.label):
        classes.setdefault(labelled.label, []).append(labelled)
    rank = {id(labelled): place for members in classes.values() for place, labelled in enumerate(members)}
    names = list(classes)
    return sorted(pool, key=lambda labelled: (rank[id(labelled)], names.index(labelled.label)))


def _choose_covering(rows: list[dict[int, _LabelledExample]], wanted: int) -> list[dict[int, _LabelledExample]]:
    """Rows chosen greedily: each adds the most verdicts that the earlier ones lack."""
    shown: set[tuple[int, str]] = set()
    left = list(rows)
    chosen: list[dict[int, _LabelledExample]] = []
    while left and len(chosen) < wanted:
        place = max(range(len(left)), key=lambda place: (len(_collect_verdicts(left[place]) - shown), -place))
        chosen.append(left.pop(place))
        shown |= _collect_verdicts(chosen[-1])
    return chosen


def _collect_verdicts(row: dict[int, _LabelledExample]) -> set[tuple[int, str]]:
    return {(index, example.label) for index, example in row.items()}


def _is_same(labelled: _LabelledExample, inputs: JudgeInput, own: str) -> bool:
    """Return whether an example is the graded submission itself."""
    return labelled.flat == own or bool(inputs.item and labelled.item == inputs.item)


def _find_kind(criterion: Criterion) -> _Kind:
    labels = tuple(option.label for option in criterion.options or () if not option.na)
    return criterion.name, criterion.requirement, labels


def _flatten(text: str) -> str:
    return " ".join(text.split()).casefold()
