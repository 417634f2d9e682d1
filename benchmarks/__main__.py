"""Run every benchmark, or those named: ``python -m benchmarks exact noise``.

The name ``suite`` is followed by a folder: ``python -m benchmarks suite FOLDER``.
"""

import sys
from importlib import import_module

BENCHMARKS = [
    *("exact", "noise", "subspace", "rank_search", "implicit", "em", "kernels", "table"),
    *("tensor_peers", "disk", "small_clusters", "generalise", "selection", "left_out", "noise_component"),
    *("overcomplete", "missing", "moment_families", "tails", "hard_tensors", "many"),
]
# Run only when named, as they need hardware or data that not every machine has: a function of a benchmark.
NAMED = {"gpu": ("gpu", "main"), "implicit_gpu": ("implicit", "gpu"), "threads": ("kernels", "threads")}
NAMED["suite"] = ("suite", "main")

known = {name: (name, "main") for name in BENCHMARKS} | NAMED
names, arguments = sys.argv[1:] or BENCHMARKS, list[str]()
if names[0] == "suite":
    names, arguments = names[:1], names[1:]
unknown = [name for name in names if name not in known]
if unknown:
    raise SystemExit(f"No benchmark {', '.join(unknown)}; there are {', '.join(known)}.")
for name in names:
    module, function = known[name]
    getattr(import_module(f"benchmarks.{module}"), function)(*arguments)
