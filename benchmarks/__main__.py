"""`make bench`: every benchmark in turn, or the ones named: `python -m benchmarks synthesis_speed`.

What they measured goes into `benchmarks/last.json`. A missed limit does not keep the others from running; the exit
status is then 1.
"""

from __future__ import annotations

import importlib
import sys
import time

from benchmarks.record import Record, keep

ALL = (
    *("real_verdicts", "dataset_files", "ledger_overhead", "transport_overhead", "rate_limited", "synthesis_speed"),
    *("grading_speed", "checks_speed", "agreement_speed", "agreement_intervals", "corrected_coverage"),
    *("exact_coverage", "label_choice", "lint_speed", "planted_faults", "rank_recovery", "service_load"),
    *("functions_passed", "view_speed", "report_speed", "label_speed", "watched_run", "processes_speed"),
    *("service_processes", "ray_engine"),
    *("wrong_acceptance", "audit_power", "policy_drift"),
)


def measured(name: str) -> list[str]:
    """Run a benchmark and keep its record; the limits that it missed."""
    try:
        found = importlib.import_module(f"benchmarks.{name}").run()
    except SystemExit as failed:
        return [f"{name}: {failed}"]
    if not isinstance(found, Record):
        return []
    keep({name: found})
    return [f"{name}: {one}" for one in found.missed]


if __name__ == "__main__":
    missed = []
    for name in sys.argv[1:] or ALL:
        print(f"\n=== {name}", flush=True)
        started = time.perf_counter()
        missed += measured(name)
        print(f"--- {time.perf_counter() - started:.0f} s", flush=True)
    if missed:
        raise SystemExit("\n".join(["limits missed:", *missed]))
