"""Rows as people have them: files of every kind, pipes and dataset folders, one reader and one table of names."""

from autorubric.rows.columns import Guess, first_of, listed
from autorubric.rows.folder import is_dataset_folder
from autorubric.rows.reading import (
    Part,
    Record,
    RowFile,
    objects_of,
    read_rows,
    row_file,
    with_usual_names,
    without_nulls,
)
from autorubric.rows.stream import is_stream, name_of

__all__ = [
    "Guess",
    "Part",
    "Record",
    "RowFile",
    "first_of",
    "is_dataset_folder",
    "is_stream",
    "listed",
    "name_of",
    "objects_of",
    "read_rows",
    "row_file",
    "with_usual_names",
    "without_nulls",
]
