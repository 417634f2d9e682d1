"""Dask: the same parameters as in memory, one worker and two, and what travels."""

import time
import warnings
from contextlib import contextmanager

import numpy as np

import apolar
from benchmarks import large, problems

N_COLUMNS, N_COMPONENTS, N_PARTS = 16, 8, 16
SIZES = (1_000_000, 12_000_000)


@contextmanager
def counted_bytes():
    """Count the bytes that go in and out of this process, which runs client and scheduler."""
    from distributed.comm import tcp

    counts = {"sent": 0, "received": 0}
    write, read = tcp.TCP.write, tcp.read_bytes_rw

    async def counting_write(self, *args, **kwargs):
        n_bytes = await write(self, *args, **kwargs)
        counts["sent"] += n_bytes
        return n_bytes

    async def counting_read(stream, n_bytes, *args, **kwargs):
        counts["received"] += n_bytes
        return await read(stream, n_bytes, *args, **kwargs)

    tcp.TCP.write, tcp.read_bytes_rw = counting_write, counting_read
    try:
        yield counts
    finally:
        tcp.TCP.write, tcp.read_bytes_rw = write, read


def part(n_rows: int, seed: int) -> np.ndarray:
    return large.chunk(n_rows, N_COLUMNS, N_COMPONENTS, seed)


def lazy(n_rows: int):
    """Return a table whose partitions the workers make themselves."""
    import dask
    import dask.array as da

    size = n_rows // N_PARTS
    parts = [
        da.from_delayed(dask.delayed(part)(size, seed), (size, N_COLUMNS), np.float32)
        for seed in range(N_PARTS)
    ]
    return da.concatenate(parts)


def model() -> apolar.GaussianMixture:
    return apolar.GaussianMixture(N_COMPONENTS, covariance_type="spherical", random_state=0, n_threads=1)


def main() -> None:
    """Time the fits, and count what travels."""
    from distributed import Client, LocalCluster

    rows = []
    for n_rows in SIZES:
        X = np.concatenate([part(n_rows // N_PARTS, seed) for seed in range(N_PARTS)])
        start = time.perf_counter()
        expected = model().fit(X)
        rows.append(
            [f"{n_rows:,}", "in memory, one thread", f"{time.perf_counter() - start:.1f}", "", "", ""]
        )
        del X
        times = []
        for n_workers in (1, 2):
            with (
                warnings.catch_warnings(),
                counted_bytes() as counts,
                LocalCluster(
                    n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                warnings.simplefilter("ignore")
                lazily = client.persist(lazy(n_rows))
                client.gather(client.compute(lazily[-1:]))
                model().fit(lazily)  # the first fit imports and compiles, which is not measured
                before, start = dict(counts), time.perf_counter()
                fitted = model().fit(lazily)
                times.append(time.perf_counter() - start)
                travelled = [(counts[name] - before[name]) / 1e6 for name in ("sent", "received")]
                difference = max(
                    np.abs(fitted.means_ - expected.means_).max(),
                    np.abs(fitted.covariances_ - expected.covariances_).max(),
                    np.abs(fitted.weights_ - expected.weights_).max(),
                )
                ratio = "" if n_workers == 1 else f"{times[0] / times[1]:.2f}"
                rows.append(
                    [
                        f"{n_rows:,}",
                        f"{n_workers} worker{'s' * (n_workers > 1)}",
                        f"{times[-1]:.1f}",
                        ratio,
                        f"{travelled[0]:.1f} / {travelled[1]:.1f}",
                        f"{difference:.0e}",
                    ]
                )
    setting = (
        f"A default fit of {N_COMPONENTS} spherical components to a Dask array of {N_COLUMNS} columns in "
        f"{N_PARTS} partitions, on a LocalCluster of processes of one thread each. What travels is counted "
        "in the process of client and scheduler; their messages to each other are in both numbers."
    )
    header = [
        "rows",
        "engine",
        "seconds",
        "speed-up",
        "MB sent / received",
        "largest difference of a parameter",
    ]
    problems.save(
        "cluster",
        "A cluster of processes",
        [setting + "\n\n" + problems.table(header, rows)],
        ("numpy", "dask", "distributed"),
    )
