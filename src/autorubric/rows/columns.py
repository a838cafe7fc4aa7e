"""The roles of columns: the table of names, and the reader that all commands share."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unicodedata import normalize

from autorubric.errors import InputError, format_first
from autorubric.files.json_values import as_weight
from autorubric.rows.dialogues import drop_copies, is_conversation, join_instruction
from autorubric.rows.paths import find_text_path, find_value
from autorubric.rows.record import WEIGHT_KEYS, Record, find_paths, find_rubric, from_cell, is_blank

_ROWS_SEEN = 100
_SOURCES = "source data_source domain ability"
_DOUBTS = {
    "reference": r"(un)?met|cannot_assess|(pass|fail)(ed)?|true|false|yes|no|accept|reject|(in)?correct"
    r"|不?(满足|符合|合格)|[是否对错]",
    "query": r"[\w-]*[-_\d][\w-]*",
}
"""What a `fallback` column may contain instead of its role's value: a label, or the name of a task."""
_NEVER_JSON = frozenset(("query", "reference"))
_PASSAGES = frozenset(("text", "summary", "full_text"))
"""Names of submission columns that a text next to a submission may have too."""


class Role(NamedTuple):
    """What a column can contain.

    Attributes:
        names: the usual names, folded.
        own: the name that takes precedence if a row has several; empty if none does.
        quiet: names that are read without a note.
        fallback: names that are read only if no column with another name has a value; `names` may have them too.
        is_ranked: whether the first of several names, in this order, takes precedence.
    """

    names: tuple[str, ...]
    own: str = ""
    quiet: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    is_ranked: bool = False


def _build_role(names: str, own: str = "", quiet: str = "", fallback: str = "", is_ranked: bool = False) -> Role:
    return Role(tuple(names.split()), own, tuple(quiet.split()), tuple(fallback.split()), is_ranked)


ROLES: Mapping[str, Role] = {
    "query": _build_role(
        "question query prompt instruction input problem messages conversation convo conversations turns user_prompt "
        "user_query question_text prompt_text",
        quiet="question query prompt messages",
        fallback="user_input user_message task contents context_messages 问题 题目 提问 質問 設問 問題 질문 문제 "
        "frage aufgabe pregunta pergunta domanda вопрос",
    ),
    "rubric": _build_role(
        "rubrics rubric criteria rubric_items",
        quiet="rubrics rubric Rubrics criteria rubric_items reward_model",
        fallback="reward_model checklist score_rubric rubric_json evaluation_criteria 评分标准",
    ),
    "submission": _build_role(
        "submission response answer output completion generation essay prediction model_output model_response "
        "model_answer assistant reply solution text",
        own="submission",
        quiet="submission answer response completion",
        fallback="actual_output system_output llm_output output_text generated_text student_response student_answer "
        "text summary full_text essay_text decoded "
        "回答 作答 回复 模型回答 模型回复 模型输出 学生回答 学生答案 解答 답변 답안 "
        "réponse antwort respuesta resposta risposta ответ",
    ),
    "submissions": _build_role(
        "answers responses candidates completions outputs generations",
        quiet="answers responses candidates completions",
    ),
    "id": _build_role(
        "id query_id prompt_id question_id item_id uid uuid key example_id",
        own="id",
        quiet="id query_id prompt_id question_id uid __record_id__",
        fallback="__record_id__ 编号 編號",
    ),
    "sample": _build_role("sample_id candidate_id", own="sample_id", quiet="sample_id candidate_id"),
    "reference": _build_role(
        "reference_submission reference_answer reference",
        own="reference_submission",
        fallback="expected expected_output expected_answer ideal 参考答案 标准答案 模範解答 모범답안 "
        "musterlösung corrigé",
    ),
    "labels": _build_role("ground_truth", quiet="ground_truth"),
    "domain": _build_role("domain category subject topic", own="domain"),
    "source": _build_role(_SOURCES, quiet=_SOURCES, is_ranked=True),
    "criterion": _build_role("criterion criterion_name criteria requirement", fallback="标准 准则"),
    "label": _build_role("label verdict value rating human_label", fallback="标签 标注"),
    "annotator": _build_role(
        "annotator annotator_id rater rater_id labeler labeller",
        fallback="annotator_name rater_name worker_id worker reviewer 标注员 标注者",
    ),
    "note": _build_role("note comment reason rationale"),
    "quote": _build_role("quote evidence highlight"),
    "seconds": _build_role("seconds lead_time duration_seconds"),
}
"""Every role with its names. A row with two of them is refused, unless one is the role's `own`."""

SYNONYMS = {
    **dict.fromkeys(("prompt", "question"), "query"),
    **dict.fromkeys(("answer", "response"), "submission"),
    "reference_submission": "reference",
    "ground_truth": "labels",
}
"""Further names of roles that options accept."""

_LISTS = (
    "messages conversation convo conversations contents context_messages turns reward_model labels verdicts "
    "merged_rubrics augmented_rubrics rubrics_a rubrics_b rubric_list ground_truth_reasons metadata tags extra_info "
    "options check example_tags ideal_completions_data autorubric"
)
_NESTED_ROLES = [ROLES[role].names for role in ("rubric", "submissions", "labels")]
NESTED = frozenset(_LISTS.split()).union(*_NESTED_ROLES, ROLES["rubric"].fallback)
"""Names of columns with lists and mappings, which are JSON in a CSV file."""


def fold_name(name: str) -> str:
    """Return a column's name in the form used for comparison: `Question Text` becomes `question_text`.

    Example:
        >>> fold_name(" Question Text")
        'question_text'
    """
    return normalize("NFC", str(name).strip().casefold()).replace(" ", "_").replace("-", "_")


def fold_column(name: str) -> str:
    """Return a column's name as names of roles are compared: `ModelAnswer` is `model_answer`.

    Example:
        >>> fold_column("ModelAnswer"), fold_column("Student Answer")
        ('model_answer', 'student_answer')
    """
    return fold_name(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)))


def resolve_roles(given: Mapping[str, str]) -> dict[str, str]:
    """Columns that the user named, with synonyms of roles resolved.

    Example:
        >>> resolve_roles({"prompt": "Frage", "id": "Nr"})
        {'query': 'Frage', 'id': 'Nr'}
    """
    return {SYNONYMS.get(role, role): column for role, column in given.items()}


COLUMN_OPTION = "--column {role}=NAME (in Python: column={{'{role}': NAME}})"
"""The option with which users of commands and functions name the column of a role."""


@dataclass(slots=True)
class RowReader:
    """Finds the column of each role: the one that the user named, else one with a usual name.

    Attributes:
        where: the file, for messages.
        roles: the roles to find.
        option: the option that resolves an ambiguity; `{role}` is filled in.
        given: columns that the user named, or paths into them, by role.
        notes: collects a sentence for each column that was guessed.
    """

    where: str
    roles: tuple[str, ...]
    option: str = COLUMN_OPTION
    given: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # Cached by the columns of a row: the column of each role with one, and the columns of each role with several.
    _layouts: dict[tuple[str, ...], tuple[dict[str, str], dict[str, list[str]]]] = field(default_factory=dict)
    _passages: dict[str, bool] = field(default_factory=dict)  # whether they are the submission

    def __post_init__(self) -> None:
        self.given = resolve_roles(self.given)

    def read_all(self, records: Iterable[Record]) -> Iterator[Record]:
        """Return the rows with their columns by role.

        Raises:
            InputError: no row among the first 100 has a column that the user named, or a row is ambiguous.

        Example:
            >>> rows = [Record("a.csv:2", 2, {"Task": "Why?"})]
            >>> [record.query for record in RowReader("a.csv", ("query",)).read_all(rows)]
            ['Why?']
        """
        rows = iter(records)
        if not self.given:
            return map(self.read, rows)
        seen = list(itertools.islice(rows, _ROWS_SEEN))
        columns = {name: value for record in seen for name, value in record.fields.items()}
        for named in (self.given.get(role) for role in self.roles if columns):
            if named and named not in columns and all(find_value(record.fields, named) is None for record in seen):
                raise InputError(f"{self.where}: no column {named!r}; the columns are {join_names(columns)}")
        return map(self.read, itertools.chain(seen, rows))

    def read(self, record: Record) -> Record:
        """Return the row with its columns by role; paths that the user named become columns.

        Raises:
            InputError: two columns have a value and neither is the role's own, or a column has weights of a rubric.

        Example:
            >>> reader = RowReader("a.csv", ("submission",))
            >>> reader.read(Record("a.csv:2", 2, {"Answer": "So.", "id": 1})).columns, reader.notes
            ({'submission': 'Answer'}, ["a.csv: column 'Answer' is read as the submission"])
            >>> reader.read(Record("a.csv:3", 3, {"answer": "So.", "output": "No."}))
            Traceback (most recent call last):
            autorubric.errors.InputError: a.csv: the submission may be column 'answer' or 'output'; choose ...
        """
        fields = self._join_instruction(record.fields)
        paths = {path: find_value(fields, path) for path in self.given.values() if path not in fields}
        if paths:
            fields = {**fields, **{path: value for path, value in paths.items() if value is not None}}
        names = tuple(fields)
        if names not in self._layouts:
            taken, columns = set(self.given.values()), dict[str, list[str]]()
            keys = {name: fold_column(name) for name in names if name not in taken}
            for role in self.roles:
                named, usual, last = self.given.get(role), ROLES[role].names, ROLES[role].fallback
                guesses = dict.fromkeys(n for group in (usual, last) for n, key in keys.items() if key in group)
                columns[role] = [*guesses] if named is None else [name for name in names if name == named]
            found = {role: names[0] for role, names in columns.items() if len(names) == 1}
            for role, column in found.items():
                self._note_guess(role, column)
            self._layouts[names] = found, {role: names for role, names in columns.items() if len(names) > 1}
        found, rivals = self._layouts[names]
        if rivals:
            found = {**found, **{role: self._choose_column(role, names, fields) for role, names in rivals.items()}}
        base, _, rest = self.given.get("submission", "").partition("[-1]")
        if rest and "query" in self.roles and "query" not in found and is_conversation(fields.get(base)):
            found = {**found, "query": base}
            self._add_note(f"{self.where}: the other turns of {base!r} are read as the query")
        if problem := self._find_misreading(fields, found):
            raise InputError(f"{record.where}: {problem}")
        self._check_passages(rivals.get("submission", [found.get("submission", "")]), fields, found)
        self._note_json(fields, found)
        return Record(record.where, record.number, fields, found)

    def _join_instruction(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the row; the instruction and input of Alpaca become its query."""
        if not {"instruction", "input"} <= fields.keys() or "query" not in self.roles:
            return fields
        if self.given.get("query") == "instruction" and not is_blank(fields.get("input")):
            self._add_note(f"{self.where}: 'input' is not part of the query")
        others = (fold_column(name) for name in fields if name not in ("instruction", "input"))
        joined = None if "query" in self.given else join_instruction(fields)
        if joined is None or not {*ROLES["query"].names}.isdisjoint(others):
            return fields
        self._add_note(f"{self.where}: 'instruction' and 'input' are read as the query, joined by a blank line")
        return joined

    def _check_passages(self, names: Iterable[str], fields: Mapping[str, Any], found: Mapping[str, str]) -> None:
        """Refuse a text that stands next to a submission in one row and is read as one in another."""
        for name in names:
            if fold_column(name) not in _PASSAGES or "submission" in self.given or fields[name] in ("", None):
                continue
            is_submission = name == found["submission"]
            if self._passages.setdefault(name, is_submission) != is_submission:
                option = self.option.format(role="submission")
                problem = f"{name!r} is the only text of some rows, and is next to a submission in others"
                raise InputError(f"{self.where}: {problem}; choose one with {option}")

    def _note_json(self, fields: Mapping[str, Any], found: Mapping[str, str]) -> None:
        """Add a note if a query or reference is JSON text, as exports write it, but not a conversation."""
        for role in _NEVER_JSON.intersection(found) - self.given.keys():
            value = fields[found[role]]
            if not isinstance(value, str) or not value.startswith(("{", "[")):
                continue
            path = find_text_path(fields, found[role], is_query=role == "query")
            if path not in ("", found[role]):
                note = f"{self.where}: {found[role]!r} is JSON text, read whole; to read a part of it, pass "
                self._add_note(note + self.option.format(role=role).replace("NAME", path))

    def _find_misreading(self, fields: Mapping[str, Any], found: Mapping[str, str]) -> str:
        """Describe what would be misread (a label, a task's name, weights of a rubric); empty if nothing would."""
        for role, words in _DOUBTS.items():
            guess = found.get(role, "") if role not in self.given else ""
            if fold_column(guess) in ROLES[role].fallback and re.fullmatch(words, str(fields[guess]).strip(), re.I):
                problem = f"{guess!r} is {fields[guess]!r}, which may not be the {role}"
                label = ", or labels with --column labels=NAME" * (role == "reference")
                return f"{problem}; name the {role} with {self.option.format(role=role)}{label}"
        return next(find_weight_columns(fields, fields.get(found.get("rubric", ""))), "")

    def _add_note(self, note: str) -> None:
        self.notes += [note] * (note not in self.notes)

    def _note_guess(self, role: str, column: str) -> str:
        """Return the column; adds a note if it was guessed from an unusual name."""
        if role not in self.given and column not in ROLES[role].quiet and column != role:
            self._add_note(f"{self.where}: column {column!r} is read as the {role}")
        return column

    def _choose_column(self, role: str, names: list[str], fields: dict[str, Any]) -> str:
        """Return the column to read of several: the only one with a value, or the role's own."""
        known = ROLES[role]
        full = [name for name in names if Record("", 0, fields, {role: name}).read_value(role) is not None]
        if role == "query" and any(isinstance(fields[name], str | list) for name in full):
            full = [name for name in full if not isinstance(fields[name], int | float)]  # such as `turns`: 2
        first = [name for name in full if fold_column(name) not in known.fallback]
        given = [name for name in names if isinstance(fields[name], str)] if role == "submission" else first
        own = [name for name in given if fold_column(name) == known.own]
        if len(own) == 1 and full and own[0] not in full:
            self._add_note(
                f"{self.where}: {full[0]!r} is not read where {own[0]!r} is blank, since a blank submission is one"
            )
        if known.is_ranked and first:
            return min(first, key=lambda name: known.names.index(fold_column(name)))
        if len(own) == 1:
            return self._note_guess(role, own[0])
        rivals = first or full or sorted(names, key=lambda name: fold_column(name) != known.own)[:1]
        if "reward_model" in full and len(first) == 1:
            model = find_rubric(fields["reward_model"])
            rivals = ["reward_model"] if _is_same_rubric(fields[first[0]], model) else [*first, "reward_model"]
        rivals = drop_copies(rivals, fields, self._layouts[tuple(fields)]) if role == "query" else rivals
        if len(rivals) == 1:
            return self._note_guess(role, rivals[0])
        which, option = " or ".join(map(repr, rivals)), self.option.format(role=role)
        raise InputError(f"{self.where}: the {role} may be column {which}; choose one with {option}")


def _is_same_rubric(value: Any, other: Any) -> bool:
    """Return whether two rubrics agree in all common keys; RubricHub's `reward_model` also has checks."""
    one, two = from_cell(value), from_cell(other)
    if not isinstance(one, list) or not isinstance(two, list) or len(one) != len(two):
        return bool(one == two)
    return all(_is_same_entry(first, second) for first, second in zip(one, two, strict=True))


def _is_same_entry(one: Any, two: Any) -> bool:
    are_dicts = isinstance(one, dict) and isinstance(two, dict)
    shared = one.keys() & two.keys() if are_dicts else ()
    return all(one[key] == two[key] for key in shared) if shared else bool(not are_dicts and one == two)


_OTHER_WEIGHTS = "|".join(key for key in WEIGHT_KEYS if key not in ("weight", "points", "score"))
_WEIGHTS = re.compile(rf"weight|(\A|_)points?(_|\Z)|\A({_OTHER_WEIGHTS})")  # `scores` may be verdicts


_FAULTS = re.compile(r"(negative|penalty|pitfall)_(rubrics?|criteria|rubric_items)")


def find_weight_columns(around: Mapping[str, Any], criteria: Any) -> Iterator[str]:
    """Yield a sentence for each column with weights of criteria that are plain texts, or with pitfalls; none is read.

    Example:
        >>> list(find_weight_columns({"Weights": [3, -1]}, ["Is kind.", "Is rude."]))
        ["'Weights' has the weights of the criteria; write each criterion as {'requirement': 'Is kind.', ..."]
    """
    for key in () if criteria is None else filter(lambda name: _WEIGHTS.search(fold_name(name)), around):
        texts, weights = from_cell(criteria), from_cell(around[key])
        is_list = isinstance(texts, list) and isinstance(weights, list) and 0 < len(texts) == len(weights)
        if is_list and all(isinstance(text, str) for text in texts) and None not in map(as_weight, weights):
            advice = f"write each criterion as { {'requirement': texts[0], 'weight': weights[0]}!r:.100}"
            yield f"{key!r} has the weights of the criteria; {advice}"
    for key in () if criteria is None else filter(lambda name: _FAULTS.fullmatch(fold_column(name)), around):
        if from_cell(around[key]):
            yield f"{key!r} may have criteria, which are not read; write them into the rubric with negative weights"


def join_names(columns: Iterable[str], most: int = 12) -> str:
    """Join the names of columns for a message, the first ones if there are many; with inner paths for a row.

    Example:
        >>> join_names(["a", "b", "c"], most=2)
        "'a', 'b', …"
        >>> join_names({"id": 1, "outputs": {"answer": "So.", "n": 1}})
        "'id', 'outputs' (outputs.answer)"
        >>> join_names(["id^question"])
        "'id^question' (the delimiter of a table is a comma, semicolon, tab or |)"
    """
    row = columns if isinstance(columns, Mapping) else {}
    names = []
    for name in columns:
        paths = [path for path in find_paths(row.get(name), name) if "." in path.removeprefix(name)]
        names.append(f"{name!r} ({format_first(paths)})" if paths else repr(name))
    if len(names) == 1 and re.search(r"^(?!'Unnamed: ).*\w ?[\^~:!#&*+=/\\¦§] ?\w", names[0]):
        names[0] += " (the delimiter of a table is a comma, semicolon, tab or |)"
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])]) or "none"
