"""`make soak`, or some parts of it: `python -m benchmarks.soak power stops`."""

from __future__ import annotations

import argparse

from benchmarks.soak import PARTS, run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        "python -m benchmarks.soak", description="Test the promises of docs/promises.md; fails if one is broken."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parts = parser.parse_args().parts
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part is named {', '.join(sorted(unknown))}; see --help")
    run(parts)
