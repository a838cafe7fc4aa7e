"""Converts files of other projects to records and back."""

from autorubric.formats.containers import write_release
from autorubric.formats.conversion import Conversion, Options, convert, read_records, write_records
from autorubric.formats.file_audit import PolarityAudit
from autorubric.formats.format import Format, Record, Written
from autorubric.formats.format_registry import FORMATS, detect, find_format, list_format_names, list_formats

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
    "find_format",
    "list_format_names",
    "list_formats",
    "read_records",
    "write_records",
    "write_release",
]
