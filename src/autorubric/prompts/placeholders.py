"""Prompt files of the public pipeline: plain text with `<<query>>` or `{|prompt|}` placeholders."""

import json
import re
from typing import Any, NamedTuple, TypeAlias

from autorubric.errors import InputError
from autorubric.prompts.fences import collect_texts, fence, section_code
from autorubric.prompts.template import Template, Turn, compute_fingerprint, is_list_prompt

_PLACEHOLDER = re.compile(r"(<<[A-Za-z_]\w*>>|\{\|[A-Za-z_]\w*\|\})")


class Placeholder(NamedTuple):
    """The meaning of a placeholder: a value, or one entry of a list value."""

    variable: str
    entry: int | None = None


class SeedFile(NamedTuple):
    """One of the four prompt files of the public pipeline: its prompt, and the placeholders it may contain."""

    prompt: str
    places: dict[str, Placeholder]


SEED_FILES: dict[str, SeedFile] = {
    "reference.txt": SeedFile("reference", {"<<query>>": Placeholder("query")}),
    "rubric_generation.txt": SeedFile(
        "rubric", {"<<query>>": Placeholder("query"), "<<reference>>": Placeholder("reference")}
    ),
    "rubric_aggregation.txt": SeedFile(
        "merge",
        {
            "{|prompt|}": Placeholder("query"),
            "{|rubrics1|}": Placeholder("sets", 0),
            "{|rubrics2|}": Placeholder("sets", 1),
        },
    ),
    "difficulty_evolution.txt": SeedFile(
        "augment",
        {
            "{|prompt|}": Placeholder("query"),
            "{|rubrics|}": Placeholder("rubrics"),
            "{|response1|}": Placeholder("responses", 0),
            "{|response2|}": Placeholder("responses", 1),
        },
    ),
}


class PlaceholderTemplate:
    """A prompt with the public pipeline's placeholders, sent as one user message.

    All placeholders are filled in one pass, so a query may contain `<<reference>>`. Rubrics are written as indented
    JSON, a query with several turns as a transcript in sections.

    Args:
        file_name: one of the four names in `SEED_FILES`.
        source: the text.
        origin: where the text came from, for messages and manifests.

    Attributes:
        fingerprint: a short hash of name and source, which identifies the prompt.
        variables: the names of the values that the text uses.
        counts: the number of entries that a list value must have.
        wants_list: whether it asks for a JSON array rather than an object.

    Raises:
        InputError: placeholders are missing or unknown; all of them are listed.

    Example:
        >>> prompt = PlaceholderTemplate("rubric_generation.txt", "Q: <<query>> R: <<reference>>", "r.txt")
        >>> prompt.render(query="why <<reference>>?", reference="because")
        (('user', 'Q: why <<reference>>? R: because'),)
    """

    __slots__ = ("_parts", "counts", "fingerprint", "name", "origin", "source", "variables", "wants_list")

    def __init__(self, file_name: str, source: str, origin: str) -> None:
        self.name, places = SEED_FILES[file_name]
        self.source, self.origin = source, origin
        self.fingerprint = compute_fingerprint(self.name, source)
        self.wants_list = is_list_prompt(source)
        self.variables = frozenset(place.variable for place in places.values())
        self.counts = _count_entries(places)
        pieces = _PLACEHOLDER.split(source)
        _refuse_odd_placeholders(pieces[1::2], places, origin)
        self._parts: tuple[str | Placeholder, ...] = tuple(
            places[piece] if index % 2 else piece for index, piece in enumerate(pieces)
        )

    def render(self, /, **values: Any) -> tuple[Turn, ...]:
        """Return the filled-in text as a single user message.

        Raises:
            InputError: a value is missing, or a list has another number of entries than the text has placeholders.
        """
        problems = [f"{self.origin} needs {name!r}" for name in sorted(self.variables - values.keys())]
        problems += [
            f"{self.origin} takes exactly {count} {name}; {len(values[name])} given"
            for name, count in self.counts.items()
            if name in values and len(values[name]) != count
        ]
        if problems:
            raise InputError(problems)
        text = "".join(part if isinstance(part, str) else _render_value(part, values) for part in self._parts)
        return (("user", text),)

    def __repr__(self) -> str:
        return f"PlaceholderTemplate({self.name!r}, origin={self.origin!r}, fingerprint={self.fingerprint!r})"


Prompt: TypeAlias = Template | PlaceholderTemplate
"""A prompt from any kind of file."""


def _count_entries(places: dict[str, Placeholder]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for variable, entry in places.values():
        if entry is not None:
            counts[variable] = max(counts.get(variable, 0), entry + 1)
    return counts


def _refuse_odd_placeholders(found: list[str], places: dict[str, Placeholder], origin: str) -> None:
    expected = ", ".join(places)
    problems = [f"{origin}: placeholder {name} is missing" for name in places if name not in found]
    problems += [
        f"{origin}: unknown placeholder {name}; expected {expected}"
        for name in dict.fromkeys(found)
        if name not in places
    ]
    if problems:
        raise InputError(problems)


def _render_value(place: Placeholder, values: dict[str, Any]) -> str:
    value = values[place.variable]
    if place.entry is not None:
        value = value[place.entry]
    if isinstance(value, str):
        return value
    if place.variable == "query":
        return fence(value, "conversation", section_code(collect_texts(list(values.values()))))
    # The format of the public pipeline, so that prompts are identical.
    return json.dumps(value, ensure_ascii=False, indent=2)
