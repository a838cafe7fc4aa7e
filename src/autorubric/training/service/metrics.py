"""What the service counts, as Prometheus reads it."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any

from autorubric.llm.billing import Activity
from autorubric.training.audit import Auditor

_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class ServiceMetrics:
    """Counts what the service does: one process of it, or several together.

    Attributes:
        requests: answered, by HTTP status.
        rewards: submissions that were answered, by outcome.
        buckets: of the histogram of seconds.
        seconds: all together.
        compound: the shares of rewards' points from criteria with several demands, all together, and how many.
        activity: the calls of other processes, by role.
    """

    requests: Counter[str] = field(default_factory=Counter)
    rewards: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    seconds: float = 0.0
    compound: list[float] = field(default_factory=lambda: [0.0, 0])
    activity: dict[str, Activity] = field(default_factory=dict)

    def request(self, status: int) -> None:
        """Count an answered request."""
        self.requests[str(status)] += 1

    def reward(self, seconds: float, failure: str | None, compound: float | None = None) -> None:
        """Count a submission that was answered: with a reward, or with the kind of failure."""
        self.rewards["reward" if failure is None else failure] += 1
        if failure is None and compound is not None:
            self.compound = [self.compound[0] + compound, self.compound[1] + 1]
        self.buckets[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds += seconds

    def told(self, activity: Mapping[str, Activity]) -> dict[str, Any]:
        """The counts, with these calls, as JSON values for another process."""
        return {**vars(self), "activity": {role: asdict(one) for role, one in activity.items()}}

    def add(self, told: Mapping[str, Any], *, ended: bool = False) -> None:
        """Add what another process has told; nothing is open any more in one that has ended.

        Example:
            >>> one, both = ServiceMetrics(), ServiceMetrics()
            >>> one.request(200)
            >>> both.add(one.told({"judge": Activity(open=2, paid=3)}))
            >>> both.add(one.told({"judge": Activity(open=1, paid=4)}), ended=True)
            >>> both.requests["200"], both.activity["judge"].paid, both.activity["judge"].open
            (2, 7, 2)
        """
        self.requests.update(told["requests"])
        self.rewards.update(told["rewards"])
        self.buckets = [one + more for one, more in zip(self.buckets, told["buckets"], strict=True)]
        self.seconds += told["seconds"]
        self.compound = [one + more for one, more in zip(self.compound, told["compound"], strict=True)]
        for role, counts in told["activity"].items():
            more = {**counts, "open": 0, "waiting": 0} if ended else counts
            known = asdict(self.activity.get(role, Activity()))
            self.activity[role] = Activity(**{name: known[name] + count for name, count in more.items()})

    def text(self, activity: Mapping[str, Activity], open_: int, room: int) -> str:
        """All metrics."""
        lines = [
            *_metric("requests_total", "counter", "Requests by HTTP status.", "status", self.requests),
            *_metric("rewards_total", "counter", "Submissions by outcome.", "outcome", self.rewards),
            *self._latency(),
            *self._compound_share(),
            *_metric("open_submissions", "gauge", "Submissions in the service.", "", {"": open_}),
            *_metric("room", "gauge", "Maximum submissions at a time.", "", {"": room}),
            *_calls(activity),
        ]
        return "\n".join(lines) + "\n"

    def _compound_share(self) -> Iterator[str]:
        name, (total, count) = "autorubric_compound_share", self.compound
        yield f"# HELP {name} Share of a reward's points from criteria with several demands."
        yield f"# TYPE {name} summary"
        yield f"{name}_sum {total:.6f}"
        yield f"{name}_count {count:.0f}"

    def _latency(self) -> Iterator[str]:
        name = "autorubric_reward_seconds"
        yield f"# HELP {name} Seconds from a submission to its reward."
        yield f"# TYPE {name} histogram"
        sums = list(accumulate(self.buckets))
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), sums, strict=True):
            yield f'{name}_bucket{{le="{bound}"}} {count}'
        yield f"{name}_sum {self.seconds:.6f}"
        yield f"{name}_count {sums[-1]}"


def _calls(activity: Mapping[str, Activity]) -> Iterator[str]:
    """Every role of the service is a judge; panels and audits are summed."""
    all_ = list(activity.values())
    calls = {
        "paid": sum(a.paid for a in all_),
        "recorded": sum(a.hits for a in all_),
        "failed": sum(a.failures for a in all_),
        "refused": sum(a.refused for a in all_),
    }
    tokens = {
        "prompt": sum(a.prompt_tokens for a in all_),
        "completion": sum(a.completion_tokens for a in all_),
    }
    yield from _metric("judge_calls_total", "counter", "Judge calls by outcome.", "outcome", calls)
    flying = sum(a.in_flight for a in all_)
    yield from _metric("judge_calls_in_flight", "gauge", "Judge calls in flight.", "", {"": flying})
    yield from _metric("tokens_total", "counter", "Tokens of judge calls.", "kind", tokens)
    cost = sum(a.cost for a in all_)
    yield from _metric("cost_dollars_total", "counter", "Dollars of calls whose price is known.", "", {"": cost})
    unpriced = sum(a.unpriced for a in all_)
    yield from _metric("unpriced_calls_total", "counter", "Calls whose price is not known.", "", {"": unpriced})


def audit_metrics(auditor: Auditor) -> Iterator[str]:
    """What the audit has found."""
    found = auditor.found
    outcomes = {"audited": found.audits, **found.failures}
    yield from _metric("audits_total", "counter", "Audits of the whole run by outcome.", "outcome", outcomes)
    yield from _metric("audits_open", "gauge", "Audits in progress.", "", {"": auditor.open})
    blind = found.blind_at(time.time()) or 0
    yield from _metric(
        "audit_blind_since_seconds",
        "gauge",
        "Time of the first audit after the last success that failed or has waited long, or 0.",
        "",
        {"": blind},
    )
    alarm = int(found.status == "gap")
    yield from _metric("audit_alarm", "gauge", "1 once the gap between the judges has grown.", "", {"": alarm})
    if found.audits:
        gap = found.overall.whole
        low, high, _ = gap.interval()
        values = {"mean": gap.mean, "low": low, "high": high}
        words = "Training judge's reward minus the audit judge's, with its confidence interval."
        yield from _metric("audit_gap", "gauge", words, "bound", values)


def _metric(name: str, kind: str, words: str, label: str, values: Mapping[str, float]) -> Iterator[str]:
    name = f"autorubric_{name}"
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
    for key, value in values.items():
        labels = f'{{{label}="{_escaped(str(key))}"}}' if label else ""
        yield f"{name}{labels} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
