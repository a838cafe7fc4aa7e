"""Words for what is graded and for who wrote it."""

from __future__ import annotations

WRITERS = frozenset(
    """student candidate pupil learner writer author applicant participant examinee contestant model assistant
    chatbot bot ai llm system speaker respondent she he they coder developer translator contributor""".split()  # noqa: SIM905
)
"""Who made a submission."""

TEXTS = frozenset(
    """response answer reply submission essay text output report paper composition work piece entry code program
    function query solution summary explanation letter email story plan poem translation review article
    paragraph introduction conclusion discussion analysis argument proof derivation calculation diagram
    presentation draft dialogue message note post speech outline script table abstract caption definition
    description comparison it completion recommendation thesis narrative project demo recipe advice itinerary
    document writing prose sentence reasoning implementation class method test lyrics song tutorial guide memo
    proposal tone style language grammar spelling punctuation structure formatting layout handwriting graph
    chart figure title ending opening""".split()  # noqa: SIM905
)
"""What is submitted, or a part of it."""

SUBJECTS = WRITERS | TEXTS
