"""Forty rows as people have them, and how each is read: by hand, from what its author would say it holds."""

from __future__ import annotations

from typing import Any, NamedTuple


class Reading(NamedTuple):
    """What a row holds."""

    query: str = "Why is the sky blue?"
    id: str | None = "q1"
    criteria: tuple[tuple[str, float], ...] = (("Names scattering.", 5.0),)
    submission: str = "Because of scattering."
    reference: str | None = None
    as_stored: str | None = None
    """The query of readers whose requests hold it, where a row has a conversation as JSON text."""


ASKED, SAID = "Why is the sky blue?", "Because of scattering."
OWN = [{"requirement": "Names scattering.", "weight": 5}]
POINTS = [{"criterion": "Names scattering.", "points": 5}]
TITLED = [{"title": "Cause", "description": "Names scattering.", "weight": 5}]
USER = [{"role": "user", "content": ASKED}]
AS_JSON = '[{"role": "user", "content": "Why is the sky blue?"}]'
TURNS = [
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": ASKED},
]
DIALOGUE = f"user: Hi.\n\nassistant: Hello.\n\nuser: {ASKED}"
TWO = (("Names scattering.", 5.0), ("Lies.", -2.0))
PLAIN = Reading()


def row(**changes: Any) -> dict[str, Any]:
    """A row with usual names; a change to None takes a key out."""
    usual = {"id": "q1", "question": ASKED, "rubrics": POINTS, "answer": SAID}
    return {key: value for key, value in {**usual, **changes}.items() if value is not None}


def asked(name: str, value: Any = ASKED) -> dict[str, Any]:
    return row(question=None, **{name: value})


def judged(name: str, value: Any) -> dict[str, Any]:
    return row(rubrics=None, **{name: value})


def said(name: str) -> dict[str, Any]:
    return row(answer=None, **{name: SAID})


READ: list[tuple[dict[str, Any], Reading]] = [
    (row(), PLAIN),
    (asked("query"), PLAIN),
    (asked("prompt"), PLAIN),
    (asked("instruction"), PLAIN),
    (asked("input"), PLAIN),
    (asked("problem"), PLAIN),
    (asked("Question Text"), PLAIN),
    (asked("prompt", USER), PLAIN),
    (asked("messages", TURNS), PLAIN._replace(query=DIALOGUE)),
    (asked("conversation", TURNS), PLAIN._replace(query=DIALOGUE)),
    (row(question=AS_JSON), PLAIN._replace(as_stored=AS_JSON)),
    (row(prompt="", answer=None, submission=SAID), PLAIN),
    (row(question="", prompt=ASKED), PLAIN),
    (judged("rubric", OWN), PLAIN),
    (judged("rubric", POINTS), PLAIN),
    (judged("rubric", TITLED), PLAIN),
    (judged("Rubrics", POINTS), PLAIN),
    (judged("criteria", OWN), PLAIN),
    (judged("rubric_items", POINTS), PLAIN),
    (judged("rubric", {"criteria": OWN}), PLAIN),
    (judged("rubric", '[{"requirement": "Names scattering.", "weight": 5}]'), PLAIN),
    (judged("reward_model", {"style": "rubric", "rubrics": POINTS}), PLAIN),
    (row(reward_model={"style": "rubric", "rubrics": [{**POINTS[0], "tags": {"verifier": "llm"}}]}), PLAIN),
    (row(reward_model={"style": "rule", "ground_truth": ""}), PLAIN),
    (row(rubrics=[*POINTS, {"criterion": "Lies.", "points": -2}]), PLAIN._replace(criteria=TWO)),
    (said("submission"), PLAIN),
    (said("response"), PLAIN),
    (said("completion"), PLAIN),
    (said("output"), PLAIN),
    (said("Model Answer"), PLAIN),
    (row(id=None, query_id="q1"), PLAIN),
    (row(id=None, prompt_id="q1"), PLAIN),
    (row(id=None, UID=7), PLAIN._replace(id="7")),
    (row(uuid="other", __record_id__="idx:0"), PLAIN),
    (row(reference_answer="Rayleigh."), PLAIN._replace(reference="Rayleigh.")),
]

ALPACA = row(question=None, answer=None, instruction=ASKED, input="", output=SAID)
LAST: list[tuple[dict[str, Any], Reading]] = [
    (asked("context_messages", TURNS), PLAIN._replace(query=DIALOGUE)),
    (ALPACA, PLAIN),
    (ALPACA | {"input": "In brief."}, PLAIN._replace(query=f"{ASKED}\n\nIn brief.")),
    (ALPACA | {"input": 0}, PLAIN._replace(query=f"{ASKED}\n\n0")),
    (asked("user_input"), PLAIN),
    (row(user_input="And why?"), PLAIN),
    (said("actual_output"), PLAIN),
    (said("System Output"), PLAIN),
    (row(llm_output="Not met."), PLAIN),
    (said("text"), PLAIN),
    (said("full_text"), PLAIN),
    (row(text="An article."), PLAIN),
    (row(turns=1), PLAIN),
    (row(expected="Rayleigh."), PLAIN._replace(reference="Rayleigh.")),
    (row(ideal="Rayleigh."), PLAIN._replace(reference="Rayleigh.")),
    (row(expected="Mie.", reference="Rayleigh."), PLAIN._replace(reference="Rayleigh.")),
]
"""Rows with names that count only where no other name of the role holds something, and those of Alpaca."""

AMBIGUOUS: list[tuple[dict[str, Any], str, str, str]] = [
    (row(prompt="And why?"), "query", "question", "prompt"),
    (row(question=None, messages=TURNS, instruction="And why?"), "query", "messages", "instruction"),
    (row(rubric=OWN), "rubric", "rubrics", "rubric"),
    (row(criteria=TITLED), "rubric", "rubrics", "criteria"),
    (
        row(reward_model={"rubrics": [*POINTS, {"criterion": "Lies.", "points": 10}]}),
        "rubric",
        "rubrics",
        "reward_model",
    ),
]
"""Rows with two candidates: the role, and the names in the order of the row."""

YES_NO = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
SHAPES: list[tuple[Any, tuple[tuple[str, float], ...]]] = [
    (["Names scattering.", "Names the sun."], (("Names scattering.", 10.0), ("Names the sun.", 10.0))),
    ({"criteria": ["Names scattering."]}, (("Names scattering.", 10.0),)),
    ([{"name": "Light", "criteria": ["Names scattering."]}], (("Names scattering.", 10.0),)),
    ([{"criterion": "Names scattering.", "weight": 3, "axis": "Explicit"}], (("Names scattering.", 3.0),)),
    ([{"description": "Names scattering.", "points": 3, "importance": "high"}], (("Names scattering.", 3.0),)),
    ([{"criterion": "Names scattering.", "points": 3, "options": YES_NO}], (("Names scattering.", 3.0),)),
    ([{**OWN[0], "options": YES_NO, "levels": ["No", "Yes"]}], PLAIN.criteria),
    ([{**OWN[0], "metadata": {"levels": ["No", "Yes"]}}], PLAIN.criteria),
    (
        {"criteria": "Names scattering.", **{f"score{score}_description": f"{score}." for score in range(1, 6)}},
        (("Names scattering.", 10.0),),
    ),
    ([{**POINTS[0], "human_rating": [True, False], "type": "objective", "max_words": 50}], PLAIN.criteria),
    ([{"text": "Names scattering.", "序号": 1}], (("Names scattering.", 10.0),)),
    ([{"Criterion": "Names scattering.", "Points": "5"}], PLAIN.criteria),
    ([{**POINTS[0], "points": "+5 pts"}], PLAIN.criteria),
    ([{**OWN[0], "name": None, "weight": None}], (("Names scattering.", 10.0),)),
    ({"criterion": ["Names scattering."], "points": [5]}, PLAIN.criteria),
    ([{**OWN[0], "options": []}], PLAIN.criteria),
    ([{**POINTS[0], "options": [], "range": [0, 1], "time_range": "1-5", "age_range": [18, 30]}], PLAIN.criteria),
    ([{"name": "Light", "criteria": [{**POINTS[0], "is_negative": False}]}], PLAIN.criteria),
    ([{"title": "Names scattering.", "weight": 5, "id": "c1"}], PLAIN.criteria),
    ([{"Name": "Names scattering.", "Weight": 5, "annotations": {"why": "It is the cause."}}], PLAIN.criteria),
    ({"title": "Sky rubric", "items": POINTS}, PLAIN.criteria),
    ({"evaluation_criteria": POINTS}, PLAIN.criteria),
    ({"rubric": {"rubric_items": [{"描述": "Names scattering.", "权重": "5分"}]}}, PLAIN.criteria),
    ([{**OWN[0], "description": "A sentence that judges do not see."}], PLAIN.criteria),
    ([{**OWN[0], "level1": "Physics", "level2": "Light", "source": {"value": 3, "grade": 4}}], PLAIN.criteria),
]
"""Rubrics as other data sets write them, and their criteria."""

SCALE = {"0": "No scattering.", "5": "Scattering."}
UNREAD: list[tuple[Any, str]] = [
    (
        [{"name": "Light", "description": "Names scattering.", "max_score": 5}],
        "'max_score' is 5; rename it to 'weight'",
    ),
    ([{"description": "Names scattering.", "worth": 5}], "'worth' is 5; rename it to 'weight'"),
    ([{"requirement": "Names scattering.", "points": 5}], "'points' is 5; rename it to 'weight'"),
    ([{**OWN[0], "points": 3}], "weight=5 and points=3; leave one out, or rename it"),
    *(
        ([{"text": "Names scattering.", key: value}], f"{key!r} is {value!r}; rename it to 'weight'")
        for key, value in {"percentage": "30%", "wt": 5, "pct": 5, "ratio": 0.3, "分": 5, "占比": "30%"}.items()
    ),
    *(
        ([{**POINTS[0], key: value}], f"{key!r} is {value!r}; give a criterion that describes a fault a negative")
        for key, value in {
            "is_positive": False,
            "category": "Pitfall",
            "kind": "pitfall",
            "role": "penalty",
            "类型": "扣分项",
            "tags": ["pitfall"],
        }.items()
    ),
    ([{**POINTS[0], "Excellent": "All of it.", "Poor": "None of it."}], "'Excellent', 'Poor' describe a scale"),
    ([{"requirement": "Names scattering.", "score": 5}], "'score' is 5; rename it to 'weight'"),
    ([{"text": "Names scattering.", "max": 5}], "'max' is 5; rename it to 'weight'"),
    ([{"text": "Names scattering.", "value": 5}], "'value' is 5; rename it to 'weight'"),
    ([{"text": "Names scattering.", "w": 5}], "'w' is 5; rename it to 'weight'"),
    ([{"description": "Names scattering.", "priority": 1}], "'priority' is 1; rename it to 'weight'"),
    (
        [{"text": "Names scattering.", "points": 5}, {"text": "Lies.", "points": None}],
        "has no weight, but others have; give it one",
    ),
    ([{"description": "Names scattering.", "pts": 5}], "'pts' is 5; rename it to 'weight'"),
    (
        [{"requirement": "Is late.", "penalty": 3}],
        "'penalty' is 3; give a criterion that describes a fault a negative we",
    ),
    (
        [{"criterion": "Is late.", "weight": 3, "pitfall": True}],
        "'pitfall' is True; give a criterion that describes a",
    ),
    (
        [{**OWN[0], "polarity": "negative"}],
        "'polarity' is 'negative'; give a criterion that describes a fault a nega",
    ),
    ([{**OWN[0], "type": "pitfall"}], "'type' is 'pitfall'; give a criterion that describes a fault a negative"),
    ([{**POINTS[0], "sign": -1}], "'sign' is -1; give a criterion that describes a fault a negative"),
    ([{**POINTS[0], "reverse": True}], "'reverse' is True; give a criterion that describes a fault a negative"),
    (
        [{**POINTS[0], "score1_description": "No.", "score5_description": "Yes."}],
        "'score1_description', 'score5_description' describe a scale, but without options",
    ),
    ([{**OWN[0], "range": [0, 5]}], "'range' is [0, 5], but without options a criterion is met or not"),
    ({"sections": [{"name": "Style", "weight": 0.3, "criteria": OWN}]}, "nothing applies it: multiply it into"),
    (
        [{"text": "Names scattering.", "importance": "vital"}],
        "'importance' is 'vital'; rename it to 'weight', as a num",
    ),
    (
        [{"criterion": "Names scattering.", "weight": 5, "levels": SCALE}],
        "'levels' is {'0': 'No scattering.', '5': 'Sca",
    ),
    ([{**OWN[0], "scale": "1-5"}], "'scale' is '1-5', but without options a criterion is met or not"),
    (
        [{"criterion": "Is readable.", "weight": 5, "score_ranges": {"0-4": "No.", "5": "Yes."}}],
        "'score_ranges' is {'0-4': 'No.'",
    ),
    ([{**OWN[0], "items": OWN}], "'items' has 1 more; write them as criteria of the rubric with their weights"),
    (
        {"criteria": OWN, "pitfalls": [{"requirement": "Lies.", "weight": -3}]},
        "'pitfalls' has 1 more criteria; write all",
    ),
    ([{**OWN[0], "sub_tasks": OWN}], "'sub_tasks' has 1 more; write them as criteria of the rubric"),
    ([{"criterion": "Explains.", "weight": 5, "subCriteria": POINTS}], "'subCriteria' has 1 more"),
    (
        {"criteria": OWN, "weights": {"Light": 0.4}},
        "'weights' is {'Light': 0.4}; write each weight into its criterion",
    ),
    ({"criteria": ["Names scattering."], "points": [5]}, "'points' is [5]; write each weight into its criterion"),
    ({"criteria": OWN, "total_points": 10}, "'total_points' is 10, but the weights of its criteria add up to 5"),
    ({"max_points": 4, "sections": [{"name": "Style", "criteria": POINTS}]}, "'max_points' is 4, but the weights"),
    (
        {"criteria": TITLED, "dimension_weights": [1]},
        "'dimension_weights' is [1]; write each weight into its criterion",
    ),
    (
        {"recall": ["Names scattering."], "style": ["Is brief."]},
        "its keys are 'recall', 'style'; write groups of criteria as a list of",
    ),
    ({"Light": {"description": "Names scattering.", "weight": 5}}, "'Light'; write criteria as a list of {'name'"),
    ([{"title": "Light", "guidance": "Names scattering.", "weight": 5}], "keys are"),
    ([{"description": "An essay.", "weight": 5, "criteria": SCALE}], "criteria"),
]
"""Rubrics with something that changes what they mean and that nothing reads, and what is said of it."""
