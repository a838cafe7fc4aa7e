"""The command line: parse arguments, call one function, print."""

import gc
import os
import sys
from collections.abc import Sequence

EXIT_UNFINISHED = 1
EXIT_INPUT = 2
EXIT_DETACHED = 3
EXIT_SCORE = 100
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `autorubric` command and exit with its status.

    Status 0: all done. 1: something could not be finished. 2: wrong input, nothing was spent. 3: batches are with
    the provider, and the same command collects them. 100: the required score was not reached. 130: interrupted.
    """
    gc.disable()  # loading leaves no garbage
    try:
        from autorubric.cli.app import run
        from autorubric.files.printable import protect_standard_streams
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)

    gc.enable()
    _open_closed_streams()
    protect_standard_streams()
    status = run(list(sys.argv[1:] if arguments is None else arguments))
    gc.freeze()  # else Python collects garbage among all objects again at exit
    sys.exit(status)


def _open_closed_streams() -> None:
    """Redirect closed standard streams to the null device; else a file of the run would get their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
