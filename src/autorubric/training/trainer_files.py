"""Files for trainers, written from kept answers by one adapter per trainer.

An installed package adds an adapter with an entry point in the group `autorubric.adapters`; `select --trainer` then
accepts its name.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.core.report import EnsembleCriterionReport, Report
from autorubric.errors import InputError
from autorubric.files import atomic_writer, parquet_writer, suggest_name
from autorubric.formats.format import Record
from autorubric.formats.rubrichub import RUFT, dump_details
from autorubric.plugins import find_plugins, load_plugin
from autorubric.rows.record import from_cell
from autorubric.training.candidates import ScoredCandidate
from autorubric.training.queries import RubricQuery

Row: TypeAlias = dict[str, Any]

# As LlamaFactory joins the results of parallel calls in OpenAI's format; in ShareGPT's, it skips rows with several.
_BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept answer with its report, and the worse answer of its preference pair."""

    query: RubricQuery
    chosen: ScoredCandidate
    report: Report
    rejected: ScoredCandidate | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """The files that a trainer reads, by their paths in the run directory.

    Attributes:
        files: JSONL files, each with the function that turns a kept answer into a row.
        pair_files: the same, written only for selections of preference pairs.
        other_files: further files, each with the function that writes it: `write(path, kept, pairs)`.

    Example:
        >>> Adapter({"alpaca.jsonl": lambda kept: {"output": kept.chosen.candidate.answer}}).list_files()
        ['alpaca.jsonl']
    """

    files: Mapping[str, Callable[[Kept], Row]]
    pair_files: Mapping[str, Callable[[Kept], Row]] = field(default_factory=dict)
    other_files: Mapping[str, Callable[[Path, Sequence[Kept], bool], None]] = field(default_factory=dict)

    def list_files(self) -> list[str]:
        """Return the paths of all files."""
        return [*self.files, *self.pair_files, *self.other_files]


def list_trainers() -> list[str]:
    """Return the names of all adapters, those of installed packages last."""
    return [*_BUILT_IN, *(name for name in find_plugins("adapters") if name not in _BUILT_IN)]


def check_trainers(names: Sequence[str]) -> tuple[str, ...]:
    """Return the named trainers, or all trainers if none is named.

    Raises:
        InputError: a name is unknown, or an installed adapter cannot be loaded.

    Example:
        >>> check_trainers(["llama-factory"])
        Traceback (most recent call last):
        autorubric.errors.InputError: trainer 'llama-factory' is unknown; did you mean 'llamafactory'?
    """
    known = list_trainers()
    problems = [f"trainer {name!r} is unknown; {suggest_name(name, known)}" for name in names if name not in known]
    if problems:
        raise InputError(problems)
    for name in names:
        find_adapter(name)
    return tuple(names) or tuple(known)


def find_adapter(name: str) -> Adapter:
    """Return the adapter of a trainer by its name, which `list_trainers` lists."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    found = load_plugin("adapters", name)
    if not isinstance(found, Adapter):
        kind = type(found).__name__
        raise InputError(f"entry point {name!r} in group 'autorubric.adapters' is a {kind}; expected an Adapter")
    return found


def list_training_files() -> list[str]:
    """Return the paths of the files that a selection may write for trainers."""
    return [path for name in list_trainers() for path in find_adapter(name).list_files()]


def write_training_files(folder: Path, kept: Sequence[Kept], trainers: Iterable[str], *, pairs: bool) -> list[Path]:
    """Write the files of these trainers, and remove files of an earlier selection that this one does not write.

    Nothing is written if no answer was kept, because an empty file would look like data.
    """
    wanted = set(trainers if kept else ())
    written = []
    for name in list_trainers():
        adapter = find_adapter(name)
        own = {**adapter.files, **(adapter.pair_files if pairs else {})} if name in wanted else {}
        others = adapter.other_files if name in wanted else {}
        for path, make_row in own.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            _write_json(folder / path, map(make_row, kept))
        for path, write in others.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            write(folder / path, kept, pairs)
        written += [folder / path for path in (*own, *others)]
        for path in adapter.list_files():
            if path not in own and path not in others:
                _remove(folder / path, folder)
    return written


def build_chat_row(kept: Kept) -> Row:
    """Build a conversation that ends with the kept answer, with the tools that it may call."""
    return {"messages": [*kept.query.turns, _build_turn(kept.chosen)], **_build_tools(kept)}


def _build_ruft_row(kept: Kept) -> Row:
    """Return a row with the columns of RubricHub's RuFT release."""
    details = [_flatten(entry) for entry in kept.report.report or ()]
    record = Record(
        tuple(kept.query.rubric),
        kept.query.text,
        kept.chosen.candidate.sample_id,
        answer=kept.chosen.candidate.answer,
        domain=kept.query.source,
        metadata={"rubric_score": kept.chosen.score, "rubric_judge_details": details},
    )
    return RUFT.write_row(record)


def _write_ruft_table(path: Path, kept: Sequence[Kept], pairs: bool) -> None:
    with parquet_writer(path, RUFT.build_arrow_schema()) as add:
        for one in kept:
            add(dump_details(_build_ruft_row(one)))


def _build_completion_row(kept: Kept) -> Row:
    """TRL's conversational prompt and completion, for `SFTTrainer`."""
    return {"prompt": list(kept.query.turns), "completion": [_build_turn(kept.chosen)], **_build_tools(kept)}


def _build_preference_row(kept: Kept) -> Row:
    """TRL's conversational preference, for `DPOTrainer`."""
    worse = _find_rejected(kept)
    return {
        "prompt": list(kept.query.turns),
        "chosen": [_build_turn(kept.chosen)],
        "rejected": [_build_turn(worse)],
        "chosen_score": kept.chosen.score,
        "rejected_score": worse.score,
        **_build_tools(kept),
    }


def _build_llamafactory_row(kept: Kept) -> Row:
    """LlamaFactory's SFT row: tool calls, and the tools, are JSON text; results of several calls are one turn."""
    row = build_chat_row(kept)
    tools = {"tools": json.dumps(row["tools"], ensure_ascii=False)} if "tools" in row else {}
    turns: list[Row] = []
    for turn in map(_build_function_turn, row["messages"]):
        if turns and turns[-1]["role"] == turn["role"] == "tool":
            turn["content"] = f"{turns.pop()['content']}{_BETWEEN_RESULTS}{turn['content']}"
        turns.append(turn)
    return {"messages": turns, **tools}


def _build_function_turn(message: Mapping[str, Any]) -> Row:
    role, content = message["role"], message["content"]
    if calls := message.get("tool_calls"):
        named = (call["function"] for call in calls)
        given = [{**call, "arguments": from_cell(call.get("arguments") or {})} for call in named]
        told = json.dumps(given, ensure_ascii=False)
        role, content = "function", f"{content}<tool_call>{told}</tool_call>" if content else told
    return {"role": role, "content": content}


def _build_ranking_row(kept: Kept) -> Row:
    """LlamaFactory's ranking row."""
    row, worse = _build_llamafactory_row(kept), _find_rejected(kept)
    return {**row, "messages": row["messages"][:-1], "chosen": row["messages"][-1], "rejected": _build_turn(worse)}


def _write_dataset_info(path: Path, kept: Sequence[Kept], pairs: bool) -> None:
    """LlamaFactory's description of the files in the same folder."""
    tags = {f"{name}_tag": name for name in ("role", "content", "user", "assistant", "system")}
    if any(turn["role"] in ("tool", "function") for one in kept for turn in _build_llamafactory_row(one)["messages"]):
        tags |= {"function_tag": "function", "observation_tag": "tool"}
    columns = {"messages": "messages"} | ({"tools": "tools"} if any(one.query.tools for one in kept) else {})
    sft = {"file_name": "sft.jsonl", "formatting": "sharegpt", "columns": columns, "tags": tags}
    info: dict[str, Any] = {"autorubric_sft": sft}
    if pairs:
        columns = {**columns, "chosen": "chosen", "rejected": "rejected"}
        info["autorubric_dpo"] = {**sft, "file_name": "dpo.jsonl", "ranking": True, "columns": columns}
    _write_json(path, [info], indent=2)


_BUILT_IN = {
    "ruft": Adapter({"selected.jsonl": _build_ruft_row}, other_files={"selected.parquet": _write_ruft_table}),
    "chat": Adapter({"chat.jsonl": build_chat_row}),
    "trl": Adapter({"trl_sft.jsonl": _build_completion_row}, {"trl_dpo.jsonl": _build_preference_row}),
    "llamafactory": Adapter(
        {"llamafactory/sft.jsonl": _build_llamafactory_row},
        {"llamafactory/dpo.jsonl": _build_ranking_row},
        {"llamafactory/dataset_info.json": _write_dataset_info},
    ),
}


def _flatten(one: Any) -> Row:
    """Return one criterion and its verdict as flat values."""
    verdict, choice = one.final()
    return {
        "criterion": one.criterion.requirement,
        "points": one.criterion.weight,
        "verdict": choice.selected_label if choice is not None else None if verdict is None else verdict.value,
        "value": one.score_value,
        "reason": one.final_reason if isinstance(one, EnsembleCriterionReport) else one.reason,
    }


def _build_turn(scored: ScoredCandidate) -> dict[str, str]:
    return {"role": "assistant", "content": scored.candidate.answer}


def _build_tools(kept: Kept) -> Row:
    return {"tools": kept.query.tools} if kept.query.tools else {}


def _find_rejected(kept: Kept) -> ScoredCandidate:
    if kept.rejected is None:
        raise InputError(f"query {kept.query.id!r} has no pair")
    return kept.rejected


def _write_json(path: Path, rows: Iterable[Mapping[str, Any]], indent: int | None = None) -> None:
    with atomic_writer(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, indent=indent) + "\n")


def _remove(path: Path, folder: Path) -> None:
    """Remove a file, and its directory within the run directory if that is then empty."""
    path.unlink(missing_ok=True)
    if path.parent != folder and path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()
