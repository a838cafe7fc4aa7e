"""Strict reading of text, JSON, YAML, JSON Lines and Parquet, and atomic writing.

All problems of a file are reported together, each with file, row and key. Text must be UTF-8; a byte order mark is
skipped.
"""

from autorubric.files.atomic import atomic_writer, write_atomically
from autorubric.files.keys import describe_unknown_key, find_nearest_key, suggest_name
from autorubric.files.parquet import parquet_writer
from autorubric.files.strict_json import dump_json, parse_json
from autorubric.files.text import iter_jsonl, read_document, read_text

__all__ = [
    "atomic_writer",
    "describe_unknown_key",
    "dump_json",
    "find_nearest_key",
    "iter_jsonl",
    "parquet_writer",
    "parse_json",
    "read_document",
    "read_text",
    "suggest_name",
    "write_atomically",
]
