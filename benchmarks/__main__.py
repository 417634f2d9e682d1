"""Run every benchmark, or those named: ``python -m benchmarks exact noise speed``."""

import sys
from importlib import import_module

BENCHMARKS = [
    *(
        "exact",
        "noise",
        "speed",
        "subspace",
        "rank_search",
        "implicit",
        "em",
        "kernels",
        "table",
        "tensor_peers",
    ),
    *("disk", "small_clusters", "generalise", "selection", "evidence", "noise_component", "overcomplete"),
    *("missing", "moment_families"),
]
# Run only when named, as some need hardware that this machine may not have: a function of a benchmark.
NAMED = {"gpu": ("gpu", "main"), "implicit_gpu": ("implicit", "gpu"), "threads": ("kernels", "threads")}

known = {name: (name, "main") for name in BENCHMARKS} | NAMED
names = sys.argv[1:] or BENCHMARKS
unknown = [name for name in names if name not in known]
if unknown:
    raise SystemExit(f"No benchmark {', '.join(unknown)}; there are {', '.join(known)}.")
for name in names:
    module, function = known[name]
    getattr(import_module(f"benchmarks.{module}"), function)()
