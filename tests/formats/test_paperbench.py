"""PaperBench's trees of requirements."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import Rubric, grade
from autorubric.errors import InputError
from autorubric.formats import convert, read_records
from autorubric.jobs.submissions import read_rubric

TREE = Path(__file__).parents[1] / "data" / "paperbench.json.gz"
ROOT = json.loads(gzip.decompress(TREE.read_bytes()))


def leaves(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [leaf for one in node["sub_tasks"] for leaf in leaves(one)] if node["sub_tasks"] else [node]


def leaf(text: str, weight: float, *children: dict[str, Any]) -> dict[str, Any]:
    return {"id": text, "requirements": text, "weight": weight, "sub_tasks": list(children), "task_category": None}


def test_the_leaves_of_a_graded_tree_have_its_published_score() -> None:
    [(_, record)] = read_records(TREE)
    assert record.prompt == "The core contributions of the paper have been reproduced."
    assert [(one.id, one.tags) for one in record.criteria] == [
        (one["id"], [one["task_category"]]) for one in leaves(ROOT)
    ]
    weights = [one.weight for one in record.criteria]
    met = sum(weight * one["score"] for weight, one in zip(weights, leaves(ROOT), strict=True))
    assert met / sum(weights) == pytest.approx(ROOT["score"], abs=1e-12)


def test_a_leaf_shares_the_weight_of_its_parent_and_names_its_ancestors(tmp_path: Path) -> None:
    # 3 of B's 4 parts go to D, whose parts are equal: 4 * 3/4 * 1/2.
    tree = leaf("Root.", 7, leaf("A.", 1), leaf("B.", 4, leaf("C.", 1), leaf("D.", 3, leaf("E.", 5), leaf("F.", 5))))
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(tree))
    [(_, record)] = read_records(path)
    below = "\n\nPart of: B."
    assert [(one.weight, one.requirement) for one in record.criteria] == [
        (1.0, "A."),
        (1.0, f"C.{below}"),
        (1.5, f"E.{below} > D."),
        (1.5, f"F.{below} > D."),
    ]


def test_wrong_nodes_are_named_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "trees.jsonl"
    wrong = leaf(
        "Root.", 1, leaf("A.", 1, leaf(" ", 1), {"requirements": "B."}), {**leaf("C.", 1), "sub_tasks": ["D."]}
    )
    path.write_text(json.dumps(wrong) + "\n")
    with pytest.raises(InputError) as caught:
        list(read_records(path))
    assert [problem.partition("jsonl:1: ")[2] for problem in caught.value.problems] == [
        "sub_tasks[0].sub_tasks[1].weight is None; expected a finite number",
        "sub_tasks[0].sub_tasks[0].requirements is ' '; expected a string",
        "sub_tasks[1].sub_tasks is ['D.']; expected a list of objects",
    ]


def test_a_problem_of_the_root_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "tree.jsonl"
    path.write_text(json.dumps({**ROOT, "sub_tasks": "x"}) + "\n")
    with pytest.raises(InputError) as caught:
        list(read_records(path))
    assert len(caught.value.problems) == 1


def test_other_commands_say_how_to_convert_a_tree_and_grade_the_result(tmp_path: Path) -> None:
    path, flat = tmp_path / "tree.json", tmp_path / "flat.json"
    path.write_text(json.dumps(ROOT))
    with pytest.raises(InputError, match="a tree of criteria, as in PaperBench; convert it: autorubric convert"):
        read_rubric(path)
    convert(path, flat, "llmdc")
    rubric = Rubric.from_file(flat)
    assert len(rubric) == len(leaves(ROOT))
    graded = grade(submissions=["Nothing."], rubric=flat, judge="builtin/offline", out=tmp_path / "run")
    assert len(graded.item_results) == 1
