"""Which pairs to label next, drawn with known probabilities from the pairs of a run.

A large run is read in a child process, so that its memory is freed and the process that serves annotators does not
wait. Annotators get a `Task`, adjudicators a `Dispute`.
"""

import json
import subprocess
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from autorubric.core.display import tell_apart
from autorubric.core.scoring import build_cell
from autorubric.errors import InputError
from autorubric.labels.event import Event, Pair, PairFinder, PairKey
from autorubric.labels.label_store import History
from autorubric.metrics.arrays import Flags, Floats
from autorubric.metrics.label_choice import JudgedPairs, LabelRequest, draw_pairs, rate_doubt, read_pairs, size_labels
from autorubric.runs.items_file import read_run
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE

Policy: TypeAlias = Literal["label_next", "random", "uncertain", "criterion", "disagreements"]

_LARGE = 16 * 2**20
"""The size in bytes from which a child process reads a run."""


@dataclass(frozen=True)
class Ask:
    """The request for a batch of pairs.

    Attributes:
        policy: `label_next` prefers pairs that narrow the interval of the mean score most, `uncertain` pairs on which
            the judge is unsure; `random` draws all pairs with equal probability, `criterion` pairs of one criterion,
            `disagreements` pairs on which judges differ.
        criterion: the criterion's name, for `criterion`.
        size: pairs per batch.
        seed: random seed of the first batch; batch n has the seed plus n.
    """

    policy: Policy = "label_next"
    criterion: str | None = None
    size: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        problems = []
        if self.policy not in get_args(Policy):
            problems.append(f"policy={self.policy!r} is not one of {', '.join(get_args(Policy))}")
        if (self.policy == "criterion") != (self.criterion is not None):
            problems.append("the policy 'criterion' needs criterion=NAME, and no other policy accepts one")
        for name, least in (("size", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                problems.append(f"{name}={value!r}; expected a whole number, {least} or more")
        if problems:
            raise InputError(problems)


class KnownPair(NamedTuple):
    """A pair that is left out of a draw: labelled, or drawn before.

    Attributes:
        item: the item's place in the dataset.
        place: the criterion's place in the item's rubric.
        verdict: the label; None if there is none yet.
    """

    item: int
    place: int
    verdict: str | None = None


class Batch(NamedTuple):
    """A draw.

    Attributes:
        pairs: the drawn pairs in random order of items, so that those labelled first are a random part.
        open: the number of pairs that were open to the draw.
    """

    pairs: tuple[LabelRequest, ...]
    open: int


def draw_batch(run: Path, ask: Ask, known: Sequence[KnownPair], batch: int) -> Batch:
    """Draw a batch from the judged pairs of a run that are not known; it is empty if none is open.

    Args:
        run: the run directory.
        ask: what to draw.
        known: the pairs to leave out; their labels show how often the judge errs.
        batch: the number of the batch, which moves the seed.

    Raises:
        InputError: the run cannot be read, or has no such criterion.
    """
    if is_large(run):
        return _draw_in_child(run, ask, known, batch)
    return draw_from_pairs(_load_pairs(run), ask, known, batch)


def list_known(history: History, finder: PairFinder) -> list[KnownPair]:
    """List the pairs of a label store that no draw may choose: labelled or drawn before."""
    known = dict[PairKey, KnownPair]()
    for key in (*history.draws, *history.labelled()):
        pair = finder.find_key(key)
        if pair is not None:
            verdict = history.verdict(key, None, finder.find_criterion(key))
            known[key] = KnownPair(pair.index, pair.place, verdict)
    return list(known.values())


def _load_pairs(run: Path) -> JudgedPairs:
    stored = read_run(run)
    return read_pairs(stored, stored.dataset)


def is_large(run: Path) -> bool:
    """Return whether the run is so large that a child process should read it."""
    files = (run / ITEMS_FILE, run / DATASET_FILE)
    return sum(path.stat().st_size for path in files if path.exists()) >= _LARGE


def draw_from_pairs(pairs: JudgedPairs, ask: Ask, known: Iterable[KnownPair], batch: int) -> Batch:
    """Do the work of `draw_batch` for a run that has been read.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> dataset, reports = example_run()
        >>> pairs = read_pairs(reports, dataset)
        >>> drawn = draw_from_pairs(pairs, Ask("random", size=3), [], 0)
        >>> drawn.open, [round(pair.probability, 3) for pair in drawn.pairs]
        (6, [0.5, 0.5, 0.5])
    """
    rng = np.random.default_rng(ask.seed + batch)
    truth, closed = _with_known(pairs, known)
    inside = select_scope(pairs, ask.policy, ask.criterion)
    if ask.criterion is not None and not inside.any():
        raise InputError(f"no judged pair has a criterion named {ask.criterion!r}")
    free = np.flatnonzero(~np.isnan(pairs.values) & ~closed & inside)
    if not len(free):
        return Batch((), 0)
    found = draw_pairs(pairs, free, _compute_sizes(pairs, ask.policy, truth)[free], ask.size, rng)
    items = sorted({request.item for request in found})
    rank = dict(zip(items, rng.permutation(len(items)).tolist(), strict=True))
    return Batch(tuple(sorted(found, key=lambda request: (rank[request.item], request.criterion))), len(free))


def select_scope(pairs: JudgedPairs, policy: str, criterion: str | None) -> Flags:
    """Return the pairs that a policy draws from: all, except for `criterion` and `disagreements`.

    If several rubrics use a name, one criterion is found by its name in `autorubric agree`, such as `Right (Is 4)`.
    """
    if policy == "criterion":
        names = {id(criterion): criterion.name for criterion in pairs.criteria}
        plain = np.array([names[id(one)] == criterion for one in pairs.criteria], bool)
        if plain.any():
            return plain
        named = [(pairs.find_name(pair), one.requirement) for pair, one in enumerate(pairs.criteria)]
        distinct = list(dict.fromkeys(named))
        told = dict(zip(distinct, tell_apart(distinct), strict=True))
        return np.array([criterion in (one[0], told[one]) for one in named], bool)
    if policy == "disagreements":
        return np.nan_to_num(pairs.dissent) > 0
    return np.ones(len(pairs), bool)


def _compute_sizes(pairs: JudgedPairs, policy: str, truth: Floats) -> Floats:
    """Compute the sizes to which the probabilities of a policy are proportional."""
    if policy == "label_next":
        return size_labels(pairs, truth)
    return rate_doubt(pairs, truth) if policy == "uncertain" else np.ones(len(pairs))


def _with_known(pairs: JudgedPairs, known: Iterable[KnownPair]) -> tuple[Floats, Flags]:
    """Return the truth with the known labels filled in, and a flag for each pair that no draw may choose."""
    known = list(known)
    truth, closed = pairs.truth.copy(), pairs.labelled.copy()
    for pair, at in zip(known, pairs.find((pair.item, pair.place) for pair in known).tolist(), strict=True):
        if at < 0:
            continue
        closed[at] = True
        if pair.verdict is not None:
            value = build_cell(pairs.criteria[at], pair.verdict).value
            truth[at] = 0.0 if value is None else value
    return truth, closed


def _draw_in_child(run: Path, ask: Ask, known: Sequence[KnownPair], batch: int) -> Batch:
    request = json.dumps({"run": str(run), "ask": asdict(ask), "known": known, "batch": batch})
    command = [sys.executable, "-P", "-c", f"import sys; from {__name__} import main; sys.exit(main())"]
    done = subprocess.run(command, input=request, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise InputError(f"{run}: cannot draw pairs: {done.stderr.strip()[-1000:]}")
    pairs, n_open = json.loads(done.stdout)
    return Batch(tuple(LabelRequest(*pair) for pair in pairs), n_open)


def main() -> int:
    """Draw the batch that standard input requests, and write it to standard output."""
    request = json.load(sys.stdin)
    warnings.simplefilter("ignore")  # standard error is for the reason of a failure
    try:
        known = [KnownPair(*pair) for pair in request["known"]]
        found = draw_from_pairs(_load_pairs(Path(request["run"])), Ask(**request["ask"]), known, request["batch"])
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    json.dump(found, sys.stdout)
    return 0


@dataclass(frozen=True, slots=True)
class Task:
    """What an annotator sees of a pair.

    It contains nothing from a judge or another annotator, and no probability, which would hint at the verdict.

    Attributes:
        pair: the pair to label.
        query: the query that the submission answers.
        submission: the text to judge.
        reference: the reference answer, if there is one.
        requirement: the criterion's text.
        weight: the criterion's weight; below 0 for a pitfall.
        choices: the verdicts to choose from: MET, UNMET, CANNOT_ASSESS, or the labels of the options.
    """

    pair: Pair
    query: str
    submission: str
    reference: str | None
    requirement: str
    weight: float
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dispute:
    """A pair on which annotators differ, for an adjudicator. The judge's verdict stays hidden until it is decided.

    Attributes:
        task: what the annotators saw.
        labels: the label of each annotator, first label first.
    """

    task: Task
    labels: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an annotator.

    Attributes:
        labelled: pairs that this annotator labelled.
        skipped: pairs that this annotator skipped.
        open: pairs of the current batches that this annotator can still label.
        differing: pairs on which annotators differ, not yet adjudicated.
    """

    labelled: int
    skipped: int
    open: int
    differing: int
