"""A judge that asks one model about all criteria of a submission in one call."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, starmap
from typing import Any, TypeAlias

from autorubric.core.judgment import Judgment, JudgmentFailure
from autorubric.core.usage import aggregate_completion_cost, aggregate_token_usage
from autorubric.errors import ConfigError
from autorubric.graders.asking import ModelJudge, NumberType, collect_values, find_number_type, show_options
from autorubric.graders.judge import Ask, JudgeInput, ShownOptions
from autorubric.graders.judge_replies import (
    Said,
    build_judgment,
    extract_explanation,
    failed,
    find_quoted_verdict,
    read_entry,
    read_usage,
    split_reply,
)
from autorubric.graders.verdict_words import (
    HINT,
    IN_BRACKETS,
    KEY,
    MARKS,
    QUALIFIES,
    find_fields,
    find_mentions,
    find_quoted_fields,
    find_retractions,
    find_statements,
    find_verdict,
    is_limited,
)
from autorubric.llm.limits import estimate_room
from autorubric.llm.reply_json import scan_json
from autorubric.llm.request import Answer, Message, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.structured import fold_keys, read_json
from autorubric.llm.thinking import remove_thinking
from autorubric.prompts.judging import OWN_NUMBER, ask_for_own_numbers
from autorubric.prompts.library import load_schema

Entries: TypeAlias = dict[int, Judgment]
"""One judgment for each criterion asked about, with a failure if it has no usable entry."""


@dataclass(frozen=True, slots=True)
class RubricJudge(ModelJudge):
    """Asks a model about the whole rubric in one call.

    Cheaper than a call per criterion, and less accurate, because judges lose track of long rubrics. The model is
    asked once more about criteria whose entry is missing, duplicate or unusable; if that fails, only those criteria
    fail.

    Raises:
        ConfigError: the options require evidence.

    Example:
        >>> import asyncio
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.testing import ScriptedModel
        >>> said = '{"judgments": [{"criterion_id": "c0", "explanation": "Two.", "criterion_status": "MET"}]}'
        >>> judge = RubricJudge(ScriptedModel({"judge": said}))
        >>> criteria = (Criterion(requirement="Names a cause"), Criterion(requirement="Names a date"))
        >>> inputs = JudgeInput("Coal.", criteria)
        >>> reply = asyncio.run(judge.model.complete(judge.build(inputs, (0, 1))))
        >>> found = judge.read(inputs, (0, 1), reply).value
        >>> found[0].verdict, str(found[1].failure)
        (<CriterionVerdict.MET: 'MET'>, 'parse: the reply has no entry for criterion c1')
    """

    def __post_init__(self) -> None:
        if self.options.evidence:
            raise ConfigError("evidence needs one call per criterion; use CriterionJudge")

    def build(self, inputs: JudgeInput, wanted: Sequence[int]) -> Request:
        """Build the request for all wanted criteria."""
        shown = [self._find_options(inputs, index) for index in wanted]
        criteria = [_describe_criterion(inputs, index, options) for index, options in zip(wanted, shown, strict=True)]
        examples = self._build_examples(inputs, wanted)
        number_type = find_number_type([*filter(None, shown)])
        template = self.options.prompts.rubric
        template = ask_for_own_numbers(template) if number_type else template
        turns = template.render(criteria=criteria, examples=examples, **collect_values(inputs, False))
        return Request(
            tuple(starmap(Message, turns)),
            "judge",
            _load_rubric_schema(number_type),
            self.draw,
            item=inputs.item,
            room=estimate_room(entries=len(criteria)),
            constrained=not template.wants_list,
            copy=inputs.find_copy(wanted),
        )

    def read(self, inputs: JudgeInput, wanted: Sequence[int], reply: Reply) -> Answer[Entries] | Unreadable:
        """Read a judgment for each wanted criterion; the reply is unreadable only if it has no usable entry."""
        found = find_quoted_verdict(reply, inputs.submission) or _read_entries(reply)
        if isinstance(found, Unreadable):
            return found
        by_id: dict[str, list[Mapping[str, Any]]] = {}
        for entry in found.value:
            if isinstance(entry, Mapping):
                by_id.setdefault(_find_id(entry), []).append(entry)
        by_id = _resolve_numbers(by_id, wanted)
        if len(wanted) > 1 and by_id.keys() == {f"c{index + 1}" for index in wanted}:
            return Unreadable("unreadable", f"the reply numbers the criteria from c{wanted[0] + 1}, not c{wanted[0]}")
        answers = {index: self._read_answer(inputs, index, by_id.get(f"c{index}", [])) for index in wanted}
        text = remove_thinking(reply.text)
        _discard_contradicted(answers, text)
        quoted = find_quoted_fields(split_reply(text)[1], inputs.submission)
        for index, answer in answers.items():
            if isinstance(answer, Said) and answer.verdict in quoted:
                message = f"the reply is broken and quotes a verdict on criterion c{index} from the submission"
                answers[index] = Unreadable("unreadable", message)
        if all(isinstance(entry, Unreadable) for entry in answers.values()):
            first = next(entry.message for entry in answers.values() if isinstance(entry, Unreadable))
            return Unreadable("unreadable", f"the reply has no usable entry: {first}")
        entries = {index: self._build_judgment(inputs, index, entry, reply) for index, entry in answers.items()}
        first_index = wanted[0]
        entries[first_index] = replace(entries[first_index], usage=read_usage(reply), cost=reply.cost)
        asked = {f"c{index}" for index in wanted}
        extra = tuple(
            f"an entry for {name!r:.40} was left out: it was not asked for" for name in by_id if name not in asked
        )
        return Answer(entries, reply, (*found.notes, *extra))

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgment on each wanted criterion; criteria without a usable entry are requested once more."""
        settled: Entries = {}
        open_: tuple[int, ...] = tuple(wanted)
        paid = 0
        while open_ and paid < 2:
            asked = open_

            def read(
                reply: Reply, asked: tuple[int, ...] = asked, is_reask: bool = bool(settled)
            ) -> Answer[Entries] | Unreadable:
                found = self.read(inputs, asked, reply)
                if is_reask and isinstance(found, Unreadable) and found.kind != "truncated":
                    return replace(found, again=False)
                return found

            answer = await ask(self.model, self.build(inputs, asked), read, self.options.follow_up)
            if not isinstance(answer, Answer):
                lost = failed(self.judge_id, self.weight, answer)
                unpaid = replace(lost, usage=None, cost=None)
                both = {index: lost if index == asked[0] else unpaid for index in asked}
                settled |= _with_earlier_usage(settled, both)
                break
            # Replies of an earlier session are not counted, so that a resumed run requests the rest again.
            paid += answer.reply.fresh
            settled |= _with_earlier_usage(settled, answer.value)
            open_ = tuple(index for index in asked if settled[index].failure is not None)
        return [settled[index] for index in wanted]

    def _find_options(self, inputs: JudgeInput, index: int) -> ShownOptions | None:
        if inputs.criteria[index].options is None:
            return None
        return show_options(inputs, index, self.judge_id, self.options)

    def _build_examples(self, inputs: JudgeInput, wanted: Sequence[int]) -> list[dict[str, Any]]:
        if self.options.few_shot is None:
            return []

        def render_verdict(index: int, verdict: str) -> str:
            """Return the number of an option, because its label is untrusted text, which must stay in its section."""
            shown = self._find_options(inputs, index)
            return f"option {shown.find_number(verdict)}" if shown else verdict

        found = self.options.few_shot.choose_whole_examples(inputs, wanted, self.judge_id, render_verdict)
        return [example.values() for example in found]

    def _read_answer(self, inputs: JudgeInput, index: int, entries: list[Mapping[str, Any]]) -> Said | Unreadable:
        if not entries:
            return Unreadable("unreadable", f"the reply has no entry for criterion c{index}")
        if len(entries) > 1:
            return Unreadable("unreadable", f"the reply has {len(entries)} entries for criterion c{index}")
        if inputs.criteria[index].weight < 0 and entries[0].get("criteria_met") in MARKS:
            return Unreadable("unreadable", f"the mark for pitfall c{index} may mean that it is there or avoided")
        return read_entry(entries[0], self._find_options(inputs, index))

    def _build_judgment(self, inputs: JudgeInput, index: int, answer: Said | Unreadable, reply: Reply) -> Judgment:
        if isinstance(answer, Unreadable):
            failure = JudgmentFailure("parse", answer.message, reply.text[:2000])
            return Judgment(self.judge_id, failure=failure, weight=self.weight)
        judgment = build_judgment(answer, reply, self.judge_id, self.weight, self._find_options(inputs, index))
        return replace(judgment, usage=None, cost=None)


def _with_earlier_usage(earlier: Entries, later: Entries) -> Entries:
    """Return the later entries, with the usage and cost of the earlier ones added."""
    merged = dict(later)
    for index in later.keys() & earlier.keys():
        both = (earlier[index], later[index])
        usage = aggregate_token_usage(judgment.usage for judgment in both)
        merged[index] = replace(
            later[index], usage=usage, cost=aggregate_completion_cost(judgment.cost for judgment in both)
        )
    return merged


def _describe_criterion(inputs: JudgeInput, index: int, shown: ShownOptions | None) -> dict[str, Any]:
    criterion = inputs.criteria[index]
    return {
        "id": f"c{index}",
        "requirement": criterion.requirement,
        "pitfall": criterion.weight < 0,
        "options": shown.text if shown else None,
    }


def _read_entries(reply: Reply) -> Answer[list[Any]] | Unreadable:
    """Read the entries of a reply: a list, an object with a verdict per id, or sections of a text without JSON."""
    found = read_json(reply, "array", ("judgments",), named="criterion_id")
    entries: list[dict[str, Any]] = []
    if isinstance(found, Unreadable):
        if found.kind == "unreadable" and not (found.ambiguous and "{" in reply.text):
            entries = _read_sections(remove_thinking(reply.text))
    else:
        objects = [entry for entry in found.value if isinstance(entry, Mapping)]
        without_id = [entry for entry in objects if not _ID.fullmatch(_find_id(entry))]
        inner = (value for entry in without_id for value in (entry, *entry.values()) if isinstance(value, Mapping))
        fields = (field for entry in inner for field in entry.items())
        entries = [_build_entry(*field) for field in fields if _ID.fullmatch(field[0]) or _NUMBER.fullmatch(field[0])]
        if not (entries or any(map(_find_id, objects))):
            named = _NAMED.findall(remove_thinking(reply.text))
            entries = [*map(_build_entry, named, objects)] if len(named) == len(objects) else []
    return Answer(entries, reply, ("the reply is fields, not a list of entries",)) if entries else found


def _build_entry(name: str, value: Any) -> dict[str, Any]:
    fields = value if isinstance(value, Mapping) else {"criterion_status": value, "selected_option": value}
    return {**fields, "criterion_id": name}


def _read_sections(text: str) -> list[dict[str, Any]]:
    """Read the entries of a text with a line, section or row for each criterion, beginning with its id or number.

    Numbers count only if they are consecutive from 0 or 1 and each section has a verdict; texts may number other
    things.
    """
    if scan_json(text).broken is not None:
        return []
    text = _ON_ONE_LINE.sub(lambda line: _NEXT_ID.sub("\n", line[0]), text)
    kinds: dict[str, list[re.Match[str]]] = {}
    for line in _NUMBERED.finditer(text):
        kind = "c" if line["number"][0] in "cC" else _NOT_WORDS.sub("", line["kind"]).lower()
        kinds.setdefault(kind, []).append(line)
    read = []
    for kind in ["c"] if "c" in kinds else kinds:
        starts = kinds[kind]
        ends = [*(line.start() for line in starts[1:]), len(text)]
        parts = [text[line.end() : end] for line, end in zip(starts, ends, strict=True)]
        halves = [_SUMMARY.split(part, maxsplit=1) for part in parts]
        # After any section but the last, a summary with a verdict may belong to this criterion.
        parts = ["" if len(half) > 1 and HINT.search(half[1]) else half[0] for half in halves[:-1]] + halves[-1][:1]
        entries = [_read_section(line["number"], part) for line, part in zip(starts, parts, strict=True)]
        first = 0 if starts[0]["number"] == "0" else 1
        are_counted = [line["number"] for line in starts] == [str(first + place) for place in range(len(starts))]
        if kind == "c" or (are_counted and all(entry.keys() - _GUESSED for entry in entries)):
            read.append(entries)
    return read[0] if len(read) == 1 else []


def _read_section(name: str, text: str) -> dict[str, Any]:
    """Read the entry of a section: its fields or, without any, the verdict in a cell that others do not qualify."""
    entry: dict[str, Any] = {"criterion_id": name}
    if fields := [field for field in find_fields(text) if not _ID.fullmatch(field["label"] or "c0")]:
        return entry | _read_fields(text, fields)
    if any(map(find_verdict, IN_BRACKETS.findall(text))):  # other words govern it
        return entry
    cells = _split_cells(text)
    read = {cell: verdict for cell in cells if (verdict := find_verdict(cell, of_truth=cell in MARKS))}
    if not read:
        return {**entry, "label": cells[0]} if cells else entry
    mentioned = {mention for cell in cells for mention in find_mentions(cell)}
    mentioned |= {find_verdict(cell, of_truth=True) for cell in cells} - {None}
    is_on_others = {*map(str.lower, _CRITERION.findall(text))} - {name.lower()}
    if len(mentioned) > 1 or is_on_others or find_retractions(text) or _is_qualified(cells, read):
        return entry
    remarks = (cell for cell in cells if _LETTER.search(cell) and cell not in read and not KEY.fullmatch(cell))
    entry["explanation"] = " ".join(remarks)
    words = [cell for cell in read if cell not in MARKS]
    return entry | (_build_entry(name, words[0]) if words else {"criteria_met": next(iter(read))})


def _is_qualified(cells: list[str], verdicts: Collection[str]) -> bool:
    """Return whether the cell after a verdict qualifies it, or a short one before it; reasons may contain "but"."""
    after = [cell for verdict, cell in pairwise(cells) if verdict in verdicts]
    before = [cells[0], *(cell for cell, verdict in pairwise(cells) if verdict in verdicts)]
    return any(map(QUALIFIES.search, [*after, *(cell for cell in before if cell.count(" ") < 3)]))


def _read_fields(text: str, fields: Sequence[re.Match[str]]) -> dict[str, Any]:
    """Read the fields of a section and the rest of its text; empty if the rest contradicts or retracts them."""
    named = [(field["label"].lower(), field["value"]) for field in fields]
    pairs = {(label if KEY.fullmatch(label) else "answer", value) for label, value in named}
    entry = dict(pairs)
    after = text[fields[-1].end() :]
    words = [*_split_cells(text.partition("\n")[0]), *(value for _, value in pairs)]
    stated = {*map(find_verdict, words), *(verdict for _, verdict in find_statements(after))} - {None}
    if len(stated) > 1 or len(entry) < len(pairs) or is_limited(fields[-1]) or find_retractions(after):
        return {}
    return {**entry, "explanation": extract_explanation(text, [*fields])}


def _split_cells(text: str) -> list[str]:
    return [cell for part in _CELLS.split(text) if (cell := part.strip("*_`[]\ufe0f \t"))]


def _resolve_numbers(
    by_id: dict[str, list[Mapping[str, Any]]], wanted: Sequence[int]
) -> dict[str, list[Mapping[str, Any]]]:
    """Group numbered entries by id: numbers are those of the ids, or count from 1 in the requested order."""
    if len(wanted) == 1 and by_id.keys() == {""}:
        return {f"c{wanted[0]}": by_id[""]}
    found = [_NUMBER.fullmatch(name) for name in by_id]
    numbers = [int(number[1]) for number in found if number]
    if len(numbers) < len(by_id) or not (
        {*numbers} == {*wanted} or numbers == [place + 1 for place in range(len(wanted))]
    ):
        return by_id
    ids = numbers if {*numbers} == {*wanted} else wanted
    return {f"c{index}": entries for index, entries in zip(ids, by_id.values(), strict=True)}


def _discard_contradicted(answers: dict[int, Said | Unreadable], text: str) -> None:
    """Make entries unusable if the text around them contradicts or retracts them."""
    before, _, after = split_reply(text)
    statements = [
        (name, stated) for name, stated in find_statements(_BEFORE_ID.sub("\n", f"{before}\n{after}")) if stated
    ]
    for sentence, stated in [*statements, *((retraction, None) for retraction in find_retractions(after))]:
        names = [int(name) for name in re.findall(r"\bc(\d+)\b", sentence)]
        is_on_all = stated is None or (_OF_ALL.match(sentence) and sentence in after)
        for name in names or (answers if is_on_all else ()):
            entry = answers.get(name)
            if isinstance(entry, Said) and (stated is None or entry.verdict not in (None, stated)):
                message = f"the text around the JSON states something else on criterion c{name} than the JSON"
                answers[name] = Unreadable("unreadable", message)


_OF_ALL = re.compile(r"\W*(?:so |thus |overall,? |in \w+, )?(?:both|all)\b", re.IGNORECASE)
_NUMBERED = re.compile(
    r"(?:^(?![ \t]*>)[^\w\n]*(?:\d\d?[.)][^\w\n]+(?=(?:criterion[ _]*)?c\d))?|<(?=criterion_id>))"
    r"(?P<kind>(?:[^\W\d_]{1,20}?(?:[^\w\n]|_){0,8}){0,2}?)(?P<number>c?\d{1,3})(?![\w%])",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a line with an id or a number, after at most two words: `### Criterion 1`, `| c0 |`, `标准1`."""
_NUMBER = re.compile(r"(?:criteri[^\W\d_]+[\W_]*)?#?(\d{1,3})\W*")
_GUESSED = {"criterion_id", "label", "explanation"}
_LETTER = re.compile(r"[^\W\d_]")
_NOT_WORDS = re.compile(r"[\W_]+")
_NAMED = re.compile(r"^[^\w\n]*(?:criterion[ _])?(c\d+)[^\w{]{0,20}(?:json\s*)?\{", re.IGNORECASE | re.MULTILINE)
"""The id before an object without one: `c0: {`."""
_SUMMARY = re.compile(
    r"^(?:[^\w\n]|_)*+(?:overall|summary|in total|总[体结]|まとめ|zusammenfassung)\b", re.IGNORECASE | re.MULTILINE
)
_CELLS = re.compile(rf"[|\n:：=→()（）<>。，；]|[.,;] | [-–—]+ |(?<=[{''.join(MARKS)}])|(?=[{''.join(MARKS)}])")
_CRITERION = re.compile(r"\bc\d+\b", re.IGNORECASE)
_BEFORE_ID = re.compile(r"(?:[,;]|\b(?:and|but|while|whereas))(?: not)?\s+(?=(?:criterion )?c\d+\b)")
_VERDICT_ON_ID = r"[*_`]*c\d+[*_` ]*[:=][*_` ]*(?:(?:un|not )?met|cannot[ _]assess)\b"
_ON_ONE_LINE = re.compile(rf"^[ \t]*(?:[-*] )?{_VERDICT_ON_ID}.*", re.IGNORECASE | re.MULTILINE)
"""Verdicts in one line, `c0: MET, c1: UNMET`, which no words lead to: they may report what the submission says."""
_NEXT_ID = re.compile(rf"[,;]\s+(?={_VERDICT_ON_ID})", re.IGNORECASE)
_ID_KEYS = ("criterion_id", "id", "criterion", "criterion_number", "criterion_index")
_ID = re.compile(r"\W*(?:criterion[\s_-]*)?c[\s_-]?(\d+)(?:-[0-9a-f]{12})?(?:\W*| *[:(].*)", re.IGNORECASE)
"""An id, also with the text of its criterion after it, or its section in the prompt (`criterion_c0-CODE`)."""


def _find_id(entry: Mapping[str, Any]) -> str:
    """Return the id of an entry's criterion, such as `c0`; any other text is returned stripped and in lower case."""
    keys = entry if "criterion_id" in entry else fold_keys(entry)
    stated = [str(keys[key]) for key in _ID_KEYS if isinstance(keys.get(key), str | int)]
    found = next(filter(None, map(_ID.fullmatch, stated)), None)
    return f"c{found[1]}" if found else next(iter(stated), "").strip().lower()


@cache
def _load_rubric_schema(number_type: NumberType | None) -> ReplySchema:
    body = load_schema("judge_rubric")
    if number_type is not None:
        option = body["properties"]["judgments"]["items"]["properties"]["selected_option"]
        option |= {"type": [number_type, "null"], "description": OWN_NUMBER}
    return ReplySchema("judge_rubric", body)
