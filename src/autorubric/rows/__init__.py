"""Reads rows from files of every kind, pipes and dataset folders, and finds what their columns contain."""

from autorubric.files.json_values import drop_nulls
from autorubric.rows.columns import RowReader, join_names
from autorubric.rows.kind import is_dataset_folder
from autorubric.rows.memory import Table, convert_rows
from autorubric.rows.reading import RowFile, inspect_file, iter_objects, list_document_rows, read_rows, unwrap_rows
from autorubric.rows.record import Record
from autorubric.rows.stream import is_stream, name_input

__all__ = [
    "Record",
    "RowFile",
    "RowReader",
    "Table",
    "convert_rows",
    "drop_nulls",
    "inspect_file",
    "is_dataset_folder",
    "is_stream",
    "iter_objects",
    "join_names",
    "list_document_rows",
    "name_input",
    "read_rows",
    "unwrap_rows",
]
