"""Run every benchmark, or those named: ``python -m benchmarks exact noise speed approximation moments``."""

import sys

from benchmarks import (
    algorithm2,
    approximation,
    classifier,
    cluster,
    comparison,
    criteria,
    disk,
    em,
    evidence,
    exact,
    generalise,
    gpu,
    growth,
    implicit,
    kernels,
    missing,
    moment_families,
    moments,
    noise,
    noise_component,
    overcomplete,
    paper_moments,
    random_mixtures,
    rank_search,
    selection,
    single_gaussian,
    small_clusters,
    sparse,
    speed,
    starts,
    subspace,
    table,
    tensor_peers,
)

BENCHMARKS = {
    "exact": exact.main,
    "noise": noise.main,
    "speed": speed.main,
    "approximation": approximation.main,
    "subspace": subspace.main,
    "rank_search": rank_search.main,
    "implicit": implicit.main,
    "moments": moments.main,
    "em": em.main,
    "kernels": kernels.main,
    "starts": starts.main,
    "algorithm2": algorithm2.main,
    "paper_moments": paper_moments.main,
    "table": table.main,
    "tensor_peers": tensor_peers.main,
    "disk": disk.main,
    "cluster": cluster.main,
    "sparse": sparse.main,
    "growth": growth.main,
    "small_clusters": small_clusters.main,
    "generalise": generalise.main,
    "random_mixtures": random_mixtures.main,
    "selection": selection.main,
    "single_gaussian": single_gaussian.main,
    "criteria": criteria.main,
    "comparison": comparison.main,
    "evidence": evidence.main,
    "noise_component": noise_component.main,
    "overcomplete": overcomplete.main,
    "missing": missing.main,
    "classifier": classifier.main,
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
