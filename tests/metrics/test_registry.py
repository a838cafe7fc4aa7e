"""Statistics of installed packages, next to the package's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import autorubric
from autorubric import Criterion
from autorubric.cli.agreement_report import show_agreement
from autorubric.errors import InputError
from autorubric.metrics import MetricsResult, compute_metrics
from autorubric.metrics.agreement_statistics import load_statistics
from autorubric.plugins import find_plugins
from tests.view.viewing import item, judged, line, write_run

Make = Callable[..., Any]

BRIEF = Criterion(name="Brief", requirement="Is brief", tags=["form"])

SCOTT = '''
from autorubric.metrics import Part, Statistic


def scotts_pi(part: Part) -> float | None:
    """(p_o - p_e) / (1 - p_e), p_e from the shares of both raters together."""
    shares = (part.counts.sum(axis=0) + part.counts.sum(axis=1)) / (2 * part.counts.sum())
    chance = float((shares**2).sum())
    observed = part.counts.trace() / part.counts.sum()
    return None if chance == 1.0 else (observed - chance) / (1.0 - chance)


SCOTT = Statistic("scotts_pi", scotts_pi, title="Scott's pi")
KAPPA = Statistic("kappa", scotts_pi)
FAILING = Statistic("failing", lambda part: 1 / 0)
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a package with these entry points: its module and its metadata, as pip leaves them."""

    def installed(entry_points: str) -> None:
        (tmp_path / "scott_statistics.py").write_text(SCOTT)
        metadata = tmp_path / "scott_statistics-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scott-statistics\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[autorubric.statistics]\n{entry_points}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        find_plugins.cache_clear()
        load_statistics.cache_clear()

    yield installed
    monkeypatch.undo()
    sys.modules.pop("scott_statistics", None)
    find_plugins.cache_clear()
    load_statistics.cache_clear()


def measured(graded: Make) -> MetricsResult:
    # Labels M M M U U U, verdicts M M U U U M for a; b says MET throughout.
    made = graded([BRIEF])
    for label, said in zip("MMMUUU", "MMUUUM", strict=True):
        words = [{"M": "MET", "U": "UNMET"}[word] for word in (label, said)]
        made.add([words[0]], {"a": [words[1]], "b": ["MET"]})
    found: MetricsResult = compute_metrics(
        made.run, made.dataset, per_judge=True, bootstrap=True, n_bootstrap=10, seed=1
    )
    return found


def test_an_installed_statistic_is_in_every_table_export_and_file(
    graded: Make, install: Callable[[str], None], tmp_path: Path
) -> None:
    install("scott = scott_statistics:SCOTT")
    found = measured(graded)
    # 4 of 6 agree; both raters say MET half of the time: p_e = 1/2, pi = (2/3 - 1/2) / (1/2) = 1/3.
    third = pytest.approx(1 / 3)
    assert found.find("scotts_pi") == third and found.per_criterion[0].find("scotts_pi") == third
    assert found.per_judge is not None
    # b: 3 of 6 agree, MET has a share of 9/12: p_e = 5/8, pi = (1/2 - 5/8) / (3/8) = -1/3.
    by_judge = {name: judge.find("scotts_pi") for name, judge in found.per_judge.items()}
    assert by_judge == {"a": third, "b": pytest.approx(-1 / 3)}
    for by in ("criterion", "judge", "tag"):
        shown = show_agreement(found, by)
        assert all("Scott's pi" in row for row in shown.rows)
        assert "Scott's pi" in shown.render("csv").splitlines()[0] and "Scott's pi" in shown.render("md")
    assert [row["scotts_pi"] for row in found._build_rows() if row["level"] != "judge"] == [third, third]
    found.to_file(tmp_path / "metrics.json")
    assert json.loads((tmp_path / "metrics.json").read_text())["statistics"]["scotts_pi"] == third


def test_an_installed_statistic_is_in_the_view_and_in_reports(install: Callable[[str], None], tmp_path: Path) -> None:
    install("scott = scott_statistics:SCOTT")
    criteria = [{"name": "Brief", "weight": 1.0, "requirement": "Is brief."}]
    words = {"M": "MET", "U": "UNMET"}
    pairs = [(words[label], words[said]) for label, said in zip("MMMUUU", "MMUUUM", strict=True)]
    lines = [line(n, 1.0, [judged(criteria[0], said)]) for n, (_, said) in enumerate(pairs)]
    folder = write_run(
        tmp_path / "run", [item(n, label) for n, (label, _) in enumerate(pairs)], lines, rubric=criteria
    )
    made = {
        form: autorubric.report(folder, out=tmp_path / f"report.{form}", format=form) for form in ("html", "json")
    }
    # As above: pi = 1/3. p_e is 1/2, so that AC = (2/3 - 1/2) / (1/2); half of the labels are MET.
    found = json.loads(made["json"].text)["statistics"]["0"]
    assert found == {"AC": pytest.approx(1 / 3), "baseline": 0.5, "Scott's pi": pytest.approx(1 / 3)}
    assert '<td class="n" data-label="Scott&#39;s pi">0.33</td>' in made["html"].text
    assert all(autorubric.verify(made[form].path, run=folder).is_verified for form in made)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("kappa = scott_statistics:KAPPA", "another statistic has the name 'kappa'; rename it"),
        (
            "gone = scott_statistics:GONE",
            "entry point 'scott_statistics:GONE' in group",
        ),
        ("wrong = scott_statistics:scotts_pi", "is a function; expected an autorubric.metrics.Statistic"),
        ("failing = scott_statistics:FAILING", "statistic 'failing' failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_statistic_that_cannot_be_used_is_named(
    graded: Make, install: Callable[[str], None], entry: str, told: str
) -> None:
    install(entry)
    with pytest.raises(InputError) as raised:
        measured(graded)
    assert told in str(raised.value)


def test_the_names_of_statistics_are_unique_and_those_of_fields_are_in_results(graded: Make) -> None:
    names = [statistic.name for statistic in load_statistics()]
    assert len(set(names)) == len(names)
    found = measured(graded)
    # What has no field of its own is kept by name.
    assert {"mcc", "fpr", "fnr"} <= found.statistics.keys() and "accuracy" not in found.statistics
    assert found.find("accuracy") == found.criterion_accuracy and found.find("kappa") == found.micro_kappa
