"""Text from elsewhere in Markdown documents."""

from __future__ import annotations

_SIGNS = str.maketrans({"|": "\\|", "<": "&lt;", "[": "\\[", "]": "\\]"})


def markdown_text(text: str) -> str:
    r"""A text on one line that ends no cell, opens no tag, and makes no link or picture where Markdown is shown.

    Example:
        >>> print(markdown_text("a | b <img src=x>\n![c](http://d)"))
        a \| b &lt;img src=x> !\[c\](http://d)
    """
    return " ".join(text.split()).translate(_SIGNS)
