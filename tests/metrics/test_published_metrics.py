"""The published names, fields and defaults of the metrics."""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

import autorubric.metrics
import autorubric.metrics._types
from autorubric import Criterion, CriterionVerdict
from autorubric.errors import InputError
from autorubric.metrics import (
    ConfusionMatrix,
    compute_metrics,
    filter_cannot_assess,
    filter_na_multi_choice,
    resolve_ground_truth,
)

PUBLISHED = Path(__file__).parents[1] / "data" / "published_metrics.txt"


def appendix(module: str) -> str:
    _, _, text = PUBLISHED.read_text().partition(f"===== {module}\n")
    return text.partition("\n=====")[0]


def test_every_published_name_is_there() -> None:
    names = re.findall(r"^(?:re-export (\w+)|(\w+) = )", appendix("autorubric.metrics"), re.MULTILINE)
    wanted = {a or b for a, b in names}
    assert wanted
    assert not {name for name in wanted if not hasattr(autorubric.metrics, name)}


def test_every_result_has_its_published_fields_and_defaults() -> None:
    text = appendix("autorubric.metrics._types")
    missing: list[str] = []
    for name, body in re.findall(r"^class (\w+)\(BaseModel\)\n((?:    .*\n?)+)", text, re.MULTILINE):
        fields: dict[str, Any] = getattr(autorubric.metrics._types, name).model_fields
        for field, default in re.findall(r"^    \.(\w+): .* = (.+)$", body, re.MULTILINE):
            if field not in fields or (
                default != "REQUIRED" and repr(fields[field].get_default(call_default_factory=True)) != default
            ):
                missing.append(f"{name}.{field} = {default}")
    assert missing == []


def test_compute_metrics_takes_the_published_arguments() -> None:
    found = {name: p.default for name, p in inspect.signature(compute_metrics).parameters.items()}
    assert list(found)[:2] == ["eval_result", "dataset"]
    assert {name: value for name, value in found.items() if value is not inspect.Parameter.empty} == {
        "bootstrap": False,
        "n_bootstrap": 1000,
        "per_judge": False,
        "cannot_assess": "exclude",
        "na_mode": "exclude",
        "confidence_level": 0.95,
        "seed": None,
        "per_item_metrics": "auto",
    }


def test_a_confusion_matrix_says_what_is_undefined() -> None:
    empty = ConfusionMatrix(matrix=[[0, 0], [0, 3]], labels=["MET", "UNMET"])
    assert (empty.precision, empty.recall, empty.fnr, empty.fpr) == (None, None, None, 0.0)
    three = ConfusionMatrix(matrix=[[4, 1, 1], [2, 5, 0], [0, 1, 6]], labels=["MET", "UNMET", "CANNOT_ASSESS"])
    assert (three.total, three.n_classes) == (20, 3)
    turned = ConfusionMatrix(matrix=[[1, 2], [3, 4]], labels=["UNMET", "MET"])
    for table, name in itertools.product(
        (three, turned), ("tp", "fn", "fp", "tn", "fpr", "fnr", "precision", "recall")
    ):
        with pytest.raises(InputError, match="need the categories MET and UNMET"):
            getattr(table, name)


def test_lists_of_verdicts_are_settled_as_tables_are() -> None:
    met, unmet, unsure = CriterionVerdict.MET, CriterionVerdict.UNMET, CriterionVerdict.CANNOT_ASSESS
    assert filter_cannot_assess([met, unsure], [unsure, met]) == ([], [])
    assert filter_cannot_assess([met, unsure], [unsure, met], "as_unmet") == ([met, unmet], [unmet, met])
    assert filter_cannot_assess([unsure], [met], "as_category") == ([unsure], [met])
    options: Any = [
        {"label": "No", "value": 0},
        {"label": "Yes", "value": 1},
        {"label": "N/A", "value": 0, "na": True},
    ]
    criterion = Criterion(requirement="Is it right?", weight=-1, options=options)
    assert filter_na_multi_choice([0, 2], [2, 1], criterion, "as_unmet") == ([0, 1], [1, 1], 0, 1, 1)
    assert resolve_ground_truth(["yes"], [criterion]) == [1]
