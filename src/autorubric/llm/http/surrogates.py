"""Half characters that UTF-8 cannot hold, and that models and data sets send all the same."""

from __future__ import annotations


def clean(text: str) -> str:
    r"""`text` with lone surrogates replaced by U+FFFD and pairs of them joined.

    Example:
        >>> clean("half \ud83d of a pair") == "half \ufffd of a pair"
        True
        >>> clean("a whole pair \ud83d\ude00") == "a whole pair \U0001f600"
        True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
