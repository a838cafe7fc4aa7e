"""`autorubric doctor`: what this machine offers a run, and what would get in its way."""

from __future__ import annotations

from dataclasses import asdict

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.command import command
from autorubric.cli.event_loop import run
from autorubric.files import dump_json
from autorubric.jobs.doctor import DoctorSettings, doctor_async

_MARKS = {"ok": "   ", "note": " ! ", "problem": "!! "}
_EXAMPLES = """
autorubric doctor
autorubric doctor --model qwen@http://localhost:8000/v1
"""


@command(DoctorSettings, _EXAMPLES)
def doctor(settings: DoctorSettings) -> int:
    """Check the installation, API keys and endpoints.

    API keys are listed by the names of their environment variables. The exit status is 1 if there is a problem.
    """
    found = run(doctor_async(settings))
    if settings.as_json:
        print(dump_json([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            advice = f"\n{'':22}{finding.advice}" if finding.advice else ""
            print(f"{_MARKS[finding.verdict]}{finding.subject:<19}{finding.value}{advice}")
    return EXIT_UNFINISHED if any(finding.verdict == "problem" for finding in found) else 0
