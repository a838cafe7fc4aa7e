"""One item of a run in full: its texts, its report, and every prompt and raw reply."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autorubric.core.judgment import CannotAssessConfig
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize
from autorubric.graders.assembly import EscalationConfig, JudgeSpec
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.few_shot import FewShotConfig
from autorubric.llm.config import LLMConfig
from autorubric.llm.recorded_exchanges import Exchange, ReplayedCalls
from autorubric.llm.records.ledger_view import LedgerView, ledger_view
from autorubric.prompts.judging import load_judge_prompts
from autorubric.runs.cells import StoredCell, list_votes, read_cells, read_verdict
from autorubric.runs.items_file import StoredRun, read_items, read_report, read_run
from autorubric.runs.manifest import LEDGER_FOLDER, find_ledger_folder, read_manifest
from autorubric.runs.run import DRAWS_A_GENERATION, build_input, number_copies

_SAME_NAMES = ("quorum", "llm_calls", "shuffle_options", "auto_na_option", "seed", "evidence", "normalize")
_SHORT = 200


@dataclass(frozen=True)
class ShownItem:
    """One item of a run; its `repr` is the text that `autorubric show` prints.

    Attributes:
        directory: the run directory.
        kind: the kind of run, from its manifest.
        index: the item's place in the dataset or input, from 0.
        id: its id; empty if it has none.
        texts: prompt, reference and submission, or the query, by title.
        record: its report, or its row with the lineage of its criteria; None if it has not ended.
        exchanges: prompts and replies in the order of the run, failed ones included.
        others: recorded calls about the item that the run does not use, such as those before it was started over.
        notes: what could not be shown, and why.
    """

    directory: Path
    kind: str
    index: int
    id: str
    texts: Mapping[str, str]
    record: Mapping[str, Any] | None
    exchanges: tuple[Exchange, ...] = ()
    others: tuple[Exchange, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return "\n".join(_format_item(self))


async def show_graded(directory: Path, name: str | None) -> ShownItem:
    """Return an item of a grading run, by id or index; the first one by default.

    Raises:
        InputError: the item does not exist, or the run cannot be read.
    """
    run, manifest = read_run(directory), read_manifest(directory) or {}
    index = find_item(run.dataset, name)
    item, dataset = run.dataset[index], run.dataset
    texts = {
        "prompt": dataset.get_item_prompt(index),
        "reference": dataset.get_item_reference_submission(index) or "",
        "submission": item.submission,
    }
    notes: list[str] = []
    replay = None
    with ExitStack() as stack:
        view = open_replies(stack, directory, notes)
        if view is not None:
            replay = await _replay(run, manifest, view, index, notes)
        others = tuple(replay.find_others(item.id or str(index))) if replay else ()
    return ShownItem(
        directory,
        "evaluation",
        index,
        item.id or "",
        {title: text for title, text in texts.items() if text},
        _find_record(run, index, begun=manifest.get("status") == "running"),
        tuple(replay.exchanges) if replay else (),
        others,
        tuple(notes),
    )


def find_item(dataset: RubricDataset, name: str | None) -> int:
    """Return the index of an item, by its id or, if no item has that id, by its number from 0.

    Raises:
        InputError: the item does not exist.

    Example:
        >>> find_item(RubricDataset(), "e7")
        Traceback (most recent call last):
        autorubric.errors.InputError: the run has no item 'e7'; it has 0 items
    """
    ids = [item.id for item in dataset.items]
    if name is None and ids:
        return 0
    if name in ids:
        return ids.index(name)
    if name is not None and name.isdecimal() and int(name) < len(ids):
        return int(name)
    known = [item_id for item_id in ids if item_id][:5]
    named = f", such as {', '.join(known)}" if known else ""
    raise InputError(f"the run has no item {name!r}; it has {pluralize(len(ids), 'item')}{named}")


def _find_record(run: StoredRun, index: int, *, begun: bool) -> Mapping[str, Any] | None:
    """Return the result of an item; None if it has not ended. A run that has just `begun` may have no results yet."""
    records = read_items(run.source) if begun else run.item_results
    found = [record for record in records if record["item_idx"] == index]
    if not found:
        return None
    read_report(run.source, found[0])
    return {key: value for key, value in found[0].items() if key != "item"}


def open_replies(stack: ExitStack, directory: Path, notes: list[str]) -> LedgerView | None:
    """Open the ledger of a run until the stack is closed; None, with a note, if it is missing or cannot be read."""
    try:
        return stack.enter_context(ledger_view(find_ledger_folder(directory) or directory / LEDGER_FOLDER))
    except InputError as error:
        notes.append(f"raw replies cannot be shown: {error}")
        return None


async def _replay(
    run: StoredRun, manifest: Mapping[str, Any], view: LedgerView, index: int, notes: list[str]
) -> ReplayedCalls:
    """Rebuild the prompts for an item, criterion by criterion, with their recorded replies."""
    replay = ReplayedCalls(view)
    grader = _rebuild(run, manifest, notes)
    if grader is None:
        return replay
    session = await grader.open_session()
    replay.names = {id(model): name for name, model in session.models.items()}
    draws = int(view.find_note("generation") or 0) * DRAWS_A_GENERATION
    copies = {} if (manifest.get("eval_config") or {}).get("share_equal") else number_copies(run.dataset, grader)
    inputs = build_input(run.dataset, index, grader, copies)

    async def ask(model: Any, request: Any, *others: Any) -> Any:
        return await replay.ask_for(model, replace(request, draw=request.draw + draws), *others)

    names = [criterion.name or f"C{number}" for number, criterion in enumerate(inputs.criteria, start=1)]
    whole = grader.recipe.llm_calls != "per_criterion"
    for wanted in [list(range(len(names)))] if whole else [[place] for place in range(len(names))]:
        replay.set_subject(", ".join(names[place] for place in wanted))
        await session.judge.judge(inputs, wanted, ask)
    return replay


def _rebuild(run: StoredRun, manifest: Mapping[str, Any], notes: list[str]) -> CriterionGrader | None:
    """Rebuild the grader recorded in a manifest, for its prompts; None, with a note, if that is impossible."""
    made_of = run.grader_config or {}
    if made_of.get("type") != "CriterionGrader" or not made_of.get("judges"):
        notes.append("no prompts to show: no model was called, or a custom grader called it")
        return None
    settings = manifest.get("eval_config") or {}
    try:
        grader = _make_grader(made_of, settings)
    except (InputError, KeyError, TypeError, ValueError) as error:
        notes.append(f"the prompts cannot be rebuilt: {error}")
        return None
    was, now = made_of.get("templates"), grader.recipe.options.prompts.fingerprints()
    if was is not None and was != now:
        notes.append("the templates have changed since the run, so its prompts cannot be rebuilt")
    return grader


def _make_grader(made_of: Mapping[str, Any], settings: Mapping[str, Any]) -> CriterionGrader:
    # No request is sent, so no key is needed.
    specs = [
        JudgeSpec(
            LLMConfig(**{**judge["model"], "api_key": "unused", "api_key_env": None, "allow_plain_http": True}),
            judge["judge_id"],
            judge["weight"],
            repeats=judge.get("repeats", 1),
        )
        for judge in made_of["judges"]
    ]
    strong = len(settings.get("escalate_to") or ())
    cut = len(specs) - strong
    rules, few_shot, prompts = made_of["aggregation"], made_of.get("few_shot"), settings.get("prompts")
    training = settings.get("training_data")
    return CriterionGrader(
        judges=specs[:cut],
        escalation=EscalationConfig(specs[cut:], **made_of["escalation"]) if strong else None,
        aggregation=rules["binary"],
        ordinal_aggregation=rules["ordinal"],
        nominal_aggregation=rules["nominal"],
        training_data=RubricDataset.from_file(training) if training and few_shot else None,
        few_shot_config=FewShotConfig(**few_shot) if training and few_shot else None,
        prompts=load_judge_prompts(Path(prompts)) if prompts else None,
        cannot_assess_config=CannotAssessConfig.model_validate(made_of["cannot_assess"]),
        **{name: made_of[name] for name in _SAME_NAMES},
        reasoning=made_of.get("reasoning", "drop"),
    )


def filter_criterion(found: ShownItem, name: str) -> ShownItem:
    """Return the item with only one of its criteria.

    Raises:
        InputError: it has no such criterion.
    """
    record: dict[str, Any] = dict(found.record or {})
    report = dict(record.get("report") or {})
    entries = report.get("criterion_reports") or []
    names = [cell.name for cell in read_cells(report)]
    kept = [entry for place, entry in enumerate(entries) if name in (names[place], f"C{place + 1}")]
    traced = record.get("criteria") or []
    chosen = [one for one in traced if name in (one["id"], one["title"], one["description"])]
    if not kept and not chosen:
        known = names + [one["id"] for one in traced]
        raise InputError(f"--criterion {name!r}: the item has no such criterion; it has {', '.join(known) or 'none'}")
    if kept:
        record["report"] = {**report, "criterion_reports": kept}
    exchanges = tuple(one for one in found.exchanges if name in one.about.split(", "))
    if traced:
        record |= {"criteria": chosen, "dropped": []}
    return replace(found, record=record, exchanges=exchanges, others=())


def _format_item(found: ShownItem) -> Iterator[str]:
    yield f"{found.id or f'item {found.index}'} (number {found.index} of {found.directory})"
    for title, text in found.texts.items():
        yield f"{title}:"
        yield from _indent(text)
    record = found.record or {}
    if not record:
        yield "it has not been graded yet"
    elif found.kind == "evaluation":
        yield from _format_report(record)
    else:
        yield from _format_rubric(record)
    shown: set[str] = set()
    for title, exchanges in (("", found.exchanges), ("not used by this run: ", found.others)):
        for exchange in exchanges:
            yield from _format_exchange(exchange, title, shown)
    yield from (f"note: {note}" for note in found.notes)


def _format_report(record: Mapping[str, Any]) -> Iterator[str]:
    report = record["report"]
    score = report.get("score")
    yield f"score: {'none' if score is None else f'{score:.3f}'}"
    if record.get("error"):
        yield f"error: {record['error']}"
    for flag in report.get("flags") or ():
        yield f"flag of the submission: {flag}"
    for cell, entry in zip(read_cells(report), report.get("criterion_reports") or (), strict=True):
        yield from _format_criterion(cell, entry)


def _format_criterion(cell: StoredCell, entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"{cell.word}  {cell.name} (weight {cell.weight:g})"
    if entry.get("error"):
        yield f"    error: {entry['error']}"
    votes = list_votes(entry)
    if not votes and entry.get("reason"):
        yield f"    {entry['reason']}"
    for vote in votes:
        yield from _format_vote(vote)
    for quote in entry.get("quotes") or ():
        place = "not found" if quote.get("start") is None else f"characters {quote['start']} to {quote['end']}"
        yield f"    quote ({place}): {quote['text']}"
    if entry.get("flags"):
        yield f"    flags: {', '.join(entry['flags'])}"


def _format_vote(vote: Mapping[str, Any]) -> Iterator[str]:
    weight = vote.get("weight", 1.0)
    about = [*([f"weight {weight:g}"] if weight != 1.0 else []), *(["superseded"] if vote.get("superseded") else [])]
    more = f" ({', '.join(about)})" if about else ""
    said = read_verdict(vote) or "failed"
    yield f"    {vote['judge_id']}{more}: {said}: {vote.get('reason') or vote.get('error') or ''}"
    for repeat in vote.get("repeats") or ():
        word = read_verdict(repeat) or "failed"
        yield f"      {repeat['judge_id']}: {word}: {repeat.get('reason') or repeat.get('error') or ''}"


def _format_rubric(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines with the criteria and their lineage, or with the criteria of the basic steps."""
    if "criteria" not in record:
        for title in ("merged_rubrics", "augmented_rubrics"):
            for item in record.get(title) or ():
                yield f"{title.removesuffix('_rubrics')}  {item['weight']:>3}  {item['description']}"
    for one in record.get("criteria") or ():
        yield f"{one['outcome']}  {one['id']}  {one['weight']:>3}  {one['description']}"
        parents = ", ".join(each["id"] + f" ({each['fate']})" * bool(each["fate"]) for each in one["proposals"])
        yield f"    {one['origin']}, by {', '.join(one['models'])}" + f", from {parents}" * bool(parents)
        for gate in one["gates"]:
            measures, reason = f" ({gate['told']})" * bool(gate["told"]), f": {gate['reason']}" * bool(gate["reason"])
            yield f"    gate {gate['gate']}: {gate['outcome']}{measures}{reason}"
    for one in record.get("dropped") or ():
        yield f"dropped  {one['id']}  {one['text']}" + f": {one['why']}" * bool(one["why"])
    for stage, reason in (record.get("failures") or {}).items():
        yield f"failed  {stage}: {reason}"


def _format_exchange(one: Exchange, title: str, shown: set[str]) -> Iterator[str]:
    """Yield the lines of a prompt and its reply; long messages that were shown before are not repeated."""
    name = one.judge if one.judge not in ("", one.model) else ""
    about = [one.about, name, f"draw {one.draw}" * bool(one.draw), f"re-ask {one.reask}" * bool(one.reask)]
    tokens = None if one.tokens is None else f"{one.tokens[0]} + {one.tokens[1]} tokens"
    seconds = None if one.seconds is None else f"{one.seconds:.1f} s"
    yield f"--- {title}{one.role} {one.model}: {', '.join(filter(None, [*about, tokens, seconds, one.ended]))}"
    for message in one.messages or ():
        yield f"{message.role}:"
        known = message.content in shown and len(message.content) > _SHORT
        yield from ("  (as above)",) if known else _indent(message.content)
        shown.add(message.content)
    if one.reasoning:
        yield "reasoning:"
        yield from _indent(one.reasoning)
    if one.reply is not None:
        yield "reply:"
        yield from _indent(one.reply)
    if one.problem:
        yield f"problem: {one.problem}"


def _indent(text: str) -> Iterable[str]:
    return (f"  {line}" for line in text.splitlines() or [""])
