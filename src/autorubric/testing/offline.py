"""The offline model: a stand-in that answers every prompt of the package by rules, without a network."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from random import Random
from typing import Any

from autorubric.llm import attempts
from autorubric.llm.request import Reply, ReplySchema, Request, Usage
from autorubric.testing import offline_reading as reading
from autorubric.testing.completion import estimate_tokens
from autorubric.testing.offline_reading import OfflineQuery, find_constraints, find_phrases, find_terms, load_table
from autorubric.testing.scripted import PromptSections

_QUOTED = re.compile(r"[\"“「](.{2,60}?)[\"”」]")
_POOR = re.compile(r"\b(?:no|not|none|never|poor|bad|wrong|weak|incorrect|fail|miss|flat)|不|无|没|差", re.I)
_VAGUE = re.compile(r"\b(?:appropriate|adequate|sufficient|good|clear(?:ly)?|well|relevant)\b|适当|充分|清晰|合理")
_JOINED = re.compile(r",? (?:and|but|while)(?: also| then)? (?=[a-z]+s\b)|; ")
_ABSENT = re.compile(r"cannot|not applicable|\bn/?a\b|无法|不适用", re.I)


class OfflineModel:
    """A deterministic stand-in for a model: for trying commands and for testing, not for results.

    Like any model, it reads the messages and the schema of the reply. The same request gets the same reply on every
    machine; another draw gets another one. It costs nothing.

    Args:
        name: its `provider/model` string; another name writes other texts.
        latency: seconds to wait before each reply, for watching a progress display.

    Example:
        >>> from autorubric.llm.request import Message
        >>> ask = Request((Message("user", "Why is the sea salty?"),), role="response")
        >>> reply = asyncio.run(OfflineModel().complete(ask))
        >>> reply.text[:47], reply.cost
        ('The main reason lies in the sea salty, and the ', 0.0)
    """

    def __init__(self, name: str = "builtin/offline", *, latency: float = 0.0) -> None:
        self.name = name
        self._latency = latency

    def identity(self) -> tuple[Any, ...]:
        """Its name and a constant number, so that recorded runs resume."""
        return ("offline", self.name, 2)

    def ceiling(self, request: Request) -> Usage:
        """Return the exact usage of the request."""
        return self._count(request, self._write(request))

    def cost(self, usage: Usage) -> float:
        """Zero."""
        return 0.0

    async def complete(self, request: Request) -> Reply:
        """Return the reply to a request; never fails."""
        await asyncio.sleep(self._latency)
        text = self._write(request)
        reply = Reply(text, model=self.name, usage=self._count(request, text), cost=0.0, latency=self._latency)
        if attempts.watchers:
            attempts.emit(attempts.Attempt(request, self.name, self.name, "", 1, time.time(), self._latency, reply))
        return reply

    async def close(self) -> None:
        """Nothing to release."""

    def _count(self, request: Request, text: str) -> Usage:
        asked = sum(len(message.content) for message in request.messages)
        return Usage(estimate_tokens(asked), estimate_tokens(len(text)))

    def _write(self, request: Request) -> str:
        prompt, schema = PromptSections(request), request.schema
        task = schema.name if schema else "answer"
        random = Random(f"{self.name}|{task}|{request.reask}|{request.draw}|{prompt.text!a}")
        if schema:
            text = json.dumps(_reply_to(prompt, schema, random), ensure_ascii=False)
        else:  # draw 0 is good, and every second draw; the query decides which
            thorough = not request.draw or (len(prompt.text) + request.draw) % 2 == 0
            text = write_answer(_find_query(prompt), random, thorough=thorough)
        return text.encode("utf-8", "replace").decode()


def _find_query(prompt: PromptSections) -> reading.OfflineQuery:
    asked = prompt.get("request") or prompt.get("conversation") or ("" if prompt else prompt.text)
    return reading.read_query(prompt.split(asked).get("user", asked), prompt.turns)


def _reply_to(prompt: PromptSections, schema: ReplySchema, random: Random) -> dict[str, Any]:
    fields, criteria = schema.body["properties"], prompt.criteria
    split, wording = load_table(_find_query(prompt).language)["rewrite"]
    if "judgments" in fields:
        return {
            "judgments": [
                {"criterion_id": criterion_id, **_judge(prompt, *asked)} for criterion_id, *asked in criteria
            ]
        }
    if "licences" in fields:
        return {"licences": [_judge_licence(prompt, place) for place in range(len(criteria))]}
    if "rewrites" in fields:
        texts = ((criterion_id, wording.format(d=requirement.strip())) for criterion_id, requirement, _ in criteria)
        same = {"split": split, "title": ""}
        return {
            "rewrites": [{"criterion_id": criterion_id, **same, "description": text} for criterion_id, text in texts]
        }
    of_one: dict[str, Callable[[str], Any]] = {
        "findings": _write_findings,
        "demands": _split_demands,
        "alternatives": partial(_write_alternatives, split, wording),
    }
    if shared := [name for name in of_one if name in fields]:
        return {name: of_one[name](prompt.get("criterion", "")) for name in shared}
    if "criteria" in fields:
        return {"criteria": _write_criteria(prompt, schema, random), "dropped": []}
    requirement = prompt.get("criterion") or prompt.get("question") or prompt.text
    return _judge(prompt, requirement, prompt.get("options", ""), quotes="quotes" in fields)


def _write_alternatives(reason: str, wording: str, requirement: str) -> list[dict[str, str]]:
    """Return two alternatives: one that demands the words themselves, and a split into halves."""
    text = requirement.strip()
    blank = {"reason": reason, "second": "", "check": "", "parameters": ""}
    reworded = {**blank, "kind": "reword", "requirement": wording.format(d=text)}
    half = len(text.split()) // 2
    parts = " ".join(text.split()[:half]), " ".join(text.split()[half:])
    return [reworded, {**blank, "kind": "split", "requirement": parts[0] or text, "second": parts[1] or text}]


def _split_demands(requirement: str) -> list[str]:
    """Return the criterion split at the words that join its demands; a real model would repeat what they share."""
    parts = _JOINED.split(requirement.strip().rstrip("."))
    return [f"{part[:1].upper()}{part[1:]}." for part in parts if part]


def _write_findings(requirement: str) -> list[dict[str, Any]]:
    """Return a finding for the first vague word of the criterion, if it has one."""
    vague = _VAGUE.search(requirement)
    if vague is None:
        return []
    reason = f"{vague.group()!r} means something different to each judge."
    found = {"reason": reason, "principle": "clear", "severity": "warning", "criterion": None, "quote": vague.group()}
    return [{**found, "requirement": f"{requirement.strip()} (Say what counts as {vague.group()}.)"}]


def _write_criteria(prompt: PromptSections, schema: ReplySchema, random: Random) -> list[Item]:
    if schema.name == "pitfall_items":
        return write_pitfalls(_find_query(prompt), random)
    if sets := prompt.find_numbered("set"):
        return merge_sets([_read_items(text) for text in sets])
    if responses := prompt.find_numbered("response"):
        return write_harder(_find_query(prompt), _read_items(prompt.get("rubric", "")), responses, random)
    return write_rubric(_find_query(prompt), prompt.get("reference", ""), random)


def _read_items(text: str) -> list[Item]:
    try:
        return [{"title": "", "weight": 5, **item} for item in json.loads(text) if "description" in item]
    except (ValueError, TypeError):
        return []


def _judge_licence(prompt: PromptSections, place: int) -> dict[str, Any]:
    query, (criterion_id, requirement, _) = _find_query(prompt), prompt.criteria[place]
    say, wanted, quoted = load_table(query.language), find_terms(requirement), _QUOTED.findall(requirement)
    phrases = [phrase.removeprefix("the ") for phrase in query.phrases]
    quote = next((phrase for phrase in phrases if phrase in query.text and find_terms(phrase) <= wanted), "")
    form = next((found for found in find_constraints(requirement) if found.kind in ("count", "format")), None)
    bounds = [(known.kind, known.low, known.high) for known in query.constraints]
    asked = (form.kind, form.low, form.high) in bounds if form else all(part in query.text for part in quoted)
    need = "explicit" if quote else "implicit"
    surface = {"count": "count", "format": "layout"}[form.kind] if form else "phrase" if quoted else "none"
    alike = (known for known, other, _ in prompt.criteria[:place] if is_near_equal(other, requirement))
    verdict = {"criterion_id": criterion_id, "reason": say[need], "need": need, "quote": quote, "surface": surface}
    return {**verdict, "surface_asked": asked, "answerable": True, "same_as": next(alike, "")}


def _judge(prompt: PromptSections, requirement: str, options: str, *, quotes: bool = False) -> dict[str, Any]:
    submission = prompt.get("submission") or next(iter(prompt.values()), "")
    explanation, status = _decide(requirement, submission)
    reply: dict[str, Any] = {"explanation": explanation}
    if quotes:
        passages = [line.strip()[:150] for line in re.split(r"(?<=[.!?。！？])\s*|\n", submission) if line.strip()]
        best = max(passages, key=lambda line: len(find_terms(line) & find_terms(requirement)), default="")
        reply = {"quotes": [best] if best and status == "MET" else [], **reply}
    return {**reply, **({"selected_option": _choose(options, status)} if options else {"criterion_status": status})}


def _choose(options: str, status: str) -> float:
    """Return the best option if the requirement is met, else the worst, judged by their words."""
    listed: list[tuple[str, float]] = [
        (text, int(number)) for number, text in re.findall(r"^(\d+)\. (.*)$", options, re.M)
    ]
    sizes = {text: [float(size) for size in re.findall(r"\d+(?:\.\d+)?", text)[:1]] for text, _ in listed}
    if [number for _, number in listed] != [*range(1, len(listed) + 1)] or not listed:  # a scale of numbers
        lines = options.translate(str.maketrans("−–,", "--.")).splitlines()
        found = [(line, re.match(r"\W*?(-?\d+(?:\.\d+)?)", line)) for line in lines]
        numbers = [(line, float(number[1])) for line, number in found if number]
        listed = [(line, int(number) if number.is_integer() else number) for line, number in numbers]
        sizes = {text: [float(number)] for text, number in listed}
    listed = listed or [("", 1)]
    absent = [option for option in listed if _ABSENT.search(option[0])]
    rated = sorted(
        (sizes.get(text) or [-1.0 if _POOR.search(text) else 0.0], text, number) for text, number in listed
    )
    rest = [one for one in rated if one[1:] not in absent]
    if absent and (status == "CANNOT_ASSESS" or not rest):
        return absent[0][1]
    return rest[-1 if status == "MET" else 0][2]


def _decide(requirement: str, submission: str) -> tuple[str, str]:
    """Return an explanation and a verdict: by counts and matches if possible, else by half of the content words."""
    say = load_table(reading.find_language(requirement))
    if not submission.strip():
        return say["empty"], "UNMET"
    quoted = ((part, part.lower() in submission.lower()) for part in _QUOTED.findall(requirement))
    checks = [(constraint.value, constraint.holds(submission)) for constraint in find_constraints(requirement[:2000])]
    decided = [(shown, kept) for shown, kept in checks if kept is not None] or [one for one in quoted if not one[1]]
    if decided:
        reasons = [say["check"].format(v=shown, result=say["results"][bool(kept)]) for shown, kept in decided]
        return " ".join(reasons), "MET" if all(kept for _, kept in decided) else "UNMET"
    wanted = find_terms(requirement) - find_terms(load_table("rubric_words"))
    if not wanted:
        return say["unclear"], "CANNOT_ASSESS"
    found = len(wanted & find_terms(submission))
    return say["lexical"].format(found=found, all=len(wanted)), "MET" if 2 * found >= len(wanted) else "UNMET"


Item = dict[str, Any]


def _fill(template: str, a: str, b: str, **values: object) -> str:
    return template.format(a=a, b=b, A=a[:1].upper() + a[1:], **values)


def write_answer(query: OfflineQuery, random: Random, *, thorough: bool) -> str:
    """Write an answer in the form that the query demands; if not thorough, short and without what to include."""
    say, phrases = load_table(query.language), query.phrases
    openings = say["opening"].get(query.kind, say["opening"]["other"])
    # Neighbouring draws take different openings, so that even one-sentence answers differ.
    templates = [openings[(len(query.text) + thorough) % len(openings)]]
    templates += random.sample(say["body"], k=min(len(phrases) + 2 if thorough else 2, len(say["body"])))
    templates += [*say[query.domain], say["example"], say["caveat"], say["closing"]][: None if thorough else 1]
    lines = [_fill(line, phrases[i % len(phrases)], phrases[-1]) for i, line in enumerate(templates)]
    if thorough:
        demanded = [constraint.value for constraint in query.constraints if constraint.kind == "include"]
        lines[1:1] = [say["include"].format(v=value) for value in demanded]
    return _format_answer(query, lines, "" if query.language == "zh" else " ", thorough=thorough)


def _format_answer(query: OfflineQuery, lines: list[str], gap: str, *, thorough: bool) -> str:
    counts = {constraint.unit: constraint for constraint in query.constraints if constraint.kind == "count"}
    formats = [constraint.value for constraint in query.constraints if constraint.kind == "format"]
    if "JSON" in formats:
        return json.dumps({"summary": lines[0], "points": lines[1:]}, ensure_ascii=False, indent=2)
    if "items" in counts or formats:
        number = min(counts["items"].low or counts["items"].high, 50) if "items" in counts else len(lines) - 1
        return "\n".join([lines[0], "", *("- " + lines[1 + i % (len(lines) - 1)] for i in range(number))])
    if not thorough:
        return gap.join(lines)
    for constraint in counts.values():
        if constraint.low and constraint.holds(gap.join(lines)) is False:
            lines = lines * 20
        while len(lines) > 1 and constraint.holds(gap.join(lines)) is False:
            lines = lines[:-1]
    half = len(lines) // 2
    return "\n\n".join(gap.join(part) for part in (lines[:half], lines[half:]) if part)


def _write_item(key: str, query: OfflineQuery, random: Random, **values: str) -> Item:
    weight, title, *wordings = load_table(query.language)["criteria"][key]
    a = values.pop("a", query.phrases[0])
    b = query.phrases[1] if len(query.phrases) > 1 else load_table(query.language)["subject"]
    title = " ".join(_fill(title, a, b, **values).split()[:5])
    shift = random.choice((-1, 0, 0, 1)) if weight < 10 else 0
    return {"title": title, "description": _fill(random.choice(wordings), a, b, **values), "weight": weight + shift}


def write_rubric(query: OfflineQuery, reference: str, random: Random) -> list[Item]:
    """5 to 12 criteria for a query: its constraints, its main demand, and some of what else applies."""
    needed = [_write_item(constraint.kind, query, random, v=constraint.value) for constraint in query.constraints[:6]]
    needed.append(_write_item(f"main-{query.kind}", query, random))
    known = find_terms(query.text) | _find_own_terms("opening", "body", "medical", "science", "writing", "chat")
    found = [phrase for phrase in find_phrases(reference[:4000]) if not find_terms(phrase) & known][:2]
    keys: list[tuple[str, dict[str, str]]] = [(f"{query.domain}-1", {}), (f"{query.domain}-2", {})]
    keys += [("phrase", {"a": phrase}) for phrase in query.phrases[1:4]]
    keys += [("relation", {})] * (len(query.phrases) > 1)
    keys += [("reference", {"a": phrase}) for phrase in found] + [("turns", {})] * (query.turns > 1)
    keys += [("example", {}), ("limits", {}), ("consistent", {})]
    wanted = [_write_item(key, query, random, **values) for key, values in keys]
    kept = [item for item in wanted if random.random() < 0.75]
    kept += [item for item in wanted if item not in kept][: max(0, 5 - len(needed) - len(kept))]
    return (needed + kept)[:12]


@cache
def _find_own_terms(*parts: str) -> frozenset[str]:
    return find_terms(" ".join(str(load_table(language)[part]) for language in ("en", "zh") for part in parts))


def write_pitfalls(query: OfflineQuery, random: Random) -> list[Item]:
    """Return two or three faults that answers to a query may have, with negative weights."""
    keys = random.sample(range(1, 5), k=random.choice((2, 3)))
    return [_write_item(f"pitfall-{key}", query, random) for key in keys]


def merge_sets(sets: Sequence[Sequence[Item]]) -> list[Item]:
    """Merge criteria of all sets with their sources; near-equal ones become one, with the larger weight."""
    merged: list[Item] = []
    for rubric in sets:
        earlier = len(merged)
        for item in rubric:
            same = next((known for known in merged[:earlier] if _is_same(known, item)), None)
            if same is None:
                merged.append({"sources": [item.get("id")], **{key: item[key] for key in item if key != "id"}})
            else:
                same["sources"].append(item.get("id"))
                same["weight"] = max(same["weight"], item["weight"], key=abs)
    return merged


def _is_same(item: Item, other: Item) -> bool:
    one_title = bool(item["title"]) and item["title"] == other["title"]
    one_sign = (item["weight"] < 0) == (other["weight"] < 0)
    return one_sign and is_near_equal(item["description"], other["description"], one_title=one_title)


def is_near_equal(one: str, other: str, *, one_title: bool = False) -> bool:
    """Return whether two criteria demand the same: equal numbers, and most words and most of the subject shared."""
    terms, own = (find_terms(one), find_terms(other)), _find_own_terms("criteria")
    pairs = (terms, (terms[0] - own, terms[1] - own))
    near = all(len(a & b) >= 0.6 * len(a | b) or (one_title and (a & b or a == b)) for a, b in pairs)
    return near and re.findall(r"\d+", one) == re.findall(r"\d+", other)


def write_harder(query: OfflineQuery, rubric: Sequence[Item], responses: Sequence[str], random: Random) -> list[Item]:
    """Return one to four stricter criteria, from what one response has and another lacks."""
    broken = [
        constraint.value
        for constraint in query.constraints
        if any(constraint.holds(text) is False for text in responses)
    ]
    missed = [a for a in query.phrases if len({find_terms(a) <= find_terms(text) for text in responses}) > 1]
    found = [_write_item("harder-constraint", query, random, v=value) for value in broken[:1]]
    found += [_write_item("harder-phrase", query, random, a=phrase) for phrase in missed[:1]]
    for key, marks in load_table(query.language)["marks"].items():
        differs = len({bool(re.search(marks, text, re.I)) for text in responses}) > 1
        if differs and key in ("example", "limits", query.domain):
            found.append(_write_item(f"harder-{key}", query, random))
    known = [item["description"] for item in rubric]
    new = [item for item in found if not any(is_near_equal(item["description"], text) for text in known)]
    return new[:4] or [_write_item("harder-depth", query, random)]
