"""A list of criteria, with reading, writing and scoring."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, overload

from autorubric.core.criterion import Criterion, build_criterion_rows, format_rubric
from autorubric.core.display import Displayed
from autorubric.core.entries import BY_PATH, check_extension, read_rubric_file, read_source
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy, CriterionVerdict
from autorubric.core.rubric_shapes import dump_criterion, read_criteria, unfold
from autorubric.core.scoring import Cell, build_cell, score
from autorubric.errors import InputError, pluralize, problems_at, warn
from autorubric.rows.kind import find_ending


class Grader(Protocol):
    """An object that can grade: its coroutine `grade` takes a submission and criteria."""

    @property
    def grade(self) -> Callable[..., Awaitable[Any]]:
        """The coroutine function that grades one submission."""
        ...


def can_take_guidelines(function: Any) -> bool:
    """Return whether a grader's `grade` or `judge` can be called with `guidelines=`.

    Example:
        >>> can_take_guidelines(lambda text, **more: 1.0), can_take_guidelines(lambda text, guidelines, /: 1.0)
        (True, False)
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # its signature cannot be read
        return False
    return any(
        p.kind is p.VAR_KEYWORD or (p.name == "guidelines" and p.kind is not p.POSITIONAL_ONLY) for p in parameters
    )


def check_grader(grader: object) -> None:
    """Raise an error for an object without `grade`."""
    if not hasattr(grader, "grade"):
        raise InputError(f"grader is {grader!r:.100}; expected a CriterionGrader or another object that grades")


class Rubric(Displayed):
    """The criteria that a submission is graded by.

    Two rubrics are equal if their criteria, guidelines and metadata are. Treat a rubric as immutable, because the
    list is not validated again.

    Attributes:
        rubric: the criteria, at least one.
        metadata: user-defined keys.

    Example:
        >>> rubric = Rubric([Criterion(name="Causes", weight=2, requirement="Names two causes")])
        >>> len(rubric), rubric[0].name, rubric.compute_score(["MET"])
        (1, 'Causes', 1.0)
    """

    def __init__(
        self,
        rubric: list[Criterion],
        *,
        guidelines: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        if isinstance(rubric, (str, dict)) or not isinstance(rubric, Iterable):
            raise InputError(f"Rubric needs a list of criteria, got {type(rubric).__name__}")
        self.rubric = list(rubric)
        if not self.rubric:
            raise InputError("No criteria found")
        problems = [
            f"criterion at index {index} is of type {type(found).__name__}; expected Criterion "
            "(Rubric.from_dict reads plain mappings)"
            for index, found in enumerate(self.rubric)
            if not isinstance(found, Criterion)
        ]
        if not problems and (
            {c.id for c in self.rubric} != {None} or len({c.name for c in self.rubric}) < len(self.rubric)
        ):
            problems = _find_repeated(self.rubric)
        if problems:
            raise InputError(problems)
        self.guidelines = guidelines
        self.metadata: dict[str, Any] = {} if metadata is None else metadata
        self._warned = False

    @property
    def guidelines(self) -> str | None:
        """Instructions to the judge that apply to all criteria; blank counts as None.

        Raises:
            TypeError: set to something that is neither text nor None.
        """
        return self._guidelines

    @guidelines.setter
    def guidelines(self, text: str | None) -> None:
        if text is not None and not isinstance(text, str):
            raise TypeError(f"Rubric guidelines must be a str or None, got {type(text).__name__}")
        self._guidelines = text if text is not None and text.strip() else None

    def __len__(self) -> int:
        return len(self.rubric)

    def __iter__(self) -> Iterator[Criterion]:
        return iter(self.rubric)

    @overload
    def __getitem__(self, index: int) -> Criterion: ...
    @overload
    def __getitem__(self, index: slice) -> list[Criterion]: ...
    def __getitem__(self, index: int | slice) -> Criterion | list[Criterion]:
        return self.rubric[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rubric):
            return NotImplemented
        return (self.rubric, self._guidelines, self.metadata) == (other.rubric, other._guidelines, other.metadata)

    def __hash__(self) -> int:
        return hash(tuple(self.rubric))

    def __repr__(self) -> str:
        return format_rubric(type(self).__name__, self.rubric, self._guidelines)

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        return build_criterion_rows(self.rubric)

    @staticmethod
    def validate_and_create_criteria(data: list[Any] | dict[str, Any]) -> list[Criterion]:
        """Return the criteria of a rubric in any of its shapes; subclasses may override it.

        Raises:
            ValueError: with one problem for each criterion that is wrong.

        Example:
            >>> Rubric.validate_and_create_criteria({"criteria": [{"requirement": "Is brief"}]})
            [Criterion(requirement='Is brief')]
        """
        return read_criteria(unfold(data).entries)

    @classmethod
    def from_dict(cls, data: list[Any] | dict[str, Any]) -> Self:
        """Return the rubric of a list of criteria or sections, or of a mapping that contains one.

        Raises:
            ValueError: with one problem for each criterion that is wrong.

        Example:
            >>> style = {"name": "Style", "criteria": [{"requirement": "Is brief"}]}
            >>> Rubric.from_dict({"sections": [style]})[0].section
            'Style'
        """
        made = cls(cls.validate_and_create_criteria(data))
        if isinstance(data, dict):
            parts = unfold(data)
            made.guidelines, made.metadata = parts.guidelines, parts.metadata
        return made

    @classmethod
    def from_json(cls, json_string: str) -> Self:
        """Return the rubric of a JSON text.

        Raises:
            ValueError: it is not strict JSON, or a criterion is wrong.

        Example:
            >>> len(Rubric.from_json('[{"requirement": "Is brief", "weight": 5}]'))
            1
        """
        from autorubric.files.strict_json import parse_json

        return cls.from_dict(parse_json(json_string, "Failed to parse JSON string"))

    @classmethod
    def from_yaml(cls, yaml_string: str) -> Self:
        """Return the rubric of a YAML text.

        Raises:
            ValueError: it is not valid YAML, or a criterion is wrong.

        Example:
            >>> len(Rubric.from_yaml("- requirement: Is brief"))
            1
        """
        from autorubric.files.strict_yaml import parse_yaml

        return cls.from_dict(parse_yaml(yaml_string, "Failed to parse YAML string"))

    @classmethod
    def from_file(cls, source: str | Path | Any) -> Self:
        """Read the rubric in a `.json`, `.yaml` or `.md` file, or in a table or JSON Lines with a criterion per row.

        Args:
            source: the path, or an open `.json`, `.yaml` or `.yml` file that has a name.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: another extension, or the content is wrong; every message starts with the path.

        Example:
            >>> Rubric.from_file("rubric.txt")
            Traceback (most recent call last):
            autorubric.errors.InputError: rubric.txt: Unsupported file format '.txt'. Supported formats: ...
        """
        if isinstance(source, str | Path) and find_ending(source) in BY_PATH:
            value = read_rubric_file(source, what="File")
            with problems_at(f"{source}: "):
                return cls.from_dict(value)
        name, extension, text = read_source(source)
        with problems_at(f"{name}: "):
            return (cls.from_json if extension == ".json" else cls.from_yaml)(text)

    def to_dict(self) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the rubric as JSON values: a list, or a mapping if there are guidelines or metadata.

        Example:
            >>> Rubric([Criterion(name="Brief", requirement="Is brief")]).to_dict()
            [{'name': 'Brief', 'weight': 10.0, 'requirement': 'Is brief'}]
        """
        criteria = [dump_criterion(criterion) for criterion in self.rubric]
        if self._guidelines is None and not self.metadata:
            return criteria
        record: dict[str, Any] = {} if self._guidelines is None else {"guidelines": self._guidelines}
        record["criteria"] = criteria
        if self.metadata:
            record["metadata"] = self.metadata
        return record

    def to_json(self, indent: int | None = 2) -> str:
        """Return the rubric as JSON text.

        Args:
            indent: spaces for each level; None for one line.

        Raises:
            ValueError: metadata has a value that JSON cannot represent.

        Example:
            >>> Rubric([Criterion(name="Brief", requirement="Is brief")]).to_json(indent=None)
            '[{"name": "Brief", "weight": 10.0, "requirement": "Is brief"}]'
        """
        from autorubric.files.strict_json import dump_json

        return dump_json(self.to_dict(), indent)

    def to_yaml(self) -> str:
        """Return the rubric as YAML text.

        Raises:
            ValueError: metadata has a value that YAML cannot represent.

        Example:
            >>> print(Rubric([Criterion(name="Brief", requirement="Is brief")]).to_yaml(), end="")
            - name: Brief
              weight: 10.0
              requirement: Is brief
        """
        from autorubric.files.strict_yaml import dump_yaml

        return dump_yaml(self.to_dict())

    def to_file(self, path: str | Path) -> None:
        """Write the rubric to a `.json`, `.yaml` or `.yml` file, atomically.

        Raises:
            ValueError: another extension, or the file cannot be written.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "rubric.yaml"
            >>> rubric = Rubric([Criterion(requirement="Is brief")])
            >>> rubric.to_file(path)
            >>> Rubric.from_file(path) == rubric
            True
        """
        from autorubric.files.atomic import write_atomically

        text = self.to_json() + "\n" if check_extension(str(path)) == ".json" else self.to_yaml()
        write_atomically(path, [text])

    async def grade(
        self,
        to_grade: Any,
        grader: Grader,
        query: str | None = None,
        reference_submission: str | None = None,
    ) -> Any:
        """Return the report of `grader` on a submission.

        Args:
            to_grade: the submission.
            grader: an object with `async grade(to_grade, rubric, query, reference_submission, *, guidelines)`; a
                grader that does not accept guidelines is called without them, with a warning.
            query: the query that the submission answers.
            reference_submission: an exemplary submission.

        Example:
            >>> import asyncio
            >>> class Lenient:
            ...     async def grade(self, to_grade, rubric, query=None, reference_submission=None):
            ...         return 1.0
            >>> asyncio.run(Rubric([Criterion(requirement="Is brief")]).grade("Yes.", Lenient()))
            1.0
        """
        check_grader(grader)
        given: dict[str, Any] = {"query": query, "reference_submission": reference_submission}
        if self._guidelines is not None:
            if can_take_guidelines(grader.grade):
                given["guidelines"] = self._guidelines
            elif not self._warned:
                self._warned = True
                warn(f"{type(grader).__name__} ignores rubric guidelines")
        return await grader.grade(to_grade=to_grade, rubric=self.rubric, **given)

    def grade_sync(
        self,
        to_grade: Any,
        grader: Grader,
        query: str | None = None,
        reference_submission: str | None = None,
    ) -> Any:
        """Return the synchronous version of `grade`; also works inside a running event loop (a notebook).

        Example:
            >>> class Lenient:
            ...     async def grade(self, to_grade, rubric, query=None, reference_submission=None):
            ...         return 1.0
            >>> Rubric([Criterion(requirement="Is brief")]).grade_sync("Yes.", Lenient())
            1.0
        """
        from autorubric.background import wait_for

        return wait_for(self.grade(to_grade, grader, query, reference_submission))

    def compute_score(
        self,
        verdicts: Sequence[CriterionVerdict | str],
        normalize: bool = True,
        cannot_assess_strategy: CannotAssessStrategy = CannotAssessStrategy.SKIP,
        partial_credit: float = 0.5,
    ) -> float | None:
        """Return the score of one verdict per criterion, or None if nothing is left to score.

        Args:
            verdicts: MET, UNMET or CANNOT_ASSESS for a binary criterion, the option's label for another.
            normalize: True for a score in [0, 1], False for the bare sum of value · weight.
            cannot_assess_strategy: how an abstention counts.
            partial_credit: the share of the weight that PARTIAL gives, in [0, 1].

        Raises:
            ValueError: there are too few or too many verdicts, one does not fit its criterion, or the credit is
                out of range.

        Example:
            >>> rubric = Rubric([
            ...     Criterion(weight=10, requirement="Names two causes"),
            ...     Criterion(weight=-4, requirement="Invents a source"),
            ... ])
            >>> rubric.compute_score(["MET", "MET"]), rubric.compute_score(["CANNOT_ASSESS"] * 2)
            (0.6, None)
        """
        if len(verdicts) != len(self.rubric):
            raise InputError(f"Expected {pluralize(len(self.rubric), 'verdict')}, got {len(verdicts)}")
        config = CannotAssessConfig(strategy=cannot_assess_strategy, partial_credit=partial_credit)
        cells = [_build_cell(criterion, verdict) for criterion, verdict in zip(self.rubric, verdicts, strict=True)]
        return score(cells, config, normalize=normalize)


def _build_cell(criterion: Criterion, verdict: CriterionVerdict | str) -> Cell:
    if criterion.is_binary:
        try:
            return build_cell(criterion, verdict)
        except ValueError:
            known = "Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'."
            raise InputError(f"Invalid binary verdict {str(verdict)!r}. {known}") from None
    if not isinstance(verdict, str) or isinstance(verdict, CriterionVerdict):
        kind = type(verdict).__name__
        name = criterion.name or criterion.requirement
        raise InputError(f"Multi-choice criterion {name!r} requires a label string, got {kind}")
    return build_cell(criterion, verdict)


def _find_repeated(criteria: list[Criterion]) -> list[str]:
    """Return names and ids shared by two criteria, which agreement and few-shot examples could not distinguish."""
    problems = []
    firsts: dict[tuple[str | None, ...], int] = {}
    for index, entry in enumerate(criteria):
        named, numbered = ("named", entry.section, entry.name), ("id", entry.id)
        for value, key, what in ((entry.name, named, "are both named"), (entry.id, numbered, "both have the id")):
            if value is not None and (first := firsts.setdefault(key, index)) != index:
                problems.append(f"criteria {first} and {index} {what} {value!r}")
    return problems
