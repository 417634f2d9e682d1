"""Run every benchmark, or those named: ``python -m benchmarks exact noise speed approximation moments``."""

import sys

from benchmarks import (
    algorithm2,
    approximation,
    em,
    exact,
    moments,
    noise,
    paper_moments,
    speed,
    starts,
    table,
)

BENCHMARKS = {
    "exact": exact.main,
    "noise": noise.main,
    "speed": speed.main,
    "approximation": approximation.main,
    "moments": moments.main,
    "em": em.main,
    "starts": starts.main,
    "algorithm2": algorithm2.main,
    "paper_moments": paper_moments.main,
    "table": table.main,
}

names = sys.argv[1:] or list(BENCHMARKS)
unknown = [name for name in names if name not in BENCHMARKS]
if unknown:
    raise SystemExit(f"No benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
for name in names:
    BENCHMARKS[name]()
