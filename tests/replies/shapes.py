"""Shapes in which models send a reply: each turns the entries of a good reply into what is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from autorubric.llm.request import Reply

Entries = Sequence[dict[str, Any]]
DOSE = "Names 4 g as the largest dose [per day]."
TEXTS = (DOSE, "Warns of alcohol; says why.")


def dumps(value: Any, **how: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **how)


@dataclass(frozen=True)
class Sent:
    """Entries on their way into a reply.

    Attributes:
        entries: all of them; one for a role without a list.
        key: what the list is under; empty for a role without a list.
        name: the field that an entry is known by.
        other: an entry that says something else, for a role without a list.
    """

    entries: Entries
    key: str
    name: str
    other: dict[str, Any]

    @property
    def value(self) -> Any:
        return {self.key: list(self.entries)} if self.key else self.entries[0]

    @property
    def draft(self) -> Any:
        """An earlier or smaller reply: the first entry alone, or the opposite verdict."""
        return {self.key: list(self.entries[:1])} if self.key else self.other

    @property
    def json(self) -> str:
        return dumps(self.value)

    def under(self, key: str) -> str:
        return dumps({key: list(self.entries) if self.key else self.value})

    def keyed(self) -> dict[str, Any]:
        """The entries by the field they are known by."""
        return {one[self.name]: {key: one[key] for key in one if key != self.name} for one in self.entries}


def _fenced(text: str) -> str:
    return f"```json\n{text}\n```"


def _curly(sent: Sent) -> str:
    return re.sub(r'"([^"]*)"', r"“\1”", sent.json)


def _lines(sent: Sent, mark: Callable[[int], str]) -> str:
    rows = (", ".join(f"**{key}**: {value}" for key, value in one.items()) for one in sent.entries)
    return "\n".join(f"{mark(number)} {row}" for number, row in enumerate(rows, 1))


def _table(sent: Sent) -> str:
    head = list(sent.entries[0])
    rows = (" | ".join(str(one[key]) for key in head) for one in sent.entries)
    return "\n".join(f"| {row} |" for row in (" | ".join(head), " | ".join("---" for _ in head), *rows))


def _tags(sent: Sent) -> str:
    entries = ("".join(f"<{key}>{value}</{key}>" for key, value in one.items()) for one in sent.entries)
    return "<reply>" + "".join(f"<entry>{one}</entry>" for one in entries) + "</reply>"


def _groups(sent: Sent) -> list[dict[str, Any]]:
    return [{"category": "Content", "criteria": sent.entries[:1]}, {"category": "Care", "criteria": sent.entries[1:]}]


def _run_together(sent: Sent) -> str:
    """Two entries without the brackets and the comma between them."""
    return dumps({sent.key: sent.entries}).replace("}, {", ", ")


def _left_out(sent: Sent) -> str:
    return f"{dumps(sent.draft)[:-2]}, ...]}}" if sent.key else f"{dumps(sent.draft)[:-1]}, ...}}"


def _channels(sent: Sent) -> str:
    final = f"<|channel|>final<|message|>{sent.json}<|return|>"
    return f"<|channel|>analysis<|message|>{dumps(sent.draft)}<|end|><|start|>assistant{final}"


WRITERS: dict[str, Callable[[Sent], str]] = {
    "as asked for": lambda sent: sent.json,
    "a bare list": lambda sent: dumps(list(sent.entries)),
    "a fence": lambda sent: _fenced(dumps(sent.value, indent=2)),
    "a fence with prose around": lambda sent: f"Here it is:\n\n{_fenced(sent.json)}\n\nI chose [1] the {{weights}}.",
    "prose around": lambda sent: f"Sure! Here is the rubric:\n{sent.json}\nLet me know [what you think].",
    "a draft, then all": lambda sent: f"Draft:\n{_fenced(dumps(sent.draft))}\nFinal:\n{_fenced(sent.json)}",
    "all, then an example": lambda sent: f"{_fenced(sent.json)}\nSuch as:\n{_fenced(dumps(sent.draft))}",
    "two parts": lambda sent: "\n\n".join(_fenced(dumps({sent.key: [one]})) for one in sent.entries),
    "thinking with a draft": lambda sent: f"<think>Perhaps {dumps(sent.draft)}?</think>\n{sent.json}",
    "thinking without its start": lambda sent: f"Perhaps {dumps(sent.draft)}?\n</think>\n\n{sent.json}",
    "thinking in a channel": _channels,
    "thinking that never ends": lambda sent: f"<think>Perhaps {sent.json}",
    "a wrapper": lambda sent: dumps({"result": sent.value}),
    "a wrapper in Chinese": lambda sent: sent.under("评分标准"),
    "another list next to it": lambda sent: dumps({**sent.value, "examples": [{"text": "4 g a day"}]}),
    "two lists under known keys": lambda sent: dumps({"criteria": sent.entries[:1], "rubrics": sent.entries[1:]}),
    "JSON in a string": lambda sent: dumps(sent.json),
    "JSON in a value": lambda sent: dumps({sent.key or "output": dumps(sent.entries if sent.key else sent.value)}),
    "each entry as JSON in a string": lambda sent: dumps([dumps(one) for one in sent.entries]),
    "entries by name": lambda sent: dumps({sent.key: sent.keyed()}),
    "entries by name, bare": lambda sent: dumps(sent.keyed()),
    "groups of entries": lambda sent: dumps({sent.key: _groups(sent)}),
    "groups by name": lambda sent: dumps({sent.key: {"Content": sent.entries[:1], "Care": sent.entries[1:]}}),
    "one entry a line": lambda sent: "\n".join(map(dumps, sent.entries)),
    "Python": lambda sent: str(sent.value),
    "trailing commas": lambda sent: sent.json.replace("}", ",}").replace("}]", "},]"),
    "comments": lambda sent: dumps(sent.value, indent=2).replace(",\n", ", // so it is\n"),
    "curly quotes": _curly,
    "quotes not escaped": lambda sent: sent.json.replace('\\"', '"'),
    "a raw line break": lambda sent: sent.json.replace("\\n", "\n"),
    "keys in camel case": lambda sent: re.sub(r'_([a-z])(?=\w*":)', lambda found: found[1].upper(), sent.json),
    "underscores as in Markdown": lambda sent: sent.json.replace("_", r"\_"),
    "thinking in a channel, without its marks": lambda sent: (
        f"analysisPerhaps {dumps(sent.draft)}assistantfinal{sent.json}"
    ),
    "a bulleted list": lambda sent: _lines(sent, lambda number: "-"),
    "a numbered list": lambda sent: _lines(sent, lambda number: f"{number}."),
    "a table": _table,
    "tags": _tags,
    "YAML": lambda sent: yaml.safe_dump(sent.value),
    "an apology": lambda sent: "I'm sorry, but I can't help with that.",
    "an empty list": lambda sent: "[]",
    "an empty list under its key": lambda sent: dumps({sent.key or "result": []}),
    "entries left out": _left_out,
    "an entry that is none": lambda sent: dumps({sent.key: [*sent.entries[:1], {"note": "and so on"}]}),
    "entries run together": _run_together,
    "40 entries": lambda sent: sent.json,
    "nothing": lambda sent: " \n",
}


def replies(name: str, sent: Sent) -> Reply:
    """The reply of a shape."""
    whole = {
        "thoughts in their field and no text": Reply("", reasoning=f"Perhaps {sent.json}"),
        "a refusal in its field": Reply("", refusal="I can't help with that."),
        "a content filter": Reply(sent.json, finish_reason="content_filter"),
        "closed, but cut off": Reply(sent.json, finish_reason="length", limit=2048),
    }
    return whole[name] if name in whole else Reply(WRITERS[name](sent))
