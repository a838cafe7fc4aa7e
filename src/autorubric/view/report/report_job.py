"""`autorubric.report` and `autorubric.verify`: a run as one file, and the check of that file."""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from markupsafe import Markup
from pydantic import model_validator

from autorubric.errors import ConfigError, InputError
from autorubric.files import write_atomically
from autorubric.files.printable import to_utf8
from autorubric.jobs.job import RunSource, job, refuse_existing, run_job
from autorubric.jobs.label_source import LabelChoice, note_other_labels
from autorubric.jobs.status import RunDirectory
from autorubric.settings import FileName, NewDirectory, setting
from autorubric.view.page import PageQuery, PageRefusal
from autorubric.view.rendering import build_environment, read_asset, render_html
from autorubric.view.report import verification
from autorubric.view.report.contents import ReportScope, Section, build_contents, indexed
from autorubric.view.report.markdown_report import render_markdown

_ITEMS = re.compile(r"all|worst:(\d{1,9})")
_ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LAYOUT = 2  # of the numbers in a report
_TEXTS: Mapping[str, Callable[[str, str], Iterable[verification.Mismatch]]] = {
    "html": verification.compare_texts,
    "md": verification.compare_lines,
    "json": lambda reported, found: (),
}
"""How the text that is shown is compared, by form."""


class ReportSettings(LabelChoice):
    """The settings of `autorubric.report` and `autorubric report`.

    Example:
        >>> ReportSettings(run="graded", out="report.html").out.name
        'report.html'
    """

    run: RunSource = setting(..., "Run directory of grade, select or synthesize.", argument=True, group="Input")
    against: RunSource | None = setting(
        None, "Run on the same items to compare with, as the baseline.", metavar="RUN", group="Input"
    )
    by: str | None = setting(
        None, "Metadata column of the items, such as model: compare the groups.", metavar="COLUMN", group="Input"
    )
    out: NewDirectory | None = setting(
        None, "File to write; - (the default): standard output.", short="-o", group="Output"
    )
    items: str = setting("worst:50", "Items (or rubrics) to show: worst:N or all.", group="Output")
    no_text: bool = setting(False, "Leave out all texts; names and ids stay.", group="Output")
    format: Literal["html", "md", "json"] | None = setting(
        None, "html, md or json; default: by the suffix of --out, else html.", group="Output"
    )
    force: bool = setting(False, "Replace the file of --out if it exists.", group="Output")

    @model_validator(mode="after")
    def _check_items(self) -> Self:
        if not _ITEMS.fullmatch(self.items):
            raise ConfigError(f"--items {self.items[:40]!a}; expected all, or worst:N such as worst:50")
        return self


class VerifySettings(LabelChoice):
    """The settings of `autorubric.verify` and `autorubric verify`.

    Example:
        >>> VerifySettings(report="report.html", run="graded").run.name
        'graded'
    """

    report: FileName = setting(
        ..., "Report to check, in HTML, Markdown or JSON.", flag="REPORT", argument=True, group="Input", reads=True
    )
    run: RunSource = setting(..., "Run that the report was made from.", flag="RUN", argument=True, group="Input")
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
        path: where it was written; None if it was not.

    Example:
        >>> Report("### `graded`", {"run": "graded"}).numbers["run"]
        'graded'
    """

    text: str = field(repr=False)
    numbers: dict[str, Any] = field(repr=False)
    path: Path | None = None


@run_job(ReportSettings)
def report(run: Path, settings: ReportSettings) -> Report:
    """Make one file of a run: score, agreement, criteria and lowest-scoring items, or a comparison of two runs.

    It only reads the run. The same run always gives the same bytes.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: there is no graded run, or the file exists and `force` is not set.

    Example:
        >>> report("no-such-run")
        Traceback (most recent call last):
        autorubric.errors.InputError: no-such-run does not exist; expected a run directory
    """
    target = None if settings.out is None or str(settings.out) == "-" else Path(settings.out)
    if target is not None:
        refuse_existing(target, force=settings.force)
    form = settings.format or _choose_form(target)
    chosen = {"items": settings.items, "text": not settings.no_text, **_describe_labels(settings)}
    if settings.by is not None:
        chosen["by"] = settings.by
    text, numbers = _make_report((Path(run), settings.against), settings, chosen, form)
    if others := (numbers.get("agreement") or {}).get("labels", {}).get("not_counted"):
        note_other_labels(Path(run), others)
    if target is not None:
        write_atomically(target, [text])
    return Report(text, numbers, target)


@job(VerifySettings)
def verify(report: RunDirectory, settings: VerifySettings) -> verification.Verification:
    """Recompute every number of a report from its run, and return the differences.

    Args:
        report: a file of `autorubric report`.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: it is not a report, the run does not exist, or the baseline is missing.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade, report, verify
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> run = grade(["Yes"], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> made = report(run, out=Path(tempfile.mkdtemp()) / "report.html")
        >>> verify(made.path, run=run).is_verified
        True
    """
    text, held = verification.read_report(Path(report))
    _check_layout(report, held)
    chosen = held["settings"]
    if not (isinstance(chosen.get("items"), str) and _ITEMS.fullmatch(chosen["items"])):
        raise InputError(f"{report}: its settings are damaged: items is {chosen.get('items')!a:.60}")
    if held.get("comparison") and settings.against is None:
        raise InputError(
            f"{report} compares two runs; pass the baseline with --against RUN (Python: against=) to check it"
        )
    if chosen.get("labels") and settings.is_default:
        raise InputError(f"{report} was made with other labels than those of the run; pass the same --labels")
    form = verification.detect_form(text)
    right, numbers = _make_report((Path(settings.run), settings.against), settings, chosen, form)
    made_by, own = held.pop("autorubric"), numbers.pop("autorubric")
    if "statistics" not in held and made_by != own:  # made before reports had them
        numbers.pop("statistics", None)
    differences = [] if form == "md" else list(verification.compare_numbers(held, numbers))
    note = ""
    if made_by == own:
        differences += _TEXTS[form](text, right)
    elif form != "json":
        note = (
            f"the report was made by autorubric {made_by!s:.40}, this is {own}: its numbers were compared, but not "
            "the text that it shows; verify with the version that made it"
        )
    count = len(_NUMBER.findall(right)) if form == "md" else verification.count_numbers(numbers)
    return verification.Verification(count, differences, note)


def _check_layout(report: Path | str, held: Mapping[str, Any]) -> None:
    if held.get("layout") != _LAYOUT:
        if held["autorubric"] == version("autorubric-hub"):
            raise InputError(f"{report}: it is damaged: its layout is {held.get('layout')!a:.60}, not {_LAYOUT}")
        raise InputError(
            f"{report}: made by autorubric {held['autorubric']!s:.40}, whose reports this version cannot check"
        )


def _choose_form(target: Path | None) -> str:
    """Return the form by the suffix of a file; HTML without one."""
    ending = "" if target is None else target.suffix.lower()
    if ending and ending not in _ENDINGS:
        raise InputError(
            f"{target}: the ending {ending} is not known; a report is .html (a browser can save it as PDF), "
            ".md or .json, and --format (in Python: format) writes one of them to any file"
        )
    return _ENDINGS.get(ending, "html")


def _describe_labels(choice: LabelChoice) -> dict[str, Any]:
    """Return the labels that were chosen for a report, as it records them; empty for those of the run."""
    files = [path.name for path in choice.files] or ["another dataset"]
    return {} if choice.is_default else {"labels": files, "annotator": choice.annotator}


def _make_report(
    runs: tuple[Path, Path | None], choice: LabelChoice, chosen: dict[str, Any], form: str
) -> tuple[str, dict[str, Any]]:
    """Return the text of a report in a form, and its numbers."""
    run, against = runs
    most = None if chosen["items"] == "all" else int(chosen["items"].partition(":")[2])
    by = None if chosen.get("by") is None else str(chosen["by"])  # a damaged report may have any value
    wanted = ReportScope(most, bool(chosen.get("text", True)), form != "html", by)
    with ExitStack() as stack:
        source = stack.enter_context(indexed(run, choice))
        other = None if against is None else stack.enter_context(indexed(Path(against), choice, baseline_of=source))
        for one in filter(None, (source, other)):
            one.has_text = wanted.has_text
        try:
            sections, found = build_contents(source, other, wanted)
        except PageRefusal as refusal:
            raise InputError(f"{run}: {refusal.problem}") from None
    own = version("autorubric-hub")
    numbers = {"autorubric": own, "layout": _LAYOUT, "settings": {**chosen, "text": wanted.has_text}, **found}
    if warnings := {source.name: f"{source.change}." for source in (source, other) if source and source.change}:
        numbers["warnings"] = warnings
    if form == "json":
        return dump_figures(numbers, indent=1) + "\n", numbers
    text = render_markdown(numbers) if form == "md" else render_document(sections, numbers, own)
    return to_utf8(text), numbers


_LINK = re.compile(r"<a\b([^>]*)>(.*?)</a>", re.DOTALL)  # texts are escaped, so these are the templates' own
_TARGET = re.compile(r"/(item|rubric)s/(\d+)[\"?]")
_AS_JSON = {ord(sign): f"\\u{ord(sign):04x}" for sign in "&<>"}  # shorter than the references of HTML
_HEADING = re.compile(r"(</?h)([1-4])\b")


def render_document(contents: Sequence[Section], figures: Mapping[str, Any], version: str) -> str:
    """Return the HTML file.

    Args:
        contents: what it shows, in order.
        figures: its data.
        version: of this package.
    """
    style = (read_asset("view.css") + read_asset("report.css")).decode()
    anchors = {one.anchor for one in contents}
    pages = ((section, Markup(_render_section(section, anchors, version))) for section in contents)
    sections = [{"anchor": section.anchor, "note": section.note, "html": page} for section, page in pages]
    return build_environment().get_template("report.html").render(
        name=figures["run"],
        version=version,
        style=Markup(style),
        style_hash=Markup(base64.b64encode(sha256(style.encode()).digest()).decode()),
        warnings=figures.get("warnings", {}),
        contents=[section for section in contents if section.words],
        sections=sections,
        figures=Markup(dump_figures(figures).translate(_AS_JSON)),
    )  # fmt: skip


def dump_figures(figures: Mapping[str, Any], indent: int | None = None) -> str:
    """Figures as JSON, always with the same bytes."""
    separators = (",", ":") if indent is None else None
    return json.dumps(figures, sort_keys=True, allow_nan=False, indent=indent, separators=separators)


def _render_section(section: Section, anchors: Collection[str], version: str) -> str:
    """Render a page as in the view, with only links to sections of the report, and headings one level down."""
    surroundings = {"on_paper": True, "root": "", "query": PageQuery(()), "version": version}
    text = _LINK.sub(lambda found: _rewrite_link(found, anchors), render_html(section.page, surroundings))
    return _HEADING.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", text)


def _rewrite_link(found: re.Match[str], anchors: Collection[str]) -> str:
    target = _TARGET.search(found[1])
    anchor = "" if target is None else f"{target[1]}-{target[2]}"
    return f'<a href="#{anchor}">{found[2]}</a>' if anchor in anchors else found[2]
