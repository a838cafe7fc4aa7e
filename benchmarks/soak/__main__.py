"""`make soak`, or some parts of it: `python -m benchmarks.soak power stops`."""

from __future__ import annotations

import sys

from benchmarks.soak import PARTS, run

if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in PARTS]
    if unknown:
        sys.exit(f"the soak has no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    run(sys.argv[1:])
