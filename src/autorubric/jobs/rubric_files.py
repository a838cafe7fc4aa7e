"""`autorubric.lint` and `autorubric.convert`: rubric files, without a model."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BeforeValidator, PlainValidator

from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, collected
from autorubric.files.remote import make_path
from autorubric.formats import Conversion, Options
from autorubric.formats import convert as convert_file
from autorubric.formats.file_audit import Polarity
from autorubric.formats.format_registry import IN_ROW
from autorubric.jobs.job import Columns, column_setting, job
from autorubric.jobs.submissions import parse_columns
from autorubric.linting import SEVERITIES, Finding, Rule, chosen_rules, lint_raw_rubric, lint_rubric
from autorubric.linting.criterion_words import detect_language
from autorubric.linting.records import NO_RUBRIC, is_row
from autorubric.linting.rubric_sources import iter_rubrics, iter_rubrics_in_memory
from autorubric.rows import Table, convert_rows
from autorubric.rows.columns import COLUMN_OPTION
from autorubric.settings import FileName, FileNames, LocalName, Names, Settings, setting

_Row: TypeAlias = Mapping[str, Any]
LintData: TypeAlias = (
    Rubric | RubricDataset | Path | str | Table | _Row | Sequence[Path | str | Rubric | Criterion | _Row]
)
"""One or several rubrics, data that `Rubric.from_dict` reads, a dataset, rows with rubrics, or such files."""

_ROLES = ("query", "rubric", "id", "reference")


def _check_data(value: Any) -> Any:
    if isinstance(value, str | Path):
        return [make_path(value)]
    if isinstance(value, list | tuple) and value and all(isinstance(entry, str | Path) for entry in value):
        return [make_path(entry) for entry in value]
    if isinstance(value, RubricDataset):
        return json.loads(value.to_json())
    rows = convert_rows(value)
    if isinstance(rows, list | tuple) and any(isinstance(row, Rubric) for row in rows):
        if not all(isinstance(row, Rubric) for row in rows):
            raise ValueError("expected a list of Rubrics or a list of criteria, got both in one list")
        return [{"question": "", "rubric": row.to_dict()} for row in rows]
    if isinstance(rows, Rubric | list | tuple | Mapping):
        return rows
    raise ValueError(
        "expected a Rubric, a list of Rubrics, criteria, a RubricDataset, rows with rubrics, or paths of files"
    )


def _check_ids(value: Any) -> Any:
    given = [value] if isinstance(value, str) else value
    ids = [name.strip() for listed in given for name in listed.split(",") if name.strip()]
    if given and not ids:
        raise ValueError("expected ids of rules; --list-rules shows them all")
    return ids


def list_severities(fail_on: str) -> Sequence[str]:
    """Return the severities that are at least as high as `fail_on`; none for `never`."""
    return SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on != "never" else ()


class LintSettings(Settings):
    """The settings of `autorubric.lint` and `autorubric lint`.

    Example:
        >>> LintSettings(data="rubric.json", fail_on="warning").fail_on
        'warning'
    """

    data: Annotated[LintData, PlainValidator(_check_data)] | None = setting(
        None,
        "Rubrics, datasets or rows: JSON, YAML, JSONL, Parquet.",
        flag="FILE…",
        argument=True,
        many=True,
        group="Input",
        reads=True,
    )
    column: Columns = column_setting("Column of rows, or path, such as query=turns[0]; repeatable.")
    select: Annotated[Names, BeforeValidator(_check_ids)] = setting(
        (), "Run only these rules (comma-separated ids).", group="Rules"
    )
    ignore: Annotated[Names, BeforeValidator(_check_ids)] = setting(
        (), "Skip these rules (comma-separated ids).", group="Rules"
    )
    list_rules: bool = setting(False, "List the rules and exit.", group="Rules")
    format: Literal["text", "json", "sarif"] = setting("text", "text, json or sarif.", group="Output")
    fail_on: Literal["error", "warning", "note", "never"] = setting(
        "error", "Severity for status 100: error, warning, note, never.", group="Output"
    )

    def choose_rules(self) -> Sequence[Rule]:
        """Return the rules to run."""
        return chosen_rules(list(self.select), list(self.ignore))


class LintRun:
    """Iterates over the findings in files; the counts are complete after the last one."""

    def __init__(self, settings: LintSettings) -> None:
        if not settings.data:
            raise InputError("no input file; pass FILE")
        self._data, self._rules = settings.data, settings.choose_rules()
        self._columns = parse_columns(settings.column, _ROLES)
        self.criteria = self.rubrics = 0
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[str] = Counter()
        self.by_language: Counter[str | None] = Counter()
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[Finding]:
        for finding in self._find():
            self.by_severity[finding.severity] += 1
            self.by_rule[finding.rule] += 1
            yield finding

    def has_failed(self, fail_on: str) -> bool:
        """Return whether there is a finding at least as severe as `fail_on`."""
        return any(self.by_severity[name] for name in list_severities(fail_on))

    def raise_problems(self) -> None:
        """Raise an error if something could not be read; for rows without a rubric, it names the column option.

        Raises:
            InputError: something could not be read; lists every problem.
        """
        if self.problems:
            bare = any(problem.endswith(NO_RUBRIC) for problem in self.problems)
            option = f"name the column of the rubric with {COLUMN_OPTION.format(role='rubric')}"
            raise InputError(self.problems, option if bare else "")

    def _find(self) -> Iterator[Finding]:
        data: Any = self._data
        if isinstance(data, Rubric) or not _is_read(data, self._columns):
            yield from lint_rubric(data, rules=self._rules)
            return
        is_files = not isinstance(data, Mapping) and isinstance(data[0], Path)
        for source in data if is_files else [data]:
            with collected(self.problems):
                read = iter_rubrics if is_files else iter_rubrics_in_memory
                for rubric in read(source, self.problems, self._columns):
                    self.rubrics += 1
                    self.criteria += len(rubric.criteria)
                    texts = "\n".join(criterion.wording.own for criterion in rubric.criteria)
                    self.by_language[detect_language(texts)] += 1
                    yield from lint_raw_rubric(rubric, self._rules)


def _is_read(data: Any, columns: Mapping[str, str]) -> bool:
    """Return whether the data contains rubrics (files, a dataset or rows) rather than the criteria of one rubric."""
    if isinstance(data, Mapping) or isinstance(data[0], Path):
        return True
    return any(isinstance(row, Mapping) and (bool(columns) or is_row(row)) for row in data)


@job(LintSettings)
def lint(data: LintData | None, settings: LintSettings) -> list[Finding]:
    """Find weak or faulty criteria in rubrics, without a model.

    Args:
        data: a rubric or a list of rubrics, the criteria of one, a dataset, rows with rubrics such as those of
            `synthesize`, or one or several files. The row of a finding is the position in the list, from 1.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: a file or a rubric cannot be read, or a rule is unknown.

    Example:
        >>> found = lint([{"requirement": "Is written in an appropriate tone.", "weight": 3}])
        >>> [(finding.rule, finding.criterion) for finding in found]
        [('criteria-count', None), ('vague-words', 1)]
    """
    run = LintRun(settings)
    found = list(run)
    run.raise_problems()
    return found


ConvertSource: TypeAlias = Path | str
"""The file to read; its suffix gives the file type."""


class ConvertSettings(Settings):
    """The settings of `autorubric.convert` and `autorubric convert`.

    Example:
        >>> ConvertSettings(source="rubrics.jsonl", to="healthbench").to
        'healthbench'
    """

    source: FileName | None = setting(
        None, "File to read; its suffix gives the file type.", flag="IN", argument=True, group="Input", reads=True
    )
    target: LocalName | None = setting(
        None, "File to write; its suffix gives the file type.", flag="OUT", argument=True, group="Input"
    )
    from_: str | None = setting(None, "Format of IN (default: detected from its keys).", flag="--from", group="Input")
    column: Columns = column_setting("Column of rows in no known format, or path; repeatable.")
    to: str | None = setting(None, "Format of OUT; --list shows the formats.", group="Output")
    polarity: Polarity = setting(
        "as-is",
        "met-is-bad, met-is-good, as-is or audit.",
        group="Input",
    )
    against: FileNames = setting(
        (), "Another split; questions that are in both are reported.", group="Input", reads=True
    )
    extras: Literal["keep", "drop"] = setting(
        "keep",
        "Fields that the format lacks: keep or drop.",
        group="Output",
    )
    strict: bool = setting(False, "Write nothing if anything would be lost.", group="Output")
    force: bool = setting(False, "Replace OUT if it has other content.", group="Output")
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json", group="Output")
    list_formats: bool = setting(False, "List the formats and exit.", flag="--list")


@job(ConvertSettings)
def convert(source: ConvertSource | None, settings: ConvertSettings) -> Conversion:
    """Convert rubric data between formats, and report losses, contradictory signs and duplicate questions.

    Args:
        source: the file to read.
        settings: the keyword arguments, as a settings object; `target` is the file to write and `to` its format.

    Raises:
        InputError: a row is wrong, a format is unknown, or `strict` is set and something would be lost.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> line = '{"question": "Why?", "id": "q1", "rubrics": [{"criterion": "Says why.", "points": 5}]}'
        >>> _ = (folder / "final.jsonl").write_text(line)
        >>> done = convert(folder / "final.jsonl", target=folder / "rows.parquet", to="verl")
        >>> done.source, done.records, dict(done.lost)
        ('rubrichub', 1, {})
    """
    if source is None:
        raise InputError("no input file; pass IN, or --list to see the formats")
    if settings.target is None and settings.polarity != "audit":
        raise InputError("no output file; pass OUT, or --polarity audit to report only")
    columns = parse_columns(settings.column, IN_ROW)
    if columns and settings.from_ is not None:
        raise InputError("--column (in Python: column) names columns of rows in no named format; leave out --from")
    options = Options(
        settings.from_,
        settings.polarity,
        tuple(cast("list[Path]", settings.against)),
        carry=settings.extras == "keep",
        strict=settings.strict,
        force=settings.force,
        columns=columns,
    )
    return convert_file(source, settings.target, settings.to, options)
