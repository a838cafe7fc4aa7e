"""The fenced code blocks of a Markdown text."""

from __future__ import annotations

import re
from typing import NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\r\n]*)\r?\n?$")


class CodeBlock(NamedTuple):
    """One fenced block: the first word after its fence in lower case, and what stands inside."""

    language: str
    body: str


def fenced_blocks(text: str) -> list[CodeBlock]:
    r"""Every fenced block in order; one that is never closed runs to the end, as in CommonMark.

    Example:
        >>> fenced_blocks("Run:\n```Python\nprint(1)\n```\n")
        [CodeBlock(language='python', body='print(1)\n')]
    """
    blocks: list[CodeBlock] = []
    fence, language, inside = "", "", ""
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line)
        if not fence:
            if match and "`" not in match[2]:
                fence, language, inside = match[1], (match[2].split() or [""])[0].lower(), ""
        elif match and match[1].startswith(fence) and not match[2].strip():
            blocks.append(CodeBlock(language, inside))
            fence = ""
        else:
            inside += line
    return [*blocks, CodeBlock(language, inside)] if fence else blocks


def unfenced(text: str) -> str:
    r"""The text without the one fence that encloses it, or the text itself.

    Example:
        >>> unfenced("```json\n[1]\n```")
        '[1]\n'
    """
    stripped = text.strip()
    lines = stripped.splitlines()
    opening, closing = (_FENCE.match(lines[0]), _FENCE.match(lines[-1])) if len(lines) > 1 else (None, None)
    if not (opening and closing and closing[1].startswith(opening[1]) and not closing[2].strip()):
        return text
    blocks = fenced_blocks(stripped)
    return blocks[0].body if len(blocks) == 1 else text
