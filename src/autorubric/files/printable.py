"""Escapes data for terminals, Markdown pages and spreadsheets, so that it cannot control them."""

import codecs
import csv
import io
import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TextIO, cast

# C0 and C1 controls (escape sequences begin with one), line separators, and what reorders text on a line.
_CONTROLS = (*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SPELT = {code: f"\\u{code:04x}" for code in _CONTROLS if chr(code) not in "\t\n"}


def escape_controls(text: str) -> str:
    r"""Escape control characters except tabs and line ends as `\u001b`, which has the same meaning inside JSON.

    Example:
        >>> escape_controls("\x1b[2Jgone\n")
        '\\u001b[2Jgone\n'
    """
    return text.translate(_SPELT).replace("\\u000d\n", "\r\n")


_SIGNS = str.maketrans({"|": "\\|", "<": "&lt;", "[": "\\[", "]": "\\]"})


def to_utf8(text: str) -> str:
    r"""Return a text that UTF-8 can encode, and so SQLite can store: lone surrogates are escaped.

    Example:
        >>> to_utf8("a\ud800")
        'a\\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def escape_markdown(text: str) -> str:
    r"""Return a text on one line that, as Markdown, cannot end a cell, open a tag, or make a link or picture.

    Example:
        >>> print(escape_markdown("a | b <img src=x>\n![c](http://d)"))
        a \| b &lt;img src=x> !\[c\](http://d)
    """
    return " ".join(text.split()).translate(_SIGNS)


# Full-width signs count as well, because some spreadsheets read them as the plain ones.
_FORMULA = re.compile(r"[\s\0]*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9.,]+(?:[eE][+-]?[0-9]+)?%?")


def escape_formula(value: Any) -> Any:
    """Mark a text that a spreadsheet would run as a formula; any other value is unchanged.

    Names and reasons are untrusted. Numbers stay numbers, negative ones too.

    Example:
        >>> escape_formula("=HYPERLINK(A1)"), escape_formula("-0.5"), escape_formula(-0.5), escape_formula("plain")
        ("'=HYPERLINK(A1)", '-0.5', -0.5, 'plain')
    """
    if not isinstance(value, str):
        return value
    # The writer leaves a bare carriage return unquoted, and readers start a new row after it.
    text = value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_formula(text: str) -> str:
    """Return a text as it was before `escape_formula` marked it; any other text unchanged.

    Example:
        >>> unescape_formula("'=HYPERLINK(A1)"), unescape_formula("'tis"), unescape_formula(escape_formula("-x"))
        ('=HYPERLINK(A1)', "'tis", '-x')
    """
    return text[1:] if text[:1] == "'" and escape_formula(text[1:]) == text else text


def align_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the lines of a table for a terminal, its columns two spaces apart; wide characters count double.

    Args:
        rows: the cells; all rows have the same length.
        right: the right-aligned columns.

    Example:
        >>> for line in align_columns([("role", "calls"), ("merge", "1,030"), ("augment", "30")], {1}):
        ...     print(line)
          role     calls
          merge    1,030
          augment     30
    """
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        fills = [" " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)]
        cells = (f + t if n in right else t + f for n, (t, f) in enumerate(zip(row, fills, strict=True)))
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines


def format_csv(rows: Iterable[Mapping[str, Any]], end: str = "\n") -> str:
    r"""Rows as CSV, safe to open in a spreadsheet.

    Example:
        >>> format_csv([{"id": "=1+1", "score": 0.5}])
        "id,score\n'=1+1,0.5\n"
    """
    listed = list(rows)
    out = io.StringIO()
    table = csv.DictWriter(out, dict.fromkeys(name for row in listed for name in row), "", lineterminator=end)
    table.writeheader()
    table.writerows({name: escape_formula(value) for name, value in row.items()} for row in listed)
    return out.getvalue()


class PrintableStream(io.TextIOWrapper):
    """A text stream that escapes control characters; see `escape_controls`."""

    def write(self, text: str) -> int:
        """Write `text`; returns its length before escaping."""
        super().write(escape_controls(text))
        return len(text)


class _UnescapedStream:
    def __init__(self, stream: PrintableStream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def unwrap_stream(stream: TextIO) -> TextIO:
    """Return the stream without escaping, for a writer that uses escape sequences and escapes the data itself."""
    return cast("TextIO", _UnescapedStream(stream)) if isinstance(stream, PrintableStream) else stream


def _escape_as_json(error: Any) -> tuple[str, int]:
    r"""Escape unencodable characters as `\u00e9`, because `\xe9` would not be valid in JSON."""
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("autorubric.json", _escape_as_json)


def protect_standard_streams() -> None:
    """Replace standard output and error by `PrintableStream`; characters that the encoding lacks are escaped too."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
            own = PrintableStream(
                stream.detach(), encoding, "autorubric.json", line_buffering=lines, write_through=through
            )
            setattr(sys, name, own)
            setattr(sys, f"__{name}__", own)
