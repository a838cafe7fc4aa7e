"""Strict reading of text, JSON, YAML, JSON Lines and Parquet, and atomic writing.

All problems of a file are reported together, each with file, row and key. Text must be UTF-8; a byte order mark is
skipped.
"""

from autorubric.files.atomic import atomic_writer, write_atomically
from autorubric.files.keys import advice, nearest, unknown_key
from autorubric.files.parquet import parquet_writer
from autorubric.files.strict_json import dump_json, parse_json
from autorubric.files.text import iter_jsonl, read_document, read_text

__all__ = [
    "advice",
    "atomic_writer",
    "dump_json",
    "iter_jsonl",
    "nearest",
    "parquet_writer",
    "parse_json",
    "read_document",
    "read_text",
    "unknown_key",
    "write_atomically",
]
