"""The judge's agreement with labels of single pairs, as computed by `autorubric agree`.

A child process computes them: it reads the whole run, and frees the memory when it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.errors import AutorubricError, InputError
from autorubric.jobs.label_source import LabelChoice, find_history, resolve_annotator

if TYPE_CHECKING:
    from autorubric.labels.label_agreement import Agreement


_MORE = 40
_SECONDS, _STEP = 600, 0.1


def measure_labels(
    run: Path, choice: LabelChoice, is_stopped: Callable[[], bool] = lambda: False
) -> dict[str, Any] | None:
    """Measure the agreement of judge and annotators with the labels, and project the effect of 40 more labels.

    `problem` says why there are none: too few labels, or a run that cannot be read.

    Args:
        run: the run directory.
        choice: which labels count; by default those that `autorubric agree` uses.
        is_stopped: whether to stop; then None is returned.
    """
    files, columns = [str(path) for path in choice.files], list(choice.column)
    given = json.dumps({"labels": files, "annotator": choice.annotator, "column": columns})
    command = [sys.executable, "-P", "-m", "autorubric.view.label_figures", str(run), given]
    until = time.monotonic() + _SECONDS
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    found: dict[str, Any] = json.loads(process.communicate(timeout=_STEP)[0])
                    return found
                if is_stopped() or time.monotonic() > until:
                    process.kill()
                    break
    except (OSError, ValueError) as error:
        return {"problem": f"the figures could not be computed: {type(error).__name__}"}
    return None if is_stopped() else {"problem": f"the figures took more than {_SECONDS} seconds"}


def _compute_figures(run: Path, choice: LabelChoice) -> dict[str, Any]:
    from autorubric.jobs.agree import StatisticSettings
    from autorubric.labels.label_agreement import label_agreement, projected_half_width
    from autorubric.runs.items_file import read_run

    stored = read_run(run)
    history = find_history(choice, stored)
    if history is None:
        raise InputError("the run has no labels of single pairs")
    who = resolve_annotator(history, choice.annotator)
    found = label_agreement(stored, stored.dataset, history, draws=StatisticSettings().draws, annotator=who)
    return {
        "problem": "",
        "judge": _describe_agreement(found.judge),
        "criteria": [_describe_agreement(agreement) for agreement in found.criteria],
        "annotators": [_describe_agreement(agreement) for agreement in found.by_annotator],
        "judges": [_describe_agreement(agreement) for agreement in found.by_judge],
        "adjudicated": None if found.adjudicated is None else _describe_agreement(found.adjudicated),
        "more": _MORE,
        "half_width_then": projected_half_width(found.judge, _MORE),
        "weighted": found.weighted,
        "notes": list(found.notes),
        "between": asdict(found.annotators),
    }


def _describe_agreement(agreement: Agreement) -> dict[str, Any]:
    return {
        "name": agreement.name,
        "n": agreement.n,
        "items": agreement.items,
        "accuracy": agreement.accuracy.value,
        "interval": agreement.accuracy.interval and agreement.accuracy.interval[:2],
        "baseline": agreement.baseline,
        "kappa": agreement.kappa.value,
        "kappa_interval": agreement.kappa.interval and agreement.kappa.interval[:2],
    }


def main() -> int:
    """Print the figures of the run in `sys.argv` as JSON."""
    try:
        found = _compute_figures(Path(sys.argv[1]), LabelChoice.from_values(json.loads(sys.argv[2])))
    except AutorubricError as error:
        found = {"problem": str(error)}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
