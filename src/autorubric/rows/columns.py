"""What columns are called: one table of names for every command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autorubric.errors import InputError

QUERY = (
    *("question", "query", "prompt", "instruction", "input", "problem", "messages", "conversation", "convo"),
    *("turns", "task", "user_prompt", "user_query", "question_text", "prompt_text"),
)
SUBMISSION = (
    *("submission", "response", "answer", "output", "completion", "generation", "essay", "prediction"),
    *("model_output", "model_response", "model_answer", "assistant", "reply", "solution", "text"),
)
ANSWERS = ("answers", "responses", "candidates", "completions", "outputs", "generations")
ID = (
    *("id", "query_id", "prompt_id", "question_id", "item_id", "uid", "uuid", "key", "sample_id", "example_id"),
    "__record_id__",
)
RUBRIC = ("rubrics", "rubric", "criteria", "rubric_items", "reward_model")
REFERENCE = ("reference_submission", "reference_answer", "reference")
LABELS = ("ground_truth", "labels", "verdicts")
DOMAIN = ("domain", "category", "subject", "topic")

NESTED = frozenset(
    (
        *("messages", "conversation", "convo", "turns", *RUBRIC, *ANSWERS, *LABELS),
        *("merged_rubrics", "augmented_rubrics", "rubrics_a", "rubrics_b", "rubric_list"),
        *("ground_truth_reasons", "metadata", "tags", "extra_info", "options", "check", "example_tags"),
        *("ideal_completions_data", "autorubric"),
    )
)
"""Columns of lists and mappings, which a CSV file holds as JSON."""


def folded(name: str) -> str:
    """A column's name as it is compared: `Question Text` is `question_text`.

    Example:
        >>> folded(" Question Text")
        'question_text'
    """
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


@dataclass(slots=True)
class Guess:
    """Which column of a file holds what, guessed from the usual names.

    Attributes:
        where: the file, for messages.
        flag: what decides where the guess is ambiguous, such as `--question-column NAME`; `{role}` is filled in.
        given: columns that the user named, by role.
        notes: what was guessed, for the user.
    """

    where: str
    flag: str
    given: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def column(self, role: str, names: Sequence[str], columns: Iterable[str], *, only: bool = False) -> str | None:
        """The column that plays a role: the one the user named, the one of this name, or the only usual one.

        Args:
            role: what is looked for, by its own name.
            names: the usual names, its own first.
            columns: those of the file.
            only: refuse several usual names also where one of them is the role's own.

        Raises:
            InputError: the column that the user named is not there, or several columns have usual names.

        Example:
            >>> guess = Guess("a.csv", "--column {role}=NAME")
            >>> guess.column("submission", SUBMISSION, ["Answer", "id"]), guess.notes
            ('Answer', ["a.csv: column 'Answer' is read as the submission"])
            >>> guess.column("submission", SUBMISSION, ["answer", "output"])
            Traceback (most recent call last):
            autorubric.errors.InputError: a.csv: the submission may be column 'answer' or 'output'; say which with ...
        """
        held = list(columns)
        named = self.given.get(role)
        if named is not None:
            if named in held:
                return named
            raise InputError(f"{self.where}: no column {named!r}; the columns are {listed(held)}")
        found = [name for name in held if folded(name) in names]
        own = [] if only else [name for name in found if folded(name) == role]
        if role in own or found == [role]:
            return role
        if len(found) > 1 and len(own) != 1:
            which = " or ".join(map(repr, found))
            flag = self.flag.format(role=role)
            raise InputError(f"{self.where}: the {role} may be column {which}; say which with {flag}")
        chosen = own[0] if own else found[0] if found else None
        if chosen is not None:
            self.notes.append(f"{self.where}: column {chosen!r} is read as the {role}")
        return chosen


def listed(columns: Iterable[str], most: int = 12) -> str:
    """The names of columns for a message, the first ones where there are many.

    Example:
        >>> listed(["a", "b", "c"], most=2)
        "'a', 'b', …"
    """
    names = [repr(name) for name in columns]
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])]) or "none"


def first_of(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value of the first of these columns that holds something.

    Example:
        >>> first_of({"id": "", "uid": 7}, ("id", "uid"))
        7
    """
    held = (row.get(name) for name in names)
    return next((value for value in held if value is not None and not _blank(value)), None)


def _blank(value: Any) -> bool:
    return isinstance(value, str | list | dict) and not (value.strip() if isinstance(value, str) else value)
