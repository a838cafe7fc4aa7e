"""`autorubric.report` and `autorubric.verify`: a run as one file, and the check of that file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from autorubric.errors import ConfigError, InputError
from autorubric.files import write_atomically
from autorubric.jobs.job import RunSource, job
from autorubric.jobs.status import RunDirectory
from autorubric.settings import FileName, NewDirectory, Settings, setting
from autorubric.view.page import Refusal
from autorubric.view.report.contents import Contents, Wanted, contents_of, indexed
from autorubric.view.report.document import data_text, document, markdown
from autorubric.view.report.verification import (
    Difference,
    Verification,
    count_numbers,
    differing_lines,
    differing_numbers,
    differing_texts,
    form_of,
    held_numbers,
)

_ITEMS = re.compile(r"all|worst:(\d{1,9})")
_ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LAYOUT = 1  # of the numbers in a report
_TEXTS: Mapping[str, Callable[[str, str], Iterable[Difference]]] = {
    "html": differing_texts,
    "md": differing_lines,
    "json": lambda reported, found: (),
}
"""What is shown and differs, by form."""


class ReportSettings(Settings):
    """The settings of `autorubric.report` and `autorubric report`."""

    run: RunSource = setting(..., "Run directory of grade, select or synthesize.", argument=True, group="Input")
    against: RunSource | None = setting(
        None, "Run on the same items to compare with, as the baseline.", metavar="RUN", group="Input"
    )
    out: NewDirectory | None = setting(None, "File to write; standard output by default.", short="-o", group="Output")
    items: str = setting("worst:50", "Items to show, or rubrics of a synthesis run: worst:N or all.", group="Output")
    no_text: bool = setting(
        False, "Leave out submissions, reasons, quotes and all other texts; names and ids stay.", group="Output"
    )
    format: Literal["html", "md", "json"] | None = setting(
        None, "html, md or json; by default what the ending of --out says, else html.", group="Output"
    )
    force: bool = setting(False, "Replace the file of --out if it exists.", group="Output")

    @model_validator(mode="after")
    def _check_items(self) -> Self:
        if not _ITEMS.fullmatch(self.items):
            raise ConfigError(f"--items {self.items[:40]!a}; expected all, or worst:N such as worst:50")
        return self


class VerifySettings(Settings):
    """The settings of `autorubric.verify` and `autorubric verify`."""

    report: FileName = setting(
        ..., "Report to check, in HTML, Markdown or JSON.", flag="REPORT", argument=True, group="Input", reads=True
    )
    run: RunSource = setting(..., "Run that the report is on.", flag="RUN", argument=True, group="Input")
    against: RunSource | None = setting(
        None, "Baseline of the report, if it was made with --against.", metavar="RUN", group="Input"
    )
    as_json: bool = setting(False, "Print the differences as JSON.", flag="--json", group="Output")


@dataclass(frozen=True)
class Report:
    """A report on a run.

    Attributes:
        text: the whole file.
        numbers: every number in it, as JSON values.
        path: where it was written; None where it was not.
    """

    text: str = field(repr=False)
    numbers: dict[str, Any] = field(repr=False)
    path: Path | None = None


@job(ReportSettings)
def report(run: RunDirectory, settings: ReportSettings) -> Report:
    """Make one file of a run: its score, agreement, criteria and lowest items, or a comparison with another run.

    It only reads the run. The same run gives the same bytes.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as one model.

    Raises:
        InputError: there is no graded run, or the file exists and `force` is not set.

    Example:
        >>> report("no-such-run")
        Traceback (most recent call last):
        autorubric.errors.InputError: the run directory no-such-run does not exist
    """
    target = None if settings.out is None else Path(settings.out)
    if target is not None and _exists(target) and not settings.force:
        raise InputError(f"{target} exists; pass another file, or --force to replace it (Python: force=True)")
    form = settings.format or _ENDINGS.get("" if target is None else target.suffix.lower(), "html")
    text, numbers = _made(Path(run), settings.against, {"items": settings.items, "text": not settings.no_text}, form)
    if target is not None:
        write_atomically(target, [text])
    return Report(text, numbers, target)


@job(VerifySettings)
def verify(report: RunDirectory, settings: VerifySettings) -> Verification:
    """Recompute every number of a report from its run, and say which differ.

    Args:
        report: a file of `autorubric report`.
        settings: the keyword arguments, as one model.

    Raises:
        InputError: it is not a report, the run does not exist, or the baseline is missing.
    """
    text, held = held_numbers(Path(report))
    if held.get("layout") != _LAYOUT:
        raise InputError(
            f"{report}: made by autorubric {held['autorubric']}, whose reports this version cannot check"
        )
    chosen = held["settings"]
    if not (isinstance(chosen.get("items"), str) and _ITEMS.fullmatch(chosen["items"])):
        raise InputError(f"{report}: its settings are damaged: items is {chosen.get('items')!a:.60}")
    if held.get("comparison") and settings.against is None:
        raise InputError(
            f"{report} compares two runs; pass the baseline with --against RUN (Python: against=) to check it"
        )
    form = form_of(text)
    right, numbers = _made(Path(settings.run), settings.against, chosen, form)
    made_by, own = held.pop("autorubric"), numbers.pop("autorubric")
    if "statistics" not in held and made_by != own:  # made before reports had them
        numbers.pop("statistics", None)
    differences = [] if form == "md" else list(differing_numbers(held, numbers))
    note = ""
    if made_by == own:
        differences += _TEXTS[form](text, right)
    elif form != "json":
        note = (
            f"the report was made by autorubric {made_by!s:.40}, this is {own}: its numbers were compared, but not "
            "the text that it shows; verify with the version that made it"
        )
    count = len(_NUMBER.findall(right)) if form == "md" else count_numbers(numbers)
    return Verification(count, differences, note)


def _exists(target: Path) -> bool:
    try:
        target.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    return True


def _made(run: Path, against: Path | None, chosen: dict[str, Any], form: str) -> tuple[str, dict[str, Any]]:
    """The text of a report in a form, and its numbers."""
    most = None if chosen["items"] == "all" else int(chosen["items"].partition(":")[2])
    wanted = Wanted(most, bool(chosen.get("text", True)), form != "html")
    contents = _contents(run, against, wanted)
    own = version("autorubric-hub")
    settings = {"items": chosen["items"], "text": wanted.has_text}
    numbers = {"autorubric": own, "layout": _LAYOUT, "settings": settings, **contents.figures}
    if form == "json":
        return data_text(numbers, indent=1) + "\n", numbers
    text = markdown(numbers) if form == "md" else document(contents, numbers, own)
    return text.encode("utf-8", "backslashreplace").decode(), numbers


def _contents(run: Path, against: Path | None, wanted: Wanted) -> Contents:
    with ExitStack() as stack:
        source = stack.enter_context(indexed(run))
        other = None if against is None else stack.enter_context(indexed(Path(against), baseline_of=source))
        try:
            return contents_of(source, other, wanted)
        except Refusal as refusal:
            raise InputError(f"{run}: {refusal.problem}") from None
