"""`autorubric.convert`: rubric data from one format into another."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, cast

from autorubric.errors import InputError
from autorubric.formats import Conversion, Options
from autorubric.formats import convert as convert_file
from autorubric.jobs.job import job
from autorubric.settings import FileName, FileNames, Settings, setting

ConvertSource: TypeAlias = Path | str
"""The file to read; its ending says which kind."""


class ConvertSettings(Settings):
    """The settings of `autorubric.convert` and `autorubric convert`."""

    source: FileName | None = setting(
        None, "File to read; its suffix gives the file type.", flag="IN", argument=True, group="Input", reads=True
    )
    target: FileName | None = setting(
        None, "File to write; its suffix gives the file type.", flag="OUT", argument=True, group="Input"
    )
    from_: str | None = setting(None, "Format of IN (default: detected from its keys).", flag="--from", group="Input")
    to: str | None = setting(None, "Format of OUT; --list shows all.", group="Output")
    polarity: str = setting(
        "as-is",
        "Meaning of a met criterion of negative weight in IN: met-is-bad (a fault), met-is-good (becomes a demand), "
        "as-is (leave it), or audit (report only, write nothing).",
        group="Input",
    )
    against: FileNames = setting((), "Another split, to find shared questions.", group="Input", reads=True)
    extras: Literal["keep", "drop"] = setting(
        "keep", "Fields that OUT has no place for: keep (under the key 'autorubric') or drop.", group="Output"
    )
    strict: bool = setting(False, "Write nothing if anything would be lost.", group="Output")
    force: bool = setting(False, "Replace OUT if it has other content.", group="Output")
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json", group="Output")
    list_formats: bool = setting(False, "List the formats and exit.", flag="--list")


@job(ConvertSettings)
def convert(source: ConvertSource | None, settings: ConvertSettings) -> Conversion:
    """Convert rubric data between formats, and report what is lost, contradicts its weight's sign, or repeats.

    Args:
        source: the file to read.
        settings: the keyword arguments, as one model; `target` is the file to write and `to` its format.

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
        raise InputError("there is no file to read; pass IN, or --list to see the formats")
    if settings.target is None and settings.polarity != "audit":
        raise InputError("there is no file to write; pass OUT, or --polarity audit to report only")
    against = cast("list[Path]", settings.against)
    options = Options(
        settings.from_, settings.polarity, tuple(against), settings.extras == "keep", settings.strict, settings.force
    )
    return convert_file(source, settings.target, settings.to, options)
