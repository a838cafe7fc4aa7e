"""Rows as people have them: files of every kind, pipes and dataset folders, one reader and one table of names."""

from autorubric.files.json_values import memory_rows, without_nulls
from autorubric.rows.columns import RowReader, listed
from autorubric.rows.kind import is_dataset_folder
from autorubric.rows.reading import RowFile, iter_objects, read_rows, row_file
from autorubric.rows.record import Record
from autorubric.rows.stream import input_name, is_stream

__all__ = [
    "Record",
    "RowFile",
    "RowReader",
    "input_name",
    "is_dataset_folder",
    "is_stream",
    "iter_objects",
    "listed",
    "memory_rows",
    "read_rows",
    "row_file",
    "without_nulls",
]
