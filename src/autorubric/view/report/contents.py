"""The contents of a report: pages of the view, and their figures."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from autorubric.errors import InputError
from autorubric.jobs.label_source import LabelChoice
from autorubric.view import figures
from autorubric.view.index.indexer import Indexer
from autorubric.view.page import ALL_ROWS, PAGE_ROWS, Page, PageQuery
from autorubric.view.pages.agreement_page import build_agreement_page, build_criteria_page
from autorubric.view.pages.comparison_page import build_comparison_page
from autorubric.view.pages.item_page import build_item_page
from autorubric.view.pages.items_page import build_items_page
from autorubric.view.pages.rubrics_page import build_rubric_page, build_rubrics_page
from autorubric.view.pages.runs_page import build_summary_page
from autorubric.view.report.groups_section import build_groups_page
from autorubric.view.sources import Source, open_sources

_DRAWN = 150  # items of the chart of two runs: a thousand take 150 kB
NO_COST = "The cost is unknown: the ledger of the run is missing or cannot be read."


@dataclass(frozen=True, slots=True)
class ReportScope:
    """Which parts of a run a report shows.

    Attributes:
        items: the number of items with the lowest scores; None for all items.
        has_text: whether it contains texts by people and models.
        all_criteria: whether the figures include every criterion, or only the first fifty.
        by: the metadata column whose groups are compared, or None.
    """

    items: int | None
    has_text: bool
    all_criteria: bool
    by: str | None = None


class Section(NamedTuple):
    """A page in a report.

    Attributes:
        anchor: the id that links point to.
        page: the page of the view.
        words: its entry in the table of contents; empty for none.
        note: what the section leaves out; empty if it is complete.
    """

    anchor: str
    page: Page
    words: str = ""
    note: str = ""


@contextmanager
def indexed(run: Path, choice: LabelChoice, baseline_of: Source | None = None) -> Iterator[Source]:
    """Yield a run with a temporary index: `RUN/.view` may be outdated, and reports write nothing into runs.

    Args:
        run: its directory.
        choice: which labels count.
        baseline_of: the run that is compared with this one.

    Raises:
        InputError: there is no graded run in the directory.
    """
    [found] = open_sources([run])
    found.check()
    if not found.has_items and (found.rubrics is None or baseline_of is not None):
        what = "grade` or `select" if baseline_of is not None else "grade`, `select` or `synthesize"
        own = "; its results are in its report.html" if (run / "report.html").is_file() else ""
        graded = str(found.manifest.get("graded_run") or "")
        own = f"; its scores are those of the run {graded}" if graded else own
        raise InputError(f"{run}: expected a run of `autorubric {what}`; this one has graded nothing{own}")
    if baseline_of is not None and not baseline_of.has_items:
        raise InputError(
            f"{baseline_of.directory} is a run of `autorubric synthesize`; only graded runs are compared"
        )
    with tempfile.TemporaryDirectory(prefix="autorubric-report-") as folder:
        name = str(found.manifest.get("experiment_name") or found.name)
        if baseline_of is not None and baseline_of.name == name:
            name += " (baseline)"
        source = replace(found, number=int(baseline_of is not None), place=Path(folder), name=name, choice=choice)
        if source.has_items:
            with closing(Indexer(run, source.place, choice)) as indexer:
                while indexer.step():
                    pass
        yield source


def build_contents(
    source: Source, other: Source | None, wanted: ReportScope
) -> tuple[Sequence[Section], Mapping[str, Any]]:
    """Return the sections of a report in order, and all its figures as JSON values.

    Args:
        source: the run.
        other: the run that it is compared with, or None.
        wanted: the parts that are shown.

    Raises:
        InputError: groups are wanted of a run that graded nothing; or see `build_groups_page`.
    """
    graded = source.has_items
    if wanted.by is not None and not graded:
        raise InputError(f"{source.directory} is a run of `autorubric synthesize`; only graded runs have groups")
    sections = list(_build_sections(source, other, wanted) if graded else _build_rubric_sections(source, wanted))
    if not wanted.has_text:
        sections = [
            section._replace(page=replace(section.page, data=remove_texts(section.page.data))) for section in sections
        ]
    figures = _collect_figures(source, sections, wanted) if graded else _collect_rubric_figures(source, sections)
    return sections, figures


def _build_summary(source: Source) -> Section:
    summary = build_summary_page(source, PageQuery(()))
    if summary.data["costs"]["problem"]:
        summary = replace(summary, data={**summary.data, "costs": {**summary.data["costs"], "problem": NO_COST}})
    return Section("summary", summary, "Summary")


def _build_rubric_sections(source: Source, wanted: ReportScope) -> Iterator[Section]:
    """Yield the sections on a synthesis run: its rubrics in order, at most `wanted.items` of them."""
    yield _build_summary(source)
    page = build_rubrics_page(source, _ask_for(wanted.items))
    yield Section("rubrics", page, "Rubrics", _note_rest(page, page.data["count"], "rubrics", "rubrics"))
    for row in page.data["rubrics"]:
        yield Section(f"rubric-{row['rubric']}", build_rubric_page(source, _ask_for(None), row["rubric"]))


def _build_sections(source: Source, other: Source | None, wanted: ReportScope) -> Iterator[Section]:
    yield _build_summary(source)
    if other is not None:
        # The other run is the baseline, so it comes first.
        page = build_comparison_page(other, PageQuery(()), (other, source), drawn=_DRAWN)
        note = _note_rest(page, page.data["common"], "items", "items that both have")
        if page.data["common"] > _DRAWN:
            note += f"; the chart has the first {_DRAWN}"
        yield Section("comparison", page, "Comparison", note)
    if wanted.by is not None:
        groups = build_groups_page(source, wanted.by)
        pairs = len(groups.data["differences"])
        yield Section("groups", groups, "Groups", f"{PAGE_ROWS} of {pairs:,} pairs" if pairs > PAGE_ROWS else "")
    agreement, criteria = build_agreement_page(source, PageQuery(())), build_criteria_page(source, PageQuery(()))
    if agreement.data["labelled"] or agreement.data["between"] or agreement.data["labels"]["problem"]:
        rest = _note_rest(agreement, criteria.data["count"], "criteria", "criteria")
        yield Section("agreement", agreement, "Agreement", rest)
    note = _note_rest(criteria, criteria.data["count"], "criteria", "criteria")
    yield Section("criteria", criteria, "Criteria", note)
    order = "place" if wanted.items is None else "worst"
    items = build_items_page(source, _ask_for(wanted.items, sort=order))
    note = _note_rest(items, items.data["count"], "items", "items with the lowest scores")
    yield Section("items", items, "Items", note)
    for row in items.data["items"]:
        yield Section(f"item-{row['item']}", build_item_page(source, _ask_for(None), row["item"]))


def _ask_for(most: int | None, **asked: str) -> PageQuery:
    """Return the query of a page with `most` rows, or with all."""
    return PageQuery(asked.items(), ALL_ROWS if most is None else most)


def _note_rest(page: Page, count: int, name: str, words: str) -> str:
    shown = len(page.data[name])
    return f"{shown:,} of {count:,} {words}" if shown < count else ""


def remove_texts(value: Any) -> Any:
    """Return the data of a page without texts by people and models; names and ids stay.

    Example:
        >>> remove_texts({"name": "Brief", "reason": "It is.", "votes": [{"error": "server: down", "reason": ""}]})
        {'name': 'Brief', 'reason': '', 'votes': [{'error': 'not shown', 'reason': ''}]}
    """
    if isinstance(value, Mapping):
        found = {name: _BARE.get(name, remove_texts)(inner) for name, inner in value.items()}
        return found | {"sentence": f"{value['kind']}: {value['count']:,}"} if "sentence" in value else found
    return [remove_texts(entry) for entry in value] if isinstance(value, list) else value


_TEXTS = ("description", "requirement", "reason", "label_reason", "question", "title", "text", "told", "why")
_BARE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TEXTS, lambda value: ""),
    **dict.fromkeys(("texts", "quotes", "unfound", "turns"), lambda value: []),
    "error": lambda value: value and "not shown",
}


def _collect_figures(source: Source, sections: Sequence[Section], wanted: ReportScope) -> Mapping[str, Any]:
    data = {section.anchor: section.page.data for section in sections}
    criteria = build_criteria_page(source, _ask_for(None)).data if wanted.all_criteria else data["criteria"]
    with source.reading() as connection:
        histogram = figures.read_histogram(connection)
        named = source.name_apart(connection, criteria["criteria"])
    cards = [collect_item_figures(row, data[f"item-{row['item']}"]) for row in data["items"]["items"]]
    names = ("summary", "comparison", "agreement", *(["groups"] if "groups" in data else ()))
    parts = {name: data.get(name) and select_figures(data[name]) for name in names}
    (parts["comparison"] or {}).pop("other", None)  # the number of the other run in the view
    return {
        "run": source.name,
        **parts,
        "histogram": [list(one) for one in histogram],
        "criteria": select_figures(named),
        "items": cards,
        "statistics": _collect_statistics(data),
        "damaged_lines": len(data["items"]["damaged"]),
    }


def _collect_statistics(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the registered statistics by criterion. They are separate, as earlier reports do not have them."""
    found = data["agreement"]["statistics"] if "agreement" in data else {"columns": [], "rows": {}}
    rows = found["rows"].items()
    return {name: select_figures(dict(zip(found["columns"], values, strict=True))) for name, values in rows if values}


def _collect_rubric_figures(source: Source, sections: Sequence[Section]) -> Mapping[str, Any]:
    data = {section.anchor: section.page.data for section in sections}
    shown = [data[f"rubric-{row['rubric']}"] for row in data["rubrics"]["rubrics"]]
    kept = ("id", "title", "weight", "outcome", "origin", "round", "models", "rejected_by")
    rows = [
        {
            **{name: row[name] for name in ("rubric", "id", "domain", "verdicts", "quality")},
            "criteria": [{name: criterion[name] for name in kept} for criterion in row["criteria"]],
            "scores": {str(answer["slot"]): answer["score"] for answer in row["responses"]},
        }
        for row in shown
    ]
    whole = {"summary": data["summary"], "comparison": None, "rubrics": data["rubrics"]["count"], "shown": rows}
    return {"run": source.name, **select_figures(whole)}


_LEFT_OUT = frozenset(
    {
        *("description", "requirement", "sentence", "error", "stand_ins", "dataset", "started", "problem", "message"),
        *("index", "next", "choices", "common_names", "drivers", "statistics", "majority", "limits", "graded_run"),
    }
)


def select_figures(value: Any) -> Any:
    """Return figures with the names that they belong to; texts and values that only pages need are left out.

    Numbers keep twelve digits: the last ones depend on the version of SQLite that summed them.

    Example:
        >>> select_figures({"name": "Brief", "requirement": "Is brief.", "mean": 0.1 + 0.2, "interval": (0, 1)})
        {'name': 'Brief', 'mean': 0.3, 'interval': [0, 1]}
    """
    if isinstance(value, Mapping):
        return {str(name): select_figures(inner) for name, inner in value.items() if name not in _LEFT_OUT}
    if isinstance(value, list | tuple):
        return [select_figures(entry) for entry in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def collect_item_figures(row: Mapping[str, Any], card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of an item: those in its row of the table of items, and those on its card."""
    figures: dict[str, Any] = select_figures(row)
    verdicts = [
        {
            "name": criterion["name"],
            "verdict": criterion["verdict"],
            **{name: criterion[name] for name in ("value", "confidence", "label") if criterion[name] is not None},
            **(
                {"votes": {vote["judge"]: vote["verdict"] for vote in criterion["votes"]}}
                if len(criterion["votes"]) > 1
                else {}
            ),
        }
        for criterion in card["criteria"]
    ]
    judges = {"judge_scores": select_figures(card["judge_scores"])} if len(card["judge_scores"]) > 1 else {}
    return figures | judges | {"verdicts": select_figures(verdicts)}
