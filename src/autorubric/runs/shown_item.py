"""One item of a run in full: its texts, its report, and every prompt and raw reply."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autorubric.core.judgment import CannotAssessConfig
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, MissingFileError, pluralize
from autorubric.graders.assembly import EscalationConfig, JudgeSpec
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.few_shot import FewShotConfig
from autorubric.llm.config import LLMConfig
from autorubric.llm.recorded_exchanges import Exchange, Replay
from autorubric.llm.records.ledger_view import LedgerView, ledger_view
from autorubric.prompts.judging import load_judge_prompts
from autorubric.runs.items_file import StoredRun, read_items, read_report, read_run
from autorubric.runs.manifest import find_ledger_folder, read_manifest
from autorubric.runs.run import DRAWS_A_GENERATION, build_input, number_copies


@dataclass(frozen=True)
class ShownItem:
    """One item of a run.

    Attributes:
        directory: the run directory.
        kind: the kind of run, from its manifest.
        index: the item's place in the dataset or input, from 0.
        id: its id; empty if it has none.
        texts: prompt, reference and submission, or the query, by title.
        record: its report, or its row with the lineage of its criteria; None if it has not ended.
        exchanges: prompts and replies in the order of the run, failed ones included.
        others: recorded calls about it that the run does not use, such as those before it was started over.
        notes: what could not be shown.
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


async def show_graded(directory: Path, name: str | None) -> ShownItem:
    """An item of a grading run, by id or index; the first one by default.

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
        view = _open_view(stack, directory)
        if view is None:
            notes.append("the run directory has no ledger, so raw replies cannot be shown")
        else:
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
    """The index of an item, by its id or, if no item has that id, by its number from 0.

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
    known = [one for one in ids if one][:5]
    named = f", such as {', '.join(known)}" if known else ""
    raise InputError(f"the run has no item {name!r}; it has {pluralize(len(ids), 'item')}{named}")


def _find_record(run: StoredRun, index: int, *, begun: bool) -> Mapping[str, Any] | None:
    """The result of an item; None if it has not ended. A run that has just `begun` may have no result yet."""
    records = read_items(run.source) if begun else run.item_results
    found = [record for record in records if record["item_idx"] == index]
    if not found:
        return None
    read_report(run.source, found[0])
    return {key: value for key, value in found[0].items() if key != "item"}


def _open_view(stack: ExitStack, directory: Path) -> LedgerView | None:
    folder = find_ledger_folder(directory)
    try:
        return None if folder is None else stack.enter_context(ledger_view(folder))
    except MissingFileError:
        return None


async def _replay(
    run: StoredRun, manifest: Mapping[str, Any], view: LedgerView, index: int, notes: list[str]
) -> Replay:
    """The prompts on an item and their recorded replies, criterion by criterion."""
    replay = Replay(view)
    grader = _rebuild(run, manifest, notes)
    if grader is None:
        return replay
    session = await grader.open_session()
    replay.names = {id(model): name for name, model in session.models.items()}
    draws = int(view.find_note("generation") or 0) * DRAWS_A_GENERATION
    copies = {} if (manifest.get("eval_config") or {}).get("share_equal") else number_copies(run.dataset)
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
    """The grader recorded in a manifest, for its prompts; None and a note if it cannot be rebuilt."""
    made_of = run.grader_config or {}
    if made_of.get("type") != "CriterionGrader" or not made_of.get("judges"):
        notes.append("no model was asked, or a custom grader asked it: no prompts to show")
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
        quorum=made_of["quorum"],
        llm_calls=made_of["llm_calls"],
        shuffle_options=made_of["shuffle_options"],
        auto_na_option=made_of["auto_na_option"],
        seed=made_of["seed"],
        evidence=made_of["evidence"],
        training_data=RubricDataset.from_file(training) if training and few_shot else None,
        few_shot_config=FewShotConfig(**few_shot) if training and few_shot else None,
        prompts=load_judge_prompts(Path(prompts)) if prompts else None,
        normalize=made_of["normalize"],
        cannot_assess_config=CannotAssessConfig.model_validate(made_of["cannot_assess"]),
    )
