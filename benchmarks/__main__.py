"""`make bench`: every benchmark in turn, or the ones named: `python -m benchmarks synthesis_speed`.

Results are written to `benchmarks/last.json`, unless `--forget` is given, as for a busy machine. A missed limit
does not stop the others; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path

from benchmarks.record import Record, keep

ALL = (
    *("real_verdicts", "dataset_files", "ledger_overhead", "transport_overhead", "rate_limited", "synthesis_speed"),
    *("grading_speed", "checks_speed", "agreement_speed", "agreement_intervals", "corrected_coverage"),
    *("exact_coverage", "label_choice", "lint_speed", "planted_faults", "rank_recovery", "service_load"),
    *("functions_passed", "view_speed", "report_speed", "label_speed", "watched_run", "processes_speed"),
    *("service_processes", "ray_engine"),
    *("wrong_acceptance", "audit_power", "policy_drift"),
)


def measured(name: str, forget: bool) -> list[str]:
    """Run a benchmark and keep its record, unless `--forget` is given; returns the limits that it missed."""
    try:
        found = importlib.import_module(f"benchmarks.{name}").run()
    except SystemExit as failed:
        return [f"{name}: {failed}"]
    if not isinstance(found, Record):
        return []
    if not forget:
        keep({name: found})
    return [f"{name}: {one}" for one in found.missed]


if __name__ == "__main__":
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef run(" in path.read_text())
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description="Run benchmarks and record what they measure."
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(known)}; default: those of `make bench`")
    parser.add_argument(
        "--forget", action="store_true", help="record nothing; only print, and fail where a limit is missed"
    )
    options = parser.parse_args()
    names = options.names
    if unknown := set(names) - set(known):
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}; see --help")
    missed = []
    for name in names or ALL:
        print(f"\n=== {name}", flush=True)
        started = time.perf_counter()
        missed += measured(name, options.forget)
        print(f"--- {time.perf_counter() - started:.0f} s", flush=True)
    if missed:
        raise SystemExit("\n".join(["limits missed:", *missed]))
