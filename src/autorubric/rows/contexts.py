"""Columns with a context or a reference, which models should see."""

import re

from autorubric.rows.columns import fold_column

_CONTEXT = re.compile(
    r"(.*_)?(contexts?|history|documents?|passages?|articles?|background|source_text)"
    r"|(system|developer)(_(prompt|message|instruction)s?)?"
)
_ANSWER = re.compile(
    r"(.*_)?(gold(en)?|targets?|references?)|expected|ideal|solution|(参考|标准)答案"
    r"|(.*_)?(gold(en)?|ideal|expected|desired|correct|best|reference)_(answer|response|output|solution|text)s?"
)


def is_for_models(column: str, *, reference: bool = True) -> bool:
    """Return whether a column has the name of a context or a reference, which models should see.

    Example:
        >>> [is_for_models(name) for name in ("System Prompt", "chat_history", "gold_answer", "system_output")]
        [True, True, True, False]
    """
    name = fold_column(column)
    return bool(_CONTEXT.fullmatch(name) or (reference and _ANSWER.fullmatch(name)))
