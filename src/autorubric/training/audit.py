"""Audits of the training judge: a reference judge grades a random share of the rewards again in the background.

Audits do not change rewards. They have their own budget if the reference judge's grader has one. If the bounded queue
is full, an audit is dropped and counted.
"""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from autorubric.core.report import EnsembleEvaluationReport
from autorubric.errors import ConfigError, clip, warn
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.criterion_judge import PrefixFirst
from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Model, Request
from autorubric.rows.record import as_text
from autorubric.training.audit_log import DROPPED, AuditLog, AuditRecord
from autorubric.training.background_grading import BackgroundQueue, GivenReward, grade_anyway, is_chosen
from autorubric.training.observations import AUDIT, QUEUED, UNANSWERED, Key, parse_failure_kind
from autorubric.training.rewards import KeptCriteria, Reward, RewardRule, compute_reward

_FAMILIES = {
    "claude": ("claude",),
    "command": ("command", "aya"),
    "deepseek": ("deepseek",),
    "gemini": ("gemini", "gemma"),
    "glm": ("glm", "chatglm"),
    "gpt": ("gpt", "chatgpt", "o1", "o3", "o4"),
    "granite": ("granite",),
    "grok": ("grok",),
    "kimi": ("kimi", "moonshot"),
    "llama": ("llama", "nemotron"),
    "minimax": ("minimax",),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral", "devstral"),
    "nova": ("nova",),
    "olmo": ("olmo",),
    "phi": ("phi",),
    "qwen": ("qwen", "qwq"),
}
_OF_PIECE = {piece: family for family, pieces in _FAMILIES.items() for piece in pieces}


def find_model_families(model: str) -> frozenset[str]:
    """Return the model families in a name: two for a distilled model, the first word for an unknown one.

    Example:
        >>> sorted(find_model_families("vllm/deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"))
        ['deepseek', 'qwen']
        >>> find_model_families("openai/o3") == find_model_families("openai/gpt-5.1-mini")
        True
        >>> sorted(find_model_families("local/tiny-judge"))
        ['tiny']
    """
    name = model.rpartition("/")[2].lower()
    pieces = re.findall(r"[a-z]+\d?", name)
    found = {_OF_PIECE.get(piece) or _OF_PIECE.get(piece.rstrip("0123456789")) for piece in pieces} - {None}
    return frozenset(family for family in found if family) or frozenset(pieces[:1])


AUDIT_ROLE = "audit"
"""The role of a reference judge's calls in the ledger."""

READMIT_SECONDS = 5.0
"""Seconds until a reference judge that stopped is retried."""

_log = logging.getLogger("autorubric.training")
_MOST_CHARACTERS = 2000  # of the query, and of the submission, in a record
_MOST_REASON = 500

OnGap: TypeAlias = Literal["warn", "stop"]


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The plan for auditing the training judge.

    Attributes:
        grader: the reference judge, from another model family than the training judge. Its budget limits the audit;
            if it has none, the training judge's budget does.
        share: the share of rewards that are audited, above 0 up to 1.
        seed: another seed chooses other rewards.
        tolerance: the growth of the gap up to which no alarm is raised.
        on_gap: `stop` also tells the trainer to stop (see `Reward.stop`).

    Raises:
        ConfigError: a value is out of range.

    Example:
        >>> AuditPlan(CriterionGrader.of_checks(), share=2.0)
        Traceback (most recent call last):
        autorubric.errors.ConfigError: audit share 2.0; expected a share above 0, up to 1
    """

    grader: CriterionGrader
    share: float = 0.02
    seed: int = 0
    tolerance: float = 0.0
    on_gap: OnGap = "warn"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"audit share {self.share!r}; expected a share above 0, up to 1")
        if not 0 <= self.tolerance <= 1:
            raise ConfigError(f"audit tolerance {self.tolerance!r}; expected a number from 0 to 1")
        if self.on_gap not in ("warn", "stop"):
            raise ConfigError(f"on_gap={self.on_gap!r}; expected 'warn' or 'stop'")

    def sum_judged(self, ledger: Ledger) -> Spending | None:
        """Return the earlier spending on everything but audits; None if audits have no separate budget."""
        audited = ledger.sum_spent(AUDIT_ROLE) if self.grader.has_budget else None
        return audited and ledger.sum_spent().compute_excess(audited)

    def check_family(self, judge: CriterionGrader) -> None:
        """Warn if the reference judge is of the training judge's family, since both tend to make the same errors."""
        own, others = (
            {family for spec in grader.recipe.specs for family in find_model_families(spec.llm_config.model)}
            for grader in (self.grader, judge)
        )
        if shared := sorted(own & others):
            words = (
                f"the audit's judge and the training judge are both of the family {', '.join(shared)}: what fools "
                "one is likely to fool the other, and no gap would show; audit with a model of another family"
            )
            warn(words)


class Auditor:
    """Audits rewards of a run, and aggregates the findings of all audits.

    Args:
        plan: the reference judge, the share and the tolerance.
        ledger: keeps replies and audits; the caller opens and closes it.
        rule: how a report becomes a reward.
        executor: the training judge's; its budget is used if the plan's grader has none.
    """

    def __init__(self, plan: AuditPlan, ledger: Ledger, rule: RewardRule, executor: Executor) -> None:
        self.plan = plan
        self.found = AuditLog(tolerance=plan.tolerance)
        self._ledger = ledger
        self._rule = replace(rule, on_failure="none", neutral=None, overlong=None)
        if plan.grader.has_budget:
            self.executor = plan.grader.executor_on(ledger, spent=ledger.sum_spent(AUDIT_ROLE))
        else:
            self.executor = Executor(ledger, executor.budget)
        self._audited: set[Key] = set()
        self._queue = BackgroundQueue()
        self._readmitted = time.monotonic()
        for at, value in ledger.list_observations(AUDIT):
            self._add(at, AuditRecord(**value))
        for _, since in ledger.list_observations(UNANSWERED):
            self.found.note_unanswered(since)

    @property
    def open(self) -> int:
        """The number of audits in progress."""
        return self._queue.open

    @property
    def should_stop(self) -> bool:
        """Whether training should stop, because the gap has grown and `on_gap` is `stop`."""
        return self.plan.on_gap == "stop" and self.found.status == "gap"

    def mark(self, reward: Reward) -> Reward:
        """Return the reward with the status of the audit set."""
        if self.found.status == "ok":
            return reward
        return replace(reward, status="gap", stop=self.should_stop)

    def offer(self, given: GivenReward) -> None:
        """Audit a reward in the background if it is in the random share and not audited yet."""
        plan, key = self.plan, given.record.key
        if (
            given.record.reward is None
            or key in self._audited
            or not is_chosen(plan.share, f"audit {plan.seed}", key)
        ):
            return
        self._note_unanswered()
        self._audited.add(key)
        if self._queue.start(lambda: self._audit(given)):
            self.found.begin(key, time.time())
            self._ledger.observe(QUEUED, key)
        else:
            self._record_audit(self._build_record(given, None, DROPPED), "too many audits are waiting")

    async def finish(self, seconds: float) -> None:
        """Wait for open audits, then abandon them; finished calls stay recorded."""
        await self._queue.wait(seconds)
        self.executor.abandon("the audit is shutting down")
        await self.executor.drain()
        await self._queue.cancel()

    async def _audit(self, given: GivenReward) -> None:
        if time.monotonic() - self._readmitted > READMIT_SECONDS:
            self._readmitted = time.monotonic()
            self.executor.readmit()
        # If no other reward is audited meanwhile, nothing else notices that the judge hangs.
        watch = asyncio.get_running_loop().call_later(self.found.patience + 0.1, self._note_unanswered)
        try:
            report = await grade_anyway(self.plan.grader, given.inputs, PrefixFirst(self._ask))
        finally:
            watch.cancel()
        second = compute_reward(report, self._rule)
        if second.value is not None:
            second = replace(second, value=second.value - given.reward.penalty)
        self._record_audit(self._build_record(given, given.kept.restore(second), None, report), second.failure)

    async def _ask(self, model: Model, request: Request, read: Any, follow_up: FollowUp) -> Any:
        return await self.executor.ask_for(model, replace(request, role=AUDIT_ROLE), read, follow_up)

    def _build_record(
        self,
        given: GivenReward,
        second: Reward | None,
        failure: str | None,
        report: EnsembleEvaluationReport | None = None,
    ) -> AuditRecord:
        first, record = given.reward, given.record
        if second is not None and second.failure is not None:
            failure = parse_failure_kind(second.failure)
        firsts = list(first.criteria.values())
        seconds = [] if second is None else list(second.criteria.values())
        signs = dict(
            zip(
                given.kept.kept,
                (-1 if criterion.weight < 0 else 1 for criterion in given.inputs.criteria),
                strict=True,
            )
        )
        gaps = [
            None if mine is None or theirs is None else (mine - theirs) * signs.get(index, 1)
            for index, (mine, theirs) in enumerate(zip(firsts, seconds, strict=False))
        ]
        return AuditRecord(
            record.group,
            first.value,
            None if second is None or failure is not None else second.value,
            failure,
            firsts,
            seconds,
            record.rubric,
            record.answer,
            record.step,
            gaps,
            clip("" if given.query is None else as_text(given.query), _MOST_CHARACTERS),
            clip(given.inputs.submission, _MOST_CHARACTERS),
            _collect_reasons(given.kept, report, gaps),
        )

    def _record_audit(self, record: AuditRecord, why: str | None) -> None:
        self._ledger.observe(AUDIT, asdict(record))
        before = self.found.status
        self._add(time.time(), record)
        failed = self.found.failures.total()
        if record.gap is None and failed & (failed - 1) == 0:
            _log.warning("audit failed (%d so far), so the reward is not monitored: %s", failed, why)
        if before == "ok" and self.found.status == "gap":
            _log.warning(
                "the training judge's lead over the audit's judge has grown: the policy may exploit it; "
                "`autorubric drift RUN` shows where"
            )

    def _note_unanswered(self) -> None:
        """Record that audits have waited too long for an answer, so that `drift` reports it before they fail."""
        since = self.found.find_blind_since(time.time())
        if since is not None and since != self.found.blind_since:
            self.found.note_unanswered(since)
            self._ledger.observe(UNANSWERED, since)
            _log.warning("the audit's judge does not answer: the reward is not monitored")

    def _add(self, at: float, record: AuditRecord) -> None:
        self.found.add(at, record)
        # A failed audit may be repeated when its reward is requested again; paid replies are in the ledger.
        (self._audited.discard if record.gap is None else self._audited.add)(record.key)


def _collect_reasons(
    kept: KeptCriteria, report: EnsembleEvaluationReport | None, gaps: Sequence[float | None]
) -> dict[str, str]:
    """Return the reference judge's reasons on criteria where the judges differ."""
    entries = [] if report is None or report.report is None else report.report
    return {
        str(index): clip(entry.final_reason, _MOST_REASON)
        for index, entry in zip(kept.kept, entries, strict=False)
        if index < len(gaps) and gaps[index] and entry.final_reason
    }
