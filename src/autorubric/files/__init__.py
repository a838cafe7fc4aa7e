"""Files in and out: strict text, strict JSON, YAML and JSONL, Parquet, atomic writes.

Reading is strict, so that a mistake is found where it was made: every offender of a file is collected and
named with file, row and key. A UTF-8 byte order mark is skipped; any other encoding than UTF-8 is an error.
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
