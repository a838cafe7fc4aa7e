"""Files of other projects to and from our nouns: one format a file."""

from autorubric.formats.containers import write_release
from autorubric.formats.conversion import Conversion, Options, convert, read_records, write_records
from autorubric.formats.format import Format, Record, Written
from autorubric.formats.format_registry import FORMATS, detect, format_named, format_names, list_formats
from autorubric.formats.polarity import PolarityAudit

__all__ = [
    "FORMATS",
    "Conversion",
    "Format",
    "Options",
    "PolarityAudit",
    "Record",
    "Written",
    "convert",
    "detect",
    "format_named",
    "format_names",
    "list_formats",
    "read_records",
    "write_records",
    "write_release",
]
