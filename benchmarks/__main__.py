"""Run every benchmark, or those named: ``python -m benchmarks exact noise speed``."""

import sys

from benchmarks import (
    disk,
    em,
    evidence,
    exact,
    generalise,
    gpu,
    implicit,
    kernels,
    missing,
    moment_families,
    noise,
    noise_component,
    overcomplete,
    rank_search,
    selection,
    small_clusters,
    speed,
    subspace,
    table,
    tensor_peers,
)

BENCHMARKS = {
    "exact": exact.main,
    "noise": noise.main,
    "speed": speed.main,
    "subspace": subspace.main,
    "rank_search": rank_search.main,
    "implicit": implicit.main,
    "em": em.main,
    "kernels": kernels.main,
    "table": table.main,
    "tensor_peers": tensor_peers.main,
    "disk": disk.main,
    "small_clusters": small_clusters.main,
    "generalise": generalise.main,
    "selection": selection.main,
    "evidence": evidence.main,
    "noise_component": noise_component.main,
    "overcomplete": overcomplete.main,
    "missing": missing.main,
    "moment_families": moment_families.main,
}
# Run only when named: it needs hardware that this machine may not have.
NAMED = {"gpu": gpu.main, "implicit_gpu": implicit.gpu, "threads": kernels.threads}

known = BENCHMARKS | NAMED
names = sys.argv[1:] or list(BENCHMARKS)
unknown = [name for name in names if name not in known]
if unknown:
    raise SystemExit(f"No benchmark {', '.join(unknown)}; there are {', '.join(known)}.")
for name in names:
    known[name]()
