"""Simulated judges of planted criteria: they know the truth and err at a known rate."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from autorubric.files import dump_json
from autorubric.llm.request import Request
from autorubric.synthesis.candidate import Relevance
from autorubric.synthesis.relevance import POINTS
from autorubric.testing import PromptSections, ScriptedModel
from benchmarks.planted.corpus import REWORDED, Scene

ERRORS = (0.05, 0.08, 0.065)
"""How often each judge's verdict on a response is wrong."""
MISSED, INVENTED = 0.1, 0.03
"""How often one relevance judgment misses a repetition, and how often it sees one where there is none."""
SILENT = 0.01
"""How often a criterion has no entry in a reply."""
MENDED = 0.5
"""How often a rewrite fixes an ambiguous criterion."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How the scripted models err.

    Attributes:
        relevance: how often each point of one relevance judgment is wrong; 0.5 knows nothing.
        shared: the part of the relevance errors that all draws of one model make together.
        models: how many models the draws rotate.
        across: whether all models share those errors too.
        words: a relevance judge who knows no truth: it looks for words of the query in a criterion.
        verdicts: error rate of the verdicts, as a multiple of `ERRORS`.
        verdicts_shared: the part of the verdict errors that all judges make together.
    """

    relevance: float = 0.06
    shared: float = 0.0
    models: int = 3
    across: bool = False
    words: bool = False
    verdicts: float = 1.0
    verdicts_shared: float = 0.0


@dataclass(frozen=True, slots=True)
class Script:
    """What the models say about one query; the same request has the same answer."""

    scene: Scene
    seed: int
    noise: Noise = Noise()

    def judge(self, number: int) -> ScriptedModel:
        """The judge of that number, from 0, each with its own errors."""
        return ScriptedModel(lambda request: self._verdicts(request, number), f"scripted/judge-{number}")

    def relevance_judge(self) -> ScriptedModel:
        """The model that says what the query licenses."""
        return ScriptedModel(self._assess, "scripted/licence")

    def rewriter(self) -> ScriptedModel:
        """The model that rewrites criteria that judges split on."""
        return ScriptedModel(self._rewrites, "scripted/rewriter")

    def _random(self, *parts: object) -> Random:
        return Random("|".join(map(str, (self.seed, self.scene.query, *parts))))

    def _coins(self, shared: float, group: object, member: object, *about: object) -> Random:
        """The source of one judge's errors about one thing: with chance `shared`, that of the whole group."""
        together = shared > 0 and self._random("together", *about).random() < shared
        return self._random(group if together else member, *about)

    def _verdicts(self, request: Request, judge: int) -> str:
        shown = PromptSections(request)
        number = self.scene.responses.index(shown["submission"])
        entries = []
        for one, requirement, _ in shown.criteria:
            random = self._coins(self.noise.verdicts_shared, "judges", judge, number, requirement)
            truth, error = self.scene.truth[requirement][number], ERRORS[judge] * self.noise.verdicts
            # Judges err independently on a criterion that splits them.
            own = self._random(judge, number, requirement)
            met = own.random() < 0.5 if truth is None else truth != (random.random() < error)
            if random.random() >= SILENT:
                status = "MET" if met else "UNMET"
                entries.append({"criterion_id": one, "explanation": "So.", "criterion_status": status})
        return dump_json({"judgments": entries})

    def _assess(self, request: Request) -> str:
        known = {one.candidate.id: one.relevance for one in self.scene.planted}
        shown = PromptSections(request).criteria
        noise, draw = self.noise, request.draw
        group = "models" if noise.across else f"model {draw % noise.models}"
        entries = []
        for one, requirement, _ in shown:
            random = self._random("licence", draw, requirement)
            coins = {point: self._coins(noise.shared, group, f"draw {draw}", point, requirement) for point in POINTS}
            if random.random() < SILENT:
                continue
            if noise.words:
                entries.append(_word_entry(one, requirement, self.scene.query))
            else:
                wrong = {point for point in POINTS if coins[point].random() < noise.relevance}
                entries.append(_entry(one, known, [other for other, _, _ in shown], wrong, random))
        return dump_json({"licences": entries})

    def _rewrites(self, request: Request) -> str:
        mended = {one.candidate.id: one.mended for one in self.scene.planted}
        entries = []
        for one, requirement, _ in PromptSections(request).criteria:
            random = self._random("rewrite", one)
            reworded = requirement + REWORDED[self.scene.language]
            text = mended[one] if random.random() < MENDED else ""
            entry = {
                "criterion_id": one,
                "split": "Two readings.",
                "title": "",
                "description": text or reworded,
            }
            entries.append(entry)
        return dump_json({"rewrites": entries})


def _word_entry(one: str, requirement: str, query: str) -> dict[str, Any]:
    """The entry of a judge who takes a criterion for asked for where it has a word of the query."""
    words = [
        word for word in re.findall(r"[a-z]{4,}|[\u4e00-\u9fff]{2}", requirement.lower()) if word in query.lower()
    ]
    need = "explicit" if words else "none"
    entry = {"criterion_id": one, "reason": "By its words.", "need": need, "quote": words[0] if words else ""}
    return entry | {"surface": "none", "surface_asked": True, "answerable": True, "same_as": ""}


def _entry(
    one: str, known: Mapping[str, Relevance], ids: Sequence[str], wrong: Collection[str], random: Random
) -> dict[str, Any]:
    """One entry of a relevance judgment, with these points wrong."""
    true, others = known[one], [other for other in ids if other != one]
    need, surface, asked, answerable = true.need, true.surface, true.surface_asked, true.answerable
    if "need" in wrong:
        need = "implicit" if need == "none" else "none"
    if "surface" in wrong:
        surface, asked = ("", True) if not asked else (random.choice(("phrase", "heading", "count", "layout")), False)
    if "answerable" in wrong:
        answerable = not answerable
    twins = [other for other in others if known[other].same_as == one or true.same_as == other]
    same_as = twins[0] if twins and random.random() >= MISSED else ""
    if random.random() < INVENTED and others:
        same_as = random.choice(others)
    return {
        "criterion_id": one,
        "reason": "As the request has it.",
        "need": need,
        "quote": true.quote if need == "explicit" else "",
        "surface": surface or "none",
        "surface_asked": asked,
        "answerable": answerable,
        "same_as": same_as,
    }
