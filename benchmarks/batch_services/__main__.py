"""The endpoint with batches as a process: `python -m benchmarks.batch_services --batch expire=0.5`."""

import sys

from autorubric.testing.endpoint.__main__ import serve_endpoint
from benchmarks.batch_services.endpoint import make_batch_endpoint

sys.exit(serve_endpoint(make_batch_endpoint, sys.argv[1:]))
