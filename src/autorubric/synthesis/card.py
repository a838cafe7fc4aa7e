"""The dataset card: a `README.md` that Hugging Face reads, with its plots as SVG."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autorubric.charts.svg import plot_bars
from autorubric.errors import InputError, pluralize
from autorubric.files import iter_jsonl, write_atomically
from autorubric.files.printable import escape_markdown
from autorubric.linting.criterion_words import detect_language
from autorubric.runs.manifest import read_manifest
from autorubric.synthesis.quality import MEASURES
from autorubric.synthesis.run_summary import OUTCOMES, RubricCounts, find_weight

CARD_FILE, PLOTS = "README.md", "plots"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_WORDS = {
    "consistency": "judges agree on the verdict",
    "stability": "a judge agrees with itself",
    "alignment": "the query asks for it or implies it",
    "coverage": "demands of the query that are covered",
    "number": "criteria per rubric",
    "independence": "does not repeat another criterion",
    "atomicity": "asks for one thing",
    "clarity": "no vague words, no open comparison",
    "conciseness": "5 to 40 words",
    "language": "in the language of the query",
    "distinguishability": "discriminates between the responses",
    "weight_rationality": "weights fit",
    "verifiability": "the submission alone decides",
}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts about the run that a card reports.

    Attributes:
        name: the name of the dataset.
        license: the license in Hugging Face's spelling, such as `apache-2.0`.
        data_files: the path of each configuration's file, relative to the card.
        models: the model of each role.
        templates: fingerprint of each prompt template.
        cost_usd: dollars spent; None if a price is unknown.
        stand_ins: a sentence for each built-in model that stands in for a real one.
    """

    name: str
    license: str = "unknown"
    data_files: Mapping[str, str] = field(default_factory=lambda: {"default": "final_full.parquet"})
    models: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    cost_usd: float | None = None
    calls: int = 0
    stand_ins: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    version: str = ""


def read_run_facts(
    manifest: Mapping[str, Any], name: str, license: str = "unknown", data_files: Mapping[str, str] | None = None
) -> RunFacts:
    """Return the facts in the manifest of a synthesis run.

    Example:
        >>> usage = [{"calls": 3, "cost": 0.2, "unpriced": 0}, {"calls": 1, "cost": 0.0, "unpriced": 1}]
        >>> facts = read_run_facts({"models": {"merge": "openai/a"}, "usage": usage}, "strikes")
        >>> facts.calls, facts.cost_usd
        (4, None)
    """
    usage = manifest.get("usage") or []
    priced = not any(entry.get("unpriced") or entry.get("cost") is None for entry in usage)
    full = (manifest.get("settings") or {}).get("full") or {}
    asked = {slot for stage in (manifest.get("stages") or {}).values() for slot in stage["slots"]}
    return RunFacts(
        name=name,
        license=license,
        data_files=dict(data_files or {"default": "final_full.parquet"}),
        models={slot: model for slot, model in (manifest.get("models") or {}).items() if slot in asked or not asked},
        templates=dict(manifest.get("templates") or {}),
        cost_usd=sum(entry["cost"] for entry in usage) if priced and usage else None,
        calls=sum(entry["calls"] for entry in usage),
        stand_ins=tuple(manifest.get("stand_ins") or ()),
        gates=tuple((full.get("gates") or {}).get("order") or ()),
        version=str((manifest.get("versions") or {}).get("autorubric", "")),
    )


@dataclass(slots=True)
class CardFacts:
    """The facts for a card; their size does not grow with the rows.

    Attributes:
        run: about the run.
        total: the counts over all rows.
        domains: counts by domain, those with most rows first; empty if no row names one.
        lengths: rows by number of criteria.
        weights: criteria by weight.
        evolved_shares: rows by the share of points of evolved criteria, in tenths from 0 to 10.
        languages: queries by language.
    """

    run: RunFacts
    total: RubricCounts
    domains: dict[str, RubricCounts] = field(default_factory=dict)
    lengths: Counter[int] = field(default_factory=Counter)
    weights: Counter[float] = field(default_factory=Counter)
    evolved_shares: Counter[int] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row."""
        criteria = row.get("criteria") or row.get("rubrics") or []
        own = RubricCounts()
        own.add(row)
        self.total.add(row)
        self.domains.setdefault(str(row.get("domain") or ""), RubricCounts(self.run.gates)).add(row)
        self.lengths[len(criteria)] += 1
        self.weights.update(map(find_weight, criteria))
        if own.evolved_share is not None and any("origin" in criterion for criterion in criteria):
            self.evolved_shares[int(10 * own.evolved_points / own.points)] += 1
        if code := detect_language(str(row.get("question") or "")):
            self.languages[code] += 1


def count_facts(rows: Iterable[Mapping[str, Any]], run: RunFacts) -> CardFacts:
    """Collect the facts of rows, which are read one at a time.

    Args:
        rows: the rows of `final_full` (`{question, id, domain?, criteria, rejected?, rewritten?, quality?}`), or of
            `final` (`{question, id, rubrics}`), which have no domain, origin or quality.
        run: about the run.

    Example:
        >>> row = {"question": "Why?", "id": "q1", "criteria": [{"weight": 6, "origin": "merged"},
        ...     {"weight": 2, "origin": "evolved"}], "quality": {"clarity": 0.5, "stability": None}}
        >>> facts = count_facts([row], RunFacts("strikes"))
        >>> facts.total.evolved_share, facts.total.quality
        (0.25, {'clarity': (0.5, 1)})
    """
    facts = CardFacts(run, RubricCounts(run.gates))
    for row in rows:
        facts.add(row)
    ranked = sorted(facts.domains.items(), key=lambda pair: (-pair[1].rows, pair[0]))
    facts.domains = dict(ranked) if any(facts.domains) else {}
    return facts


def read_facts(directory: Path, name: str = "", license: str = "unknown") -> CardFacts:
    """Read the facts of a finished run directory from `final_full.jsonl` (else `final.jsonl`) and the manifest.

    Args:
        directory: the directory of a synthesis run.
        name: the name of the dataset; by default that of the directory.
        license: the license in Hugging Face's spelling.

    Raises:
        InputError: there are no final files in it, or a row cannot be read.

    Example:
        >>> read_facts(Path("no-such-run"))
        Traceback (most recent call last):
        autorubric.errors.InputError: no-such-run: no final_full.jsonl or final.jsonl to write a card from
    """
    files = {"full": "final_full", "default": "final"}
    files = {config: stem for config, stem in files.items() if (directory / f"{stem}.jsonl").exists()}
    if not files:
        raise InputError(f"{directory}: no final_full.jsonl or final.jsonl to write a card from")
    tables = {config: f"{stem}.parquet" for config, stem in files.items()}
    run = read_run_facts(read_manifest(directory) or {}, name or directory.resolve().name, license, tables)
    first = next(iter(files.values()))
    return count_facts((row for _, row in iter_jsonl(directory / f"{first}.jsonl")), run)


def write_card(directory: Path, facts: CardFacts) -> Path:
    """Write `README.md` and `plots/*.svg` into a directory, each atomically, and return the card's path.

    Example:
        >>> import tempfile
        >>> row = {"question": "Why a strike?", "id": "q1", "rubrics": [{"criterion": "Says why.", "points": 7}]}
        >>> path = write_card(Path(tempfile.mkdtemp()), count_facts([row], RunFacts("strikes")))
        >>> path.read_text().splitlines()[:3]
        ['---', 'pretty_name: strikes', 'license: unknown']
    """
    plots = draw_plots(facts)
    if plots:
        (directory / PLOTS).mkdir(parents=True, exist_ok=True)
    for name, chart in plots.items():
        write_atomically(directory / PLOTS / f"{name}.svg", [chart])
    path = directory / CARD_FILE
    write_atomically(path, [render_card(facts, tuple(plots))])
    return path


def render_card(facts: CardFacts, plots: tuple[str, ...] = ()) -> str:
    """Return the text of a card; `plots` has the names of its plots."""
    from autorubric.files.strict_yaml import dump_yaml

    figures = [f"![{name.replace('_', ' ')}]({PLOTS}/{name}.svg)\n" for name in plots]
    lines = [*_render_head(facts), *_render_statistics(facts), *_render_quality(facts), *figures]
    lines += [*_render_gates(facts), *_render_origin(facts.run)]
    return "\n".join(["---", f"{dump_yaml(build_front_matter(facts))}---", "", *lines]).rstrip() + "\n"


def build_front_matter(facts: CardFacts) -> dict[str, Any]:
    """Return the fields of the card that Hugging Face reads."""
    run, rows = facts.run, facts.total.rows
    files = [
        {"config_name": name, "data_files": [{"split": "train", "path": path}]}
        for name, path in run.data_files.items()
    ]
    languages = [code for code, _ in facts.languages.most_common()]
    return {
        "pretty_name": run.name,
        "license": run.license,
        **({"language": languages} if languages else {}),
        "size_categories": [next((name for most, name in _SIZES if rows < most), "n>1M")],
        "task_categories": ["text-generation"],
        "tags": ["rubrics", "synthetic", "llm-as-a-judge", "autorubric"],
        "configs": files,
    }


def draw_plots(facts: CardFacts) -> dict[str, str]:
    """Draw the plots of a card as SVG documents by name; a plot without data is left out."""
    plots: dict[str, str] = {}
    if counts := facts.lengths:
        lengths = [(str(n), float(counts[n])) for n in range(min(counts), max(counts) + 1)]
        plots["criteria"] = plot_bars("Criteria per rubric", lengths, "criteria", "rubrics")
    if facts.weights:
        weights = [(f"{weight:g}", float(n)) for weight, n in sorted(facts.weights.items())]
        plots["weights"] = plot_bars("Weights", weights, "weight", "criteria")
    if facts.evolved_shares:
        tenths = [(f"{10 * tenth}", float(facts.evolved_shares[tenth])) for tenth in range(11)]
        plots["evolved_share"] = plot_bars("Points held by evolved criteria", tenths, "per cent, from", "rubrics")
    quality = facts.total.quality
    means = [(name.replace("_", " "), quality[name][0]) for name in MEASURES if name in quality and name != "number"]
    if means:
        plots["quality"] = plot_bars("Quality, means", means, "measure", "mean", top=1)
    return plots


def _render_head(facts: CardFacts) -> Iterator[str]:
    run, total = facts.run, facts.total
    yield f"# {escape_markdown(run.name)}\n"
    for sentence in run.stand_ins:
        yield f"> **{escape_markdown(sentence)}**\n"
    maker = f"`autorubric` {run.version}".rstrip()
    yield f"{total.rows:,} queries with rubrics of {total.criteria:,} criteria, made by {maker}.\n"


def _render_statistics(facts: CardFacts) -> Iterator[str]:
    yield "## Statistics\n"
    columns = ("domain", "rows", "criteria", "a row", "pitfalls", "by a check", "mean points", "evolved points")
    rows = [_show_domain(name or "(none)", counts) for name, counts in facts.domains.items()]
    yield from _render_table(columns, [*rows, _show_domain("all", facts.total)])


def _show_domain(name: str, counts: RubricCounts) -> list[str]:
    return [
        name,
        f"{counts.rows:,}",
        f"{counts.criteria:,}",
        f"{counts.criteria / counts.rows:.1f}" if counts.rows else "–",
        f"{counts.pitfalls:,}",
        f"{counts.checks:,}",
        f"{counts.points / (counts.criteria - counts.pitfalls):.1f}" if counts.points else "–",
        "–" if counts.evolved_share is None else f"{100 * counts.evolved_share:.1f}%",
    ]


def _render_quality(facts: CardFacts) -> Iterator[str]:
    total = facts.total.quality
    if not total:
        return
    yield "## Quality\n"
    yield "Means over the rows that have evidence. `number` is a count, every other measure lies in [0, 1].\n"
    columns = ("measure", "what is counted", "rows", "mean", *(name or "(none)" for name in facts.domains))
    qualities = [total, *(counts.quality for counts in facts.domains.values())]
    rows = []
    for name in MEASURES:
        means = [f"{quality[name][0]:.2f}" if name in quality else "–" for quality in qualities]
        rows.append([name, _WORDS[name], f"{total[name][1] if name in total else 0:,}", *means])
    yield from _render_table(columns, rows)


def _render_gates(facts: CardFacts) -> Iterator[str]:
    if facts.total.gates:
        yield "## Gates\n"
        rows = [[gate, *(f"{count:,}" for count in counts.values())] for gate, counts in facts.total.gates.items()]
        yield from _render_table(("gate", *OUTCOMES), rows)


def _render_origin(run: RunFacts) -> Iterator[str]:
    yield "## How it was made\n"
    cost = "of unknown cost" if run.cost_usd is None else f"for ${run.cost_usd:,.2f}"
    yield f"{pluralize(run.calls, 'call')} {cost}.\n"
    if run.models:
        yield from _render_table(("role", "model"), [[role, model] for role, model in run.models.items()])
    if run.templates:
        rows = [[name, f"`{mark}`"] for name, mark in run.templates.items()]
        yield from _render_table(("template", "fingerprint"), rows)


def _render_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (columns, ["---"] * len(columns), *rows):
        yield "| " + " | ".join(map(escape_markdown, cells)) + " |"
    yield ""
