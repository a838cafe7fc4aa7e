"""Markdown and code: headings, lists, tables, code blocks."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from annotated_types import Ge, Le, MinLen

from autorubric.checks.check import CannotCheck, CheckOutcome, check, judge_count, quote
from autorubric.checks.length import Count
from autorubric.errors import pluralize

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


_LONGEST = 200_000
_LISTS = {"bullet_list": "bullet", "ordered_list": "numbered"}


@check("markdown_headings")
def markdown_headings(
    text: str,
    *,
    level: Annotated[int, Ge(1), Le(6)] | None = None,
    titles: Annotated[list[str], MinLen(1)] | None = None,
    at_least: Count = 1,
    at_most: Count | None = None,
) -> CheckOutcome:
    r"""Passed when the number of headings (of a level) is within the bounds, and the titles occur in this order.

    Titles are compared ignoring case; other headings may come between them.

    Example:
        >>> markdown_headings("# Plan\n\n## Costs\n\n## Risks\n", titles=["costs", "risks"]).passed
        True
    """
    headings = [title for depth, title in _find_headings(text) if level in (None, depth)]
    following = iter(title.casefold() for title in headings)
    missing = next((title for title in titles or [] if title.casefold().strip() not in following), None)
    if missing is not None:
        return CheckOutcome(False, f"the heading {quote(missing)} is missing or out of order")
    return judge_count(len(headings), "heading", at_least=at_least, at_most=at_most)


@check("list_shape")
def list_shape(
    text: str,
    *,
    kind: Literal["any", "bullet", "numbered"] = "any",
    at_least: Count | None = None,
    at_most: Count | None = None,
    lists: Count | None = None,
) -> CheckOutcome:
    r"""Passed when there are `lists` outermost lists (if given), and their number of items is within the bounds.

    Items of nested lists belong to their outer item.

    Example:
        >>> list_shape("1. a\n2. b\n   - c\n", kind="numbered", at_least=2, at_most=2, lists=1).passed
        True
    """
    found = [items for name, items in _find_outer_lists(_parse_markdown(text)) if kind in ("any", name)]
    if lists is not None and len(found) != lists:
        return CheckOutcome(False, f"{pluralize(len(found), 'list')}; expected exactly {lists}")
    if not found and at_least is None and lists is None:
        return CheckOutcome(False, "no list found")
    return judge_count(sum(found), "list item", at_least=at_least, at_most=at_most)


@check("table_shape")
def table_shape(
    text: str,
    *,
    columns: Count | None = None,
    header: Annotated[list[str], MinLen(1)] | None = None,
    at_least: Count | None = None,
    at_most: Count | None = None,
) -> CheckOutcome:
    r"""Passed when a table has these columns and header cells (ignoring case), and enough but not too many body rows.

    Example:
        >>> table_shape("| City | km |\n|---|---|\n| Uzès | 12 |\n", columns=2, at_least=1).passed
        True
    """
    outcomes = [_judge_table(cells, columns, header, at_least, at_most) for cells in _read_tables(text)]
    if not outcomes:
        return CheckOutcome(False, "no table found")
    return next((outcome for outcome in outcomes if outcome.passed), outcomes[0])


def _judge_table(
    cells: list[list[str]],
    columns: int | None,
    header: list[str] | None,
    at_least: int | None,
    at_most: int | None,
) -> CheckOutcome:
    head, *body = cells
    if columns is not None and len(head) != columns:
        return CheckOutcome(False, f"the table has {pluralize(len(head), 'column')}; expected exactly {columns}")
    if header is not None and [cell.casefold() for cell in head] != [cell.strip().casefold() for cell in header]:
        return CheckOutcome(False, f"the table's header is {head}; expected {header}")
    return judge_count(len(body), "table row", at_least=at_least, at_most=at_most)


def _find_headings(text: str) -> list[tuple[int, str]]:
    headings = (node for node in _parse_markdown(text).walk() if node.type == "heading")
    return [(int(node.tag[1]), node.children[0].content.strip()) for node in headings]


def _find_outer_lists(node: SyntaxTreeNode) -> Iterator[tuple[str, int]]:
    """Yield the kind and number of items of each list that is in no other list."""
    for child in node.children:
        if child.type in _LISTS:
            yield _LISTS[child.type], len(child.children)
        else:
            yield from _find_outer_lists(child)


def _read_tables(text: str) -> list[list[list[str]]]:
    tables = (node for node in _parse_markdown(text).walk() if node.type == "table")
    return [
        [
            [cell.children[0].content.strip() for cell in row.children]
            for part in table.children
            for row in part.children
        ]
        for table in tables
    ]


@lru_cache(maxsize=16)
def _parse_markdown(text: str) -> SyntaxTreeNode:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    if len(text) > _LONGEST:
        raise CannotCheck(f"the submission has {len(text)} characters; at most {_LONGEST} are read as Markdown")
    # Only blocks are looked at; inline content is kept as text.
    return SyntaxTreeNode(MarkdownIt("commonmark").enable("table").disable("inline").parse(text))


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\r\n]*)\r?\n?$")
_PYTHON = ("python", "py", "python3")


class CodeBlock(NamedTuple):
    """One fenced block: the first word after its fence in lower case, and its body."""

    language: str
    body: str


def find_fenced_blocks(text: str) -> list[CodeBlock]:
    r"""Return every fenced block in order; one that is never closed runs to the end, as in CommonMark.

    Example:
        >>> find_fenced_blocks("Run:\n```Python\nprint(1)\n```\n")
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


def strip_fence(text: str) -> str:
    r"""Return the text without the one fence that encloses it, or the text itself.

    Example:
        >>> strip_fence("```json\n[1]\n```")
        '[1]\n'
    """
    stripped = text.strip()
    lines = stripped.splitlines()
    opening, closing = (_FENCE.match(lines[0]), _FENCE.match(lines[-1])) if len(lines) > 1 else (None, None)
    if not (opening and closing and closing[1].startswith(opening[1]) and not closing[2].strip()):
        return text
    blocks = find_fenced_blocks(stripped)
    return blocks[0].body if len(blocks) == 1 else text


@check("code_block")
def code_block(
    text: str,
    *,
    language: str | None = None,
    at_least: Count = 1,
    at_most: Count | None = None,
) -> CheckOutcome:
    r"""Passed when the number of fenced code blocks (of a language, where given) is within the bounds.

    Example:
        >>> code_block("```sql\nselect 1;\n```", language="sql").passed
        True
    """
    wanted = language.lower() if language is not None else None
    blocks = [block for block in find_fenced_blocks(text) if wanted in (None, block.language)]
    noun = "code block" if wanted is None else f"{wanted} code block"
    return judge_count(len(blocks), noun, at_least=at_least, at_most=at_most)


@check("python_parses")
def python_parses(text: str, *, where: Literal["block", "whole"] = "block", at_least: Count = 1) -> CheckOutcome:
    r"""Passed when every Python code block parses, and there are enough of them; nothing is run.

    Blocks without a language count as Python where no block is marked as such. `whole` reads the entire
    submission as one program.

    Example:
        >>> python_parses("```python\nprint(1\n```")
        CheckOutcome(passed=False, reason="Python block 1, line 1: '(' was never closed")
    """
    blocks = [CodeBlock("python", text)] if where == "whole" else _find_python_blocks(text)
    for number, block in enumerate(blocks, 1):
        problem = _find_syntax_problem(block.body)
        if problem is not None:
            return CheckOutcome(False, f"Python block {number}, {problem}")
    if len(blocks) < at_least:
        return judge_count(len(blocks), "Python block", at_least=at_least, at_most=None)
    return CheckOutcome(True, f"{pluralize(len(blocks), 'Python block')} parsed")


def _find_python_blocks(text: str) -> list[CodeBlock]:
    blocks = find_fenced_blocks(text)
    marked = [block for block in blocks if block.language in _PYTHON]
    return marked or [block for block in blocks if not block.language]


def _find_syntax_problem(source: str) -> str | None:
    if len(source) > _LONGEST:
        raise CannotCheck(f"the code has {len(source)} characters; at most {_LONGEST} are parsed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the code is not the caller's fault
            ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except ValueError as error:
        return f"line 1: {error}"
    except (RecursionError, MemoryError):
        raise CannotCheck("the code is nested too deeply to be parsed") from None
    return None
