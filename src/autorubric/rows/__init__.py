"""Reads rows from files of every kind, pipes and dataset folders, and finds what their columns contain."""

from autorubric.files.json_values import without_nulls
from autorubric.rows.columns import RowReader, listed
from autorubric.rows.kind import is_dataset_folder
from autorubric.rows.memory import memory_rows
from autorubric.rows.reading import RowFile, document_rows, iter_objects, read_rows, row_file, unwrap_rows
from autorubric.rows.record import Record
from autorubric.rows.stream import input_name, is_stream

__all__ = [
    "Record",
    "RowFile",
    "RowReader",
    "document_rows",
    "input_name",
    "is_dataset_folder",
    "is_stream",
    "iter_objects",
    "listed",
    "memory_rows",
    "read_rows",
    "row_file",
    "unwrap_rows",
    "without_nulls",
]
