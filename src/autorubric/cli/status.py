"""`autorubric status` and `doctor`: the state of a run, and of this machine."""

from dataclasses import asdict

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.command import command, run
from autorubric.files import dump_json
from autorubric.jobs.status import DoctorSettings, StatusSettings, doctor_async
from autorubric.jobs.status import status as status_of_run

_STATUS_EXAMPLES = """
autorubric status graded
autorubric status graded --json
"""


@command(StatusSettings, _STATUS_EXAMPLES)
def status(settings: StatusSettings) -> int:
    """Report the state of a run: done, failed, spent, time left.

    Only reads the run, so it can be used at any time, also after a crash.
    """
    found = status_of_run(settings)
    print(dump_json(found.to_dict(), indent=2) if settings.as_json else found)
    return 0


_MARKS = {"ok": "   ", "note": " ! ", "problem": "!! "}
_DOCTOR_EXAMPLES = """
autorubric doctor
autorubric doctor --model qwen@http://localhost:8000/v1
"""


@command(DoctorSettings, _DOCTOR_EXAMPLES)
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
