"""`autorubric view`: runs in a browser."""

from autorubric.cli.command import command, run
from autorubric.extras import require
from autorubric.view.view_settings import ViewSettings

_VIEW_EXAMPLES = """
autorubric view graded
autorubric view graded graded-by-another --port 8300
"""


@command(ViewSettings, _VIEW_EXAMPLES)
def view(settings: ViewSettings) -> int:
    """Browse runs in a browser.

    Shows items, verdicts, rubrics and agreement of any runs, finished or in progress. Labels go to the run's label
    store; nothing else of a run is changed. The index in RUN/.view can be deleted. Press Ctrl-C to stop.
    """
    require(("starlette", "uvicorn"), "ui", "autorubric view")
    from autorubric.view.view_server import serve_view

    def announce(url: str) -> None:
        print(f"stop with Ctrl-C or SIGTERM; view at {url}", flush=True)

    run(serve_view(settings.model_copy(update={"announce": announce})))
    return 0
