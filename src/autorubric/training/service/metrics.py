"""The counts of the service, in Prometheus' format."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from autorubric.llm.billing import Activity
from autorubric.training.audit import Auditor

if TYPE_CHECKING:
    from autorubric.training.evolution.live import LiveEvolution

_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class ServiceMetrics:
    """The counts of one process of the service, or the sums over several.

    Attributes:
        requests: answered requests, by HTTP status.
        rewards: answered submissions, by outcome.
        buckets: the histogram of seconds per submission.
        seconds: the sum of the seconds.
        compound: the sum of the rewards' shares of points from criteria with several demands, and their number.
        activity: the calls of other processes, by role.
    """

    requests: Counter[str] = field(default_factory=Counter)
    rewards: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    seconds: float = 0.0
    compound: list[float] = field(default_factory=lambda: [0.0, 0])
    activity: dict[str, Activity] = field(default_factory=dict)

    def count_request(self, status: int) -> None:
        """Count an answered request."""
        self.requests[str(status)] += 1

    def count_reward(self, seconds: float, failure: str | None, compound: float | None = None) -> None:
        """Count an answered submission, by its reward or its kind of failure."""
        self.rewards["reward" if failure is None else failure] += 1
        if failure is None and compound is not None:
            self.compound = [self.compound[0] + compound, self.compound[1] + 1]
        self.buckets[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds += seconds

    def to_dict(self, activity: Mapping[str, Activity]) -> dict[str, Any]:
        """Return the counts and these calls as JSON values for another process."""
        return {**vars(self), "activity": {role: asdict(calls) for role, calls in activity.items()}}

    def add(self, told: Mapping[str, Any], *, ended: bool = False) -> None:
        """Add the counts of another process; one that has ended has no open calls.

        Example:
            >>> one, both = ServiceMetrics(), ServiceMetrics()
            >>> one.count_request(200)
            >>> both.add(one.to_dict({"judge": Activity(open=2, paid=3)}))
            >>> both.add(one.to_dict({"judge": Activity(open=1, paid=4)}), ended=True)
            >>> both.requests["200"], both.activity["judge"].paid, both.activity["judge"].open
            (2, 7, 2)
        """
        self.requests.update(told["requests"])
        self.rewards.update(told["rewards"])
        self.buckets = [bucket + more for bucket, more in zip(self.buckets, told["buckets"], strict=True)]
        self.seconds += told["seconds"]
        self.compound = [one + more for one, more in zip(self.compound, told["compound"], strict=True)]
        for role, counts in told["activity"].items():
            more = {**counts, "open": 0, "waiting": 0} if ended else counts
            known = asdict(self.activity.get(role, Activity()))
            self.activity[role] = Activity(**{name: known[name] + count for name, count in more.items()})

    def render(
        self,
        activity: Mapping[str, Activity],
        open_: int,
        room: int,
        auditor: Auditor | None = None,
        evolution: LiveEvolution | None = None,
    ) -> str:
        """Return all metrics in Prometheus' text format, including those of the audit and the evolution."""
        families = [
            _build_counter("requests", "Requests by HTTP status.", self.requests, "status"),
            _build_counter("rewards", "Submissions by outcome.", self.rewards, "outcome"),
            self._build_latency(),
            SummaryMetricFamily(
                "autorubric_compound_share",
                "Share of a reward's points from criteria with several demands.",
                sum_value=self.compound[0],
                count_value=int(self.compound[1]),
            ),
            _build_gauge("open_submissions", "Submissions in the service.", open_),
            _build_gauge("room", "Maximum submissions at a time.", room),
            *_build_call_metrics(list(activity.values())),
        ]
        if auditor is not None:
            families += _build_audit_metrics(auditor)
        if evolution is not None:
            outcomes = {outcome: evolution.outcomes[outcome] for outcome in ("version", "same", "undecided")}
            families.append(_build_counter("evolutions", "Evolutions of rubrics by outcome.", outcomes, "outcome"))
        return generate_latest(_Snapshot(families)).decode()

    def _build_latency(self) -> Metric:
        return HistogramMetricFamily(
            "autorubric_reward_seconds",
            "Seconds from a submission to its reward.",
            buckets=list(zip((*map(str, _BOUNDS), "+Inf"), accumulate(self.buckets), strict=True)),
            sum_value=self.seconds,
        )


class _Snapshot(CollectorRegistry):
    """A collector of the current metrics that is not registered globally."""

    def __init__(self, families: Sequence[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _build_call_metrics(all_: Sequence[Activity]) -> Iterator[Metric]:
    """Yield the metrics of judge calls; every role of the service is a judge, so panels and audits are summed."""
    calls = {
        "paid": sum(a.paid for a in all_),
        "recorded": sum(a.hits for a in all_),
        "failed": sum(a.failures for a in all_),
        "refused": sum(a.refused for a in all_),
    }
    tokens = {"prompt": sum(a.prompt_tokens for a in all_), "completion": sum(a.completion_tokens for a in all_)}
    yield _build_counter("judge_calls", "Judge calls by outcome.", calls, "outcome")
    yield _build_gauge("judge_calls_in_flight", "Judge calls in flight.", sum(a.in_flight for a in all_))
    yield _build_counter("tokens", "Tokens of judge calls.", tokens, "kind")
    yield _build_counter("cost_dollars", "Dollars of calls whose price is known.", {"": sum(a.cost for a in all_)})
    yield _build_counter("unpriced_calls", "Calls whose price is not known.", {"": sum(a.unpriced for a in all_)})


def _build_audit_metrics(auditor: Auditor) -> Iterator[Metric]:
    found = auditor.found
    yield _build_counter(
        "audits", "Audits of the whole run by outcome.", {"audited": found.audits, **found.failures}, "outcome"
    )
    yield _build_gauge("audits_open", "Audits in progress.", auditor.open)
    blind = "Time of the first audit after the last success that failed or has waited long, or 0."
    yield _build_gauge("audit_blind_since_seconds", blind, found.find_blind_since(time.time()) or 0)
    yield _build_gauge("audit_alarm", "1 once the gap between the judges has grown.", int(found.status == "gap"))
    if found.audits:
        gap = found.overall.whole
        low, high, _ = gap.compute_interval()
        words = "Training judge's reward minus the audit judge's, with its confidence interval."
        family = GaugeMetricFamily("autorubric_audit_gap", words, labels=["bound"])
        for bound, value in (("mean", gap.mean), ("low", low), ("high", high)):
            family.add_metric([bound], value)
        yield family


def _build_gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"autorubric_{name}", words, value)


def _build_counter(name: str, words: str, values: Mapping[str, float], label: str = "") -> Metric:
    """Return a counter; prometheus_client appends `_total` to its name."""
    family = CounterMetricFamily(f"autorubric_{name}", words, labels=[label] if label else [])
    for key, value in values.items():
        family.add_metric([key] if label else [], value)
    return family
