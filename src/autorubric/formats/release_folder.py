"""A folder in the layout of the RubricHub release: `RuRL/`, one file a domain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path

from autorubric.errors import InputError
from autorubric.formats.containers import row_writer
from autorubric.formats.record import Record, Row
from autorubric.formats.rubrichub_release import RURL

_MOST_DOMAINS = 64
_LONGEST_NAME = 200
_STEM = "rurbichub_v1"  # spelt as published


def release_file(domain: str) -> str:
    """The name of a domain's file in the folder, spelt as published.

    One that is too long for a file's name is cut, and its digest tells it from others that begin alike.

    Example:
        >>> release_file("chat"), release_file("Instruction Following"), release_file("")
        ('RuRL/rurbichub_v1_Chat.parquet', 'RuRL/rurbichub_v1_Instruction_Following.parquet', ...)
    """
    words = re.findall(r"\w+", domain) or ["General"]
    name = "_".join(word[0].upper() + word[1:] for word in words)
    if len(name.encode()) > _LONGEST_NAME:
        digest = blake2b(name.encode(), digest_size=4).hexdigest()
        name = f"{name.encode()[:_LONGEST_NAME].decode(errors='ignore')}_{digest}"
    return f"RuRL/{_STEM}_{name}.parquet"


def write_release(folder: str | Path, records: Iterable[Record]) -> Counter[str]:
    """Write records in the layout of the release; how many went into which file.

    All files have one schema, so that `datasets.load_dataset` reads them together. They appear whole, and only when
    all records were written.

    Args:
        folder: it is made where it is missing.
        records: taken one at a time.

    Raises:
        InputError: there are more domains than files can be open, or a record does not fit.

    Example:
        >>> import tempfile
        >>> from autorubric.core.criterion import Criterion
        >>> record = Record((Criterion(weight=5, requirement="Says why."),), "Why?", domain="Medical")
        >>> dict(write_release(tempfile.mkdtemp(), [record]))
        {'RuRL/rurbichub_v1_Medical.parquet': 1}
    """
    folder = Path(folder)
    (folder / "RuRL").mkdir(parents=True, exist_ok=True)
    written: Counter[str] = Counter()
    with ExitStack() as stack:
        writers: dict[str, Callable[[Row], None]] = {}
        for record in records:
            name = release_file(record.domain)
            if name not in writers:
                if len(writers) == _MOST_DOMAINS:
                    raise InputError(f"there are more than {_MOST_DOMAINS} domains; the release has a file for each")
                writers[name] = stack.enter_context(row_writer(folder / name, RURL, carry=False))
            writers[name](RURL.write(record, columnar=True).row)
            written[name] += 1
    return written
