"""How a run differs from the earlier run in its directory, one sentence per difference.

If nothing that affects the files of a finished run has changed, repeating the run leaves them as they are.
"""

import json
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b, file_digest, sha256
from pathlib import Path
from typing import Any

from autorubric import __version__
from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize, shorten
from autorubric.files import write_atomically
from autorubric.llm.http.secrets import cut_to_base
from autorubric.llm.records.ledger import Ledger
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE

_LONGEST = 80


_OF_TRANSPORT = frozenset(
    {
        *("timeout", "max_retries", "retry_min_wait", "retry_max_wait", "max_parallel_requests", "api_key_env"),
        *("requests_per_minute", "tokens_per_minute", "prices", "allow_plain_http", "prompt_caching"),
        *("max_tokens_ceiling", "max_tokens_fixed"),
    }
)
"""Fields of a model's configuration that do not affect its replies."""

_UNRECORDED = {"compound": "as_is", "reasoning": "drop"}
"""Grader defaults that manifests omit, so that manifests of earlier versions still compare equal."""


def describe_change(what: str, before: Any, now: Any) -> str:
    """Return a sentence with the old and the new value.

    Example:
        >>> describe_change("judges", ["a", "b"], ["a"])
        'judges: a, b before, now a'
    """
    return f"{what}: {_format_value(before)} before, now {_format_value(now)}"


def find_grader_changes(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """List the differences that affect results between a grader and the one in a manifest.

    Fields that an earlier version did not record are not compared.

    Example:
        >>> find_grader_changes({"quorum": 2, "judges": []}, {"quorum": 3, "judges": [], "seed": 1})
        ['quorum: 2 before, now 3']
        >>> pasted, plain = ({"judges": [{"judge_id": "m", "model": {"api_base": f"https://host/v1{path}"}}]}
        ...                  for path in ("/chat/completions", "/"))
        >>> find_grader_changes(pasted, plain)
        []
    """
    if before is None:
        return []
    old, new = map(_index_judges, (before, now))
    changes = [] if old.keys() == new.keys() else [describe_change("judges", list(old), list(new))]
    for name in (name for name in old if name in new):
        changes += find_value_changes(_cut_address(old[name]), _cut_address(new[name]), f"judge {name}: ")
    skipped = {"judges", "stand_ins"}
    old = {key: value for key, value in {**_UNRECORDED, **before}.items() if key not in skipped}
    return changes + find_value_changes(old, {key: now.get(key, _UNRECORDED.get(key)) for key in old})


def _index_judges(grader: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configurations of a grader's judges by judge id; damaged ones are skipped."""
    specs = grader.get("judges")
    judges = specs if isinstance(specs, list | tuple) else ()
    return {str(judge["judge_id"]): judge for judge in judges if isinstance(judge, dict) and "judge_id" in judge}


def digest_grader(made_of: Mapping[str, Any]) -> str:
    """Return eight hex digits, the same for all graders whose settings give the same results."""
    judges = [_drop_transport(judge) for judge in made_of.get("judges") or ()]
    text = json.dumps({**made_of, "judges": judges, "stand_ins": None}, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:8]


def describe_difference(what: str, there: Any, here: Any) -> str:
    """Return a sentence with the value in another run and the value in this one."""
    return f"{what}: {_format_value(here)}, there {_format_value(there)}"


def find_value_changes(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    head: str = "",
    describe: Callable[[str, Any, Any], str] = describe_change,
) -> list[str]:
    """List the differences between nested settings; an absent setting and an empty list count as None.

    Args:
        before: the settings of the earlier run.
        now: the settings of this run.
        head: the start of each sentence.
        describe: returns a sentence for the name and both values.

    Example:
        >>> find_value_changes({"model": {"temperature": 0.0}}, {"model": {"temperature": 1.0}}, "judge a: ")
        ['judge a: model.temperature: 0.0 before, now 1.0']
    """
    old, new = dict(_flatten(before)), dict(_flatten(now))
    return [
        describe(head + name, old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def find_run_changes(manifest: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()) -> list[str]:
    """List the differences from the earlier run in the directory, if that run may have paid for a call.

    Args:
        manifest: the manifest of the run in the directory; empty if there is none.
        now: everything that affects this run's results.
        free: names in `now` that may differ.

    Example:
        >>> find_run_changes({"calls": 0, "status": "stopped", "made_of": {"writer": "a"}}, {"writer": "b"})
        []
        >>> find_run_changes({"calls": 3, "made_of": {"writer": "a"}}, {"writer": "b"})
        ['writer: a before, now b']
    """
    # The manifest of a killed process still has the number of calls at its start.
    if not manifest.get("calls") and manifest.get("status") != "running":
        return []
    both = manifest.get("made_of") or {}, now
    old, new = ({name: value for name, value in made.items() if name not in free} for made in both)
    return find_value_changes(old, new)


def find_dataset_changes(directory: Path, manifest: Mapping[str, Any], content: bytes, now_hash: str) -> list[str]:
    """List the differences from the dataset that was graded in a directory; see `find_item_changes`.

    Args:
        directory: the run directory, with the copy of the dataset.
        manifest: its manifest.
        content: the current dataset, as it is written to a file.
        now_hash: the digest of `content`.
    """
    before, path = manifest.get("dataset_hash"), directory / DATASET_FILE
    if before == now_hash or (before is None and not path.exists()):
        return []
    try:
        return find_item_changes(RubricDataset.from_stored(path), RubricDataset.from_json(content.decode()))
    except InputError:  # missing or damaged
        return [describe_change("dataset (its digest)", before, now_hash)]


def find_places(directory: Path, dataset: RubricDataset, content: bytes) -> Sequence[int]:
    """Return the current index of each item of a directory's stored dataset; -1 for items that are gone or changed.

    Args:
        directory: the run directory.
        dataset: the current dataset.
        content: the dataset as it is written to a file.
    """
    path = directory / DATASET_FILE
    try:
        written = path.read_bytes()
        if len(written) == len(content) + 1 and written.startswith(content):
            return range(len(dataset))
        before = _hash_items(RubricDataset.from_stored(path))
    except (OSError, InputError):
        return ()
    places: dict[int, deque[int]] = {}
    for place, found in enumerate(_hash_items(RubricDataset.from_json(content.decode()))):
        places.setdefault(found, deque()).append(place)
    return [places[key].popleft() if places.get(key) else -1 for key in before]


def write_dataset(
    directory: Path, content: bytes, places: Sequence[int], stored: Mapping[int, tuple[float, bytes]]
) -> None:
    """Write the dataset of a run; if items have moved, rewrite the result lines of earlier sessions.

    Args:
        directory: the run directory.
        content: the dataset as it is written to a file.
        places: the result of `find_places`.
        stored: the duration and the line of each item with a result, by current index.
    """
    items = directory / ITEMS_FILE
    stays = bool(places) and all(place == index for index, place in enumerate(places))
    if not stays:
        items.unlink(missing_ok=True)  # first, so that a kill in between leaves no mix of both
    write_atomically(directory / DATASET_FILE, [content, b"\n"])
    if stored and not stays:
        write_atomically(items, (line + b"\n" for _, line in stored.values()))


def find_item_changes(before: RubricDataset, now: RubricDataset) -> list[str]:
    """List the differences from the dataset that was graded; added items and changed labels do not count.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> rubric = Rubric([Criterion(requirement="Is brief")])
        >>> first, second = RubricDataset("Why?", rubric), RubricDataset("Why?", rubric)
        >>> first.add_item("Yes.", "")
        >>> second.add_item("No.", "")
        >>> find_item_changes(first, second)
        ["dataset: changed in 1 of 1 earlier item; submission of item 0: 'Yes.' before, now 'No.'"]
    """
    old, new = _hash_items(before), _hash_items(now)
    missing = Counter(old)
    missing.subtract(Counter(new))
    gone = [index for index, content in enumerate(old) if missing[content] > 0]
    if not gone:
        return []
    if len(gone) + len(new) == len(old):
        rest = f"has {len(new):,} of the {pluralize(len(old), 'earlier item')}, item {gone[0]} is missing"
        return [f"dataset: {rest}; pass the others too, perhaps with a higher --limit (in Python: limit)"]
    place = _find_same_item(before, now, gone[0])
    differences = iter(()) if place is None else _find_differences(before, now, gone[0], place)
    example = next(differences, f"item {gone[0]} {'is missing' if place is None else 'has changed'}")
    return [f"dataset: changed in {len(gone):,} of {pluralize(len(old), 'earlier item')}; {example}"]


def _format_value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        return shorten(", ".join(value), _LONGEST) or "none"
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LONGEST) or "none"


def _flatten(values: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{head}{key}.")
        elif value is not None and value not in ([], ()):
            yield head + key, json.loads(json.dumps(value, default=str))


def _drop_transport(judge: Mapping[str, Any]) -> dict[str, Any]:
    model = {key: value for key, value in (judge.get("model") or {}).items() if key not in _OF_TRANSPORT}
    return {"repeats": 1, **judge, "model": model}


def _cut_address(judge: Mapping[str, Any]) -> dict[str, Any]:
    """Return a judge without its transport settings; different spellings of one address become equal."""
    judge = _drop_transport(judge)
    if isinstance(address := judge["model"].get("api_base"), str):
        judge["model"]["api_base"] = cut_to_base(address)
    return judge


def _hash_items(dataset: RubricDataset) -> list[int]:
    """Return a hash of everything that the verdicts on each item depend on."""
    rubrics: dict[int, str] = {}
    found = []
    for index, item in enumerate(dataset):
        rubric = dataset.get_item_rubric(index)
        text = rubrics.setdefault(id(rubric), _serialize_rubric(rubric))
        prompt, reference = dataset.get_item_prompt(index), dataset.get_item_reference_submission(index)
        found.append(hash((item.submission, prompt, reference, text)))
    return found


def _serialize_rubric(rubric: Rubric) -> str:
    return json.dumps([rubric.guidelines, *map(_dump_judged_fields, rubric)], sort_keys=True)


def _dump_judged_fields(criterion: Criterion) -> dict[str, Any]:
    return criterion.model_dump(mode="json", exclude={"tags": True, "options": {"__all__": {"metadata"}}})


def _find_same_item(before: RubricDataset, now: RubricDataset, index: int) -> int | None:
    """Return the place of an earlier item now, by its id, else by its index; None if it is missing."""
    places = [place for place, item in enumerate(now) if item.id == before[index].id]
    if before[index].id and any(item.id for item in now):
        return places[0] if len(places) == 1 else None
    return index if index < len(now) else None


def _find_differences(before: RubricDataset, now: RubricDataset, index: int, place: int) -> Iterator[str]:
    """Yield how the item at an index has changed, which is at `place` now: its texts, then its criteria."""
    of = f"of item {index}" + (f" ({before[index].id})" if before[index].id else "")
    texts = (
        ("submission", before[index].submission, now[place].submission),
        ("prompt", before.get_item_prompt(index), now.get_item_prompt(place)),
        ("reference", before.get_item_reference_submission(index), now.get_item_reference_submission(place)),
    )
    for name, old, new in texts:
        if old != new:
            yield f"{name} {of}: {_quote_text(old)} before, now {_quote_text(new)}"
    rubrics = before.get_item_rubric(index), now.get_item_rubric(place)
    if _serialize_rubric(rubrics[0]) == _serialize_rubric(rubrics[1]):
        return
    if len(rubrics[0]) != len(rubrics[1]):
        yield describe_change(f"criteria {of}", len(rubrics[0]), len(rubrics[1]))
    for number, (criterion, other) in enumerate(zip(*rubrics, strict=False), start=1):
        name = criterion.name or f"C{number}"
        yield from find_value_changes(
            _dump_judged_fields(criterion), _dump_judged_fields(other), f"criterion {name!r} {of}: "
        )
    yield f"rubric {of} has changed"


def _quote_text(text: str | None) -> str:
    return "none" if text is None else repr(shorten(text, _LONGEST))


_NOTE = "finished"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """Everything that affects a run's files, and the files themselves.

    The ledger keeps the digest of both, so a run whose ledger is lost or replaced does not count as finished.

    Attributes:
        ledger: the run's ledger.
        made_of: everything that affects the files except the code, as JSON values; other values count by their text.
        files: the files that the run writes; a missing one differs from an empty one.
    """

    ledger: Ledger
    made_of: Any
    files: tuple[Path, ...]

    def find(self) -> Any:
        """Return what `keep` recorded; None if this run did not finish, or files or replies have changed since."""
        found = self.ledger.find_note(_NOTE)
        if found is None or found["digest"] != self._digest() or not self.ledger.is_intact:
            return None
        return found["kept"]

    def keep(self, value: Any) -> None:
        """Record that the run has finished, with a value for `find`."""
        self.ledger.keep_note(_NOTE, {"digest": self._digest(), "kept": value})

    def _digest(self) -> str:
        calls = [[total.role, total.model, total.calls, total.failed] for total in self.ledger.add_up()]
        made_of = [__version__, _list_code_files(), calls, self.made_of]
        digest = blake2b(json.dumps(made_of, sort_keys=True, default=str).encode(), digest_size=16)
        with ThreadPoolExecutor() as pool:  # hashing lets other threads run
            for content in pool.map(_hash_file, self.files):
                digest.update(content)
        return digest.hexdigest()


def _hash_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file_digest(file, partial(blake2b, digest_size=16)).digest()
    except FileNotFoundError:
        return b"missing"


@cache
def _list_code_files() -> list[list[Any]]:
    """Return names, sizes and times of this package's files: a working copy changes without a new version."""
    folder = Path(__file__).parents[1]
    files = [Path(at, name) for at, _, names in os.walk(folder) if "__pycache__" not in at for name in names]
    start = len(str(folder)) + 1
    return sorted([str(path)[start:], (state := path.stat()).st_size, state.st_mtime_ns] for path in files)
