"""Scores of a run against human scores of whole submissions, and against preferences."""

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from scipy import stats

from autorubric import EvalResult, InputError, Note, agree_scores, grade
from autorubric.dataset.item import split_preferences
from autorubric.rows import Record
from tests.offenders import offenders

Rows: TypeAlias = list[dict[str, Any]]
Scored: TypeAlias = tuple[EvalResult, Rows]
WORDS = {"alpha": 1, "beta": 2, "gamma": 4}
RUBRIC = [
    {
        "name": word,
        "requirement": f"Contains {word}.",
        "weight": weight,
        "check": {"name": "contains", "parameters": {"phrases": word}},
    }
    for word, weight in WORDS.items()
]


def graded(tmp_path: Path, rows: Rows) -> EvalResult:
    return grade(rows, rubric=RUBRIC, out=tmp_path / "graded")


@pytest.fixture
def scored(tmp_path: Path) -> Scored:
    """30 submissions to four queries, with human scores that have ties, and one without a score."""
    random.seed(5)
    rows = []
    for n in range(30):
        words = [word for word in WORDS if random.random() < 0.5]
        worth = sum(WORDS[word] for word in words)
        human = None if n == 7 else min(5, max(1, round(worth / 2 + random.uniform(-2, 3))))
        text = " ".join(["so", *words])
        rows.append({"id": str(n), "prompt": f"Query {n % 4}", "submission": text, "overall": human})
    return graded(tmp_path, rows), rows


def test_matches_scipy_and_a_count_of_all_pairs(scored: Scored, tmp_path: Path) -> None:
    run, rows = scored
    found = agree_scores(run, score="overall")
    known = [row for row in rows if row["overall"] is not None]
    score = {row["id"]: sum(WORDS.get(word, 0) for word in row["submission"].split()) / 7 for row in rows}
    ours, human = [score[row["id"]] for row in known], [row["overall"] for row in known]
    overall = found.overall
    assert overall.spearman.coefficient == pytest.approx(stats.spearmanr(ours, human)[0])
    assert overall.kendall.coefficient == pytest.approx(stats.kendalltau(ours, human)[0])
    assert overall.pearson.coefficient == pytest.approx(stats.pearsonr(ours, human)[0])
    hits, pairs, ties = 0.0, 0, 0
    for one, other in combinations(known, 2):
        if one["prompt"] != other["prompt"] or one["overall"] == other["overall"]:
            continue
        above = score[one["id"]] - score[other["id"]]
        pairs += 1
        ties += above == 0
        hits += 0.5 if above == 0 else (above > 0) == (one["overall"] > other["overall"])
    assert (overall.n_pairs, overall.n_ties, overall.n_queries) == (pairs, ties, 4)
    assert overall.pairwise_accuracy == pytest.approx(hits / pairs)
    assert overall.pairwise_ci is not None
    assert overall.pairwise_ci.lower < hits / pairs < overall.pairwise_ci.upper
    assert found.n_items == 29
    assert found.warnings == ["1 graded item without 'overall' left out"]
    met = ["gamma" in row["submission"] for row in known]
    gamma = next(part for part in found.criteria if part.name == "gamma")
    assert gamma.kendall.coefficient == pytest.approx(stats.kendalltau(met, human)[0])
    assert len(found._repr_html_()) > 100
    table = tmp_path / "grades.csv"  # 1 is the best
    table.write_text("id,grade\n" + "".join(f"{row['id']},{6 - row['overall']}\n" for row in known))
    grades = agree_scores(run, score="grade", labels=[table])
    assert grades.overall.spearman.coefficient == pytest.approx(stats.spearmanr(ours, [-at for at in human])[0])
    assert "items with a higher 'grade' have lower scores" in grades.warnings[1]


def test_reads_tables_of_several_people(scored: Scored, tmp_path: Path) -> None:
    run, rows = scored
    lines = ["item;overall", *(f"{r['id']};{r['overall']},5" for r in rows if r["overall"])]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "b.csv").write_text("\n".join(line.replace(",5", ",7") for line in lines))
    plain = agree_scores(run, score="overall")
    with pytest.warns(Note, match="several scores of an item are averaged: items 0, 1, 2"):
        joined = agree_scores(
            run, score="overall", labels=[tmp_path / "a.csv", tmp_path / "b.csv"], column={"id": "item"}
        )
    assert joined.overall.kendall == plain.overall.kendall
    assert joined.overall.pairwise_ci == plain.overall.pairwise_ci


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("id,overall\n0,1e999", "a.csv:2: the score 'overall' is '1e999'; expected a number"),
        ("id,overall\n0,many", "a.csv:2: the score 'overall' is 'many'; expected a number"),
        ('id,overall\n0,"1,000"', "a.csv:2: the score 'overall' is '1,000'; expected a number"),
        ("id;overall\n0;1,5\n1;1.000", "a.csv: the score 'overall' is '1.000', but others have a decimal comma"),
        ("id,overall\n99,3", "a.csv:2: no item has the id '99'"),
        ("id,rating\n0,3", "a.csv:2: no column 'overall'; the columns are 'id', 'rating'"),
        (
            "nr,overall\n0,3",
            "a.csv:2: no column with ids; the columns are 'nr', 'overall'; name it with --column id=",
        ),
        ("id,overall\n0,", "--score 'overall': no item has it in its metadata"),
    ],
)
def test_refuses_other_cells(scored: Scored, tmp_path: Path, cells: str, words: str) -> None:
    (tmp_path / "a.csv").write_text(cells)
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        agree_scores(scored[0], score="overall", labels=[tmp_path / "a.csv"])


def test_equal_means_are_ties_and_rows_without_a_score_are_left_out(tmp_path: Path) -> None:
    texts = ["alpha", "beta", "gamma", "alpha beta"]
    # Values of the metadata that the tables replace; their pairs are not of a chosen and a rejected submission.
    rows = [
        {"id": n, "prompt": "Q", "submission": text, "preference_pair": [1], "overall": 10**400}
        for n, text in enumerate(texts)
    ]
    run, table = graded(tmp_path, rows), tmp_path / "scores.jsonl"
    with pytest.raises(InputError, match=r"item 0, .*: the score 'overall' is 10+; expected a number"):
        agree_scores(run, score="overall")
    with pytest.raises(InputError, match=r"--column .* names columns of --labels, which is missing"):
        agree_scores(run, score="overall", column={"id": "item"})
    given = [(0, 0.1), (0, 0.2), (0, 0.3), (1, 0.2), (2, 0.5), (3, None)]
    table.write_text("".join(json.dumps({"id": id} | ({"overall": at} if at else {})) + "\n" for id, at in given))
    with pytest.warns(Note, match="averaged: items 0"):
        found = agree_scores(run, score="overall", labels=[table])
    assert (found.overall.n_pairs, found.overall.pairwise_accuracy) == (2, 1.0)
    assert found.warnings[0] == "1 graded item without 'overall' left out"


def test_preferences_with_labels_are_refused_and_blank_sides_noted(tmp_path: Path) -> None:
    row = {"prompt": "Q", "chosen": "alpha", "rejected": ""}
    for key in ("ground_truth", "Ground Truth"):
        with pytest.raises(InputError, match="item 0: labels of two submissions; give each of them a row of its own"):
            graded(tmp_path, [{**row, key: ["MET"] * 3}])
    with pytest.raises(InputError, match=r"item 0 \(chosen\): labels of two submissions"):
        graded(tmp_path, [{**row, "alpha": "MET", "beta": "UNMET", "gamma": "UNMET"}])
    with pytest.warns(Note) as notes:
        run = graded(tmp_path, [row])
    assert "item 0 (rejected): 'submission' is blank or null; blank submissions are graded" in str(notes[-1].message)
    assert agree_scores(run, score="preferred").overall.pairwise_accuracy == 1.0


def test_criteria_of_few_items_are_left_out(tmp_path: Path) -> None:
    rows = [{"prompt": "Q", "submission": "alpha", "overall": n, "rubric": RUBRIC[: 1 + n // 3]} for n in range(5)]
    found = agree_scores(grade(rows, out=tmp_path / "own"), score="overall")
    assert [(part.name, part.spearman.n_samples) for part in found.criteria] == [("alpha", 5)]
    assert "1 criterion with fewer than 3 verdicts on scored items left out" in found.warnings


def test_preferences_are_compared_within_their_pair(tmp_path: Path) -> None:
    def say(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": text}]

    # Text, messages with the query inside, and messages next to a query; all answer one query.
    rows: Rows = [
        {"id": "t", "prompt": "Which?", "chosen": "alpha beta", "rejected": "alpha"},
        {"id": "u", "prompt": "Which?", "chosen": say("alpha"), "rejected": say("gamma")},
        {"id": "v", "prompt": "Which?", "chosen": "beta", "rejected": "beta"},
    ]
    with pytest.warns(Note) as notes:
        run = graded(tmp_path, rows)
    assert [str(note.message).partition(":")[0] for note in notes] == ["submissions"]
    found = agree_scores(run, score="preferred").overall
    assert (found.n_pairs, found.n_ties, found.pairwise_accuracy) == (3, 1, 0.5)
    ids = [item["id"] for item in json.loads((tmp_path / "graded/dataset.json").read_text())["items"]]
    assert ids == ["t-chosen", "t-rejected", "u-chosen", "u-rejected", "v-chosen", "v-rejected"]
    # Messages, also as text, as in HH-RLHF.
    for name, pair in (
        ("inner", {"chosen": say("alpha"), "rejected": say("beta")}),
        ("text", {s: f"\n\nHuman: Which?\n\nAssistant: {t}" for s, t in (("Chosen", "alpha"), ("Rejected", "beta"))}),
    ):
        with pytest.warns(Note):
            inner = grade([pair], rubric=RUBRIC, out=tmp_path / name)
        assert agree_scores(inner, score="preferred").overall.pairwise_accuracy == 0.0
        items = json.loads((tmp_path / name / "dataset.json").read_text())["items"]
        assert [(item["prompt"], item["submission"]) for item in items] == [("Which?", "alpha"), ("Which?", "beta")]


def test_what_follows_the_dialogue_that_the_texts_of_a_preference_share_is_the_submission() -> None:
    ask, more = "\n\nHuman: Which?\n\nAssistant:", "Sure.\nUser: Hi.\nAssistant: Bye."
    pair = {"chosen": f"{ask} alpha", "rejected": f"{ask} beta"}
    expected: dict[str, tuple[dict[str, Any], list[Any]]] = {
        "split": (pair, ["alpha", "beta"]),
        "turns in an answer": ({**pair, "chosen": f"{ask} {more}"}, [more, "beta"]),
        "a question at the end": ({**pair, "rejected": ask + " No.\n\nHuman: Why?"}, ["alpha", "No.\n\nHuman: Why?"]),
        "one side goes on": ({**pair, "rejected": f"{ask} alpha\n\nHuman: Why?"}, ["alpha", "alpha\n\nHuman: Why?"]),
        "no answer": ({**pair, "rejected": ask}, ["alpha", ""]),
        "no shared question": ({**pair, "rejected": "Human: Hi."}, [pair["chosen"], "Human: Hi."]),
        "the exact name": ({**pair, "Chosen": "else"}, ["alpha", "beta"]),
    }
    with offenders() as case:
        for name, (fields, answers) in expected.items():
            with case(name):
                found = list(split_preferences([Record("a.jsonl:1", 1, fields)], {}, "a.jsonl", []))
                assert [one.fields["submission"] for one in found] == answers
                asked = [] if answers[0] == fields["chosen"] else [{"role": "user", "content": "Which?"}]
                assert [one.fields.get("messages", []) for one in found] == [asked, asked]


def test_either_side_of_a_preference_may_be_a_message_or_json(tmp_path: Path) -> None:
    user, good = {"role": "user", "content": "Which?"}, {"from": "gpt", "value": "alpha"}
    rows: Rows = [
        {"nr": "k", "asked": "Which?", "chosen": good, "rejected": '{"role": "admin"'},
        {"nr": None, "asked": "Which?", "chosen": [user, good], "rejected": '["alpha"]'},
        {"nr": None, "asked": "Which?", "chosen": json.dumps([user, good]), "rejected": '{"a": 1}'},
    ]
    with pytest.warns(Note):
        grade(rows, rubric=RUBRIC, out=tmp_path / "run", column={"query": "asked", "id": "nr"})
    items = json.loads((tmp_path / "run/dataset.json").read_text())["items"]
    assert [item["submission"] for item in items] == [
        "alpha",
        rows[0]["rejected"],
        "alpha",
        '["alpha"]',
        "alpha",
        '{"a": 1}',
    ]
    assert [item.get("id") for item in items] == ["k-chosen", "k-rejected", None, None, None, None]
    assert {item["prompt"] for item in items} == {"Which?"}
    for wrong, words in (
        ({"chosen": [good, user]}, r"item 0 \(chosen\): 'submission' must be a string, got list"),
        ({"preferred": "b"}, "item 0: rename the column 'preferred', under which preferences are stored"),
    ):
        with pytest.raises(InputError, match=words):
            grade(
                [{"prompt": "Which?", "chosen": "a", "rejected": "b", **wrong}], rubric=RUBRIC, out=tmp_path / "wrong"
            )
