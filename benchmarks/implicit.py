"""Moments of data that are never formed: time and memory, and the formed tensor where that fits."""

import multiprocessing
import resource
import sys
import time

import numpy as np

import apolar
from benchmarks import problems

# Rows, columns, order, rank, and the noise around centres whose entries have variance one.
LARGE = [
    (100_000, 500, 4, 10, 1.0),
    (100_000, 500, 4, 10, 3.0),
    (100_000, 500, 3, 10, 3.0),
    (20_000, 1_000, 4, 10, 1.0),
]
SMALL = [(5_000, 40, 3, 5, 1.0), (5_000, 40, 3, 5, 3.0), (5_000, 30, 4, 5, 1.0), (5_000, 30, 4, 5, 3.0)]
# Rows of the table are made this many at a time, so that making it takes no other memory.
CHUNK = 1_000


def made(n_rows: int, dim: int, rank: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return rows around centres, and the centres."""
    rng = np.random.default_rng([n_rows, dim, rank])
    centres = rng.standard_normal((rank, dim))
    X = np.empty((n_rows, dim))
    for start in range(0, n_rows, CHUNK):
        part = X[start : start + CHUNK]
        rng.standard_normal(out=part)
        part *= noise
        part += centres[np.arange(start, start + len(part)) % rank]
    return X, centres


def megabytes() -> float:
    """Return the most memory that this process has had."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def measure(n_rows: int, dim: int, order: int, rank: int, noise: float) -> list[str]:
    X, centres = made(n_rows, dim, rank, noise)
    start = time.perf_counter()
    tensor = apolar.SymmetricTensor.from_rows(X, None, order)
    waring = apolar.decompose(tensor, rank, random_state=0)
    seconds = time.perf_counter() - start
    return [
        f"{n_rows:,} x {dim}", f"{order}", f"{rank}", f"{noise:g}", f"{seconds:.1f}",
        f"{X.nbytes / 2**20:.0f}", f"{megabytes():.0f}",
        f"{waring.residual:.4f} +- {waring.residual_error:.1g}", waring.status.name,
        f"{cosine_error(centres, waring):.1e}",
    ]  # fmt: skip


def cosine_error(centres: np.ndarray, waring: apolar.Waring) -> float:
    """Return the largest angle between a centre and the nearest point."""
    units = centres / np.linalg.norm(centres, axis=1)[:, None]
    cosines = np.abs(units @ waring.points.T).max(axis=1)
    return float(np.arccos(np.minimum(cosines, 1.0)).max())


def compare(n_rows: int, dim: int, order: int, rank: int, noise: float) -> list[str]:
    X, _ = made(n_rows, dim, rank, noise)
    start = time.perf_counter()
    of_rows = apolar.SymmetricTensor.from_rows(X, None, order)
    waring = apolar.decompose(of_rows, rank, random_state=0)
    middle = time.perf_counter()
    formed = of_rows.to_tensor()
    expected = apolar.decompose(formed, rank, random_state=0)
    end = time.perf_counter()
    residual = (formed - waring.to_tensor()).norm() / formed.norm()
    return [
        f"{n_rows:,} x {dim}", f"{order}", f"{rank}", f"{noise:g}",
        f"{middle - start:.2f}", f"{end - middle:.2f}", f"{residual:.6f}", f"{expected.residual:.6f}",
    ]  # fmt: skip


def on_gpu(n_rows: int, dim: int, order: int, rank: int, noise: float) -> list[str]:
    """Return the time of rows that are on a GPU, and of those on the host."""
    import torch

    X, _ = made(n_rows, dim, rank, noise)
    seconds, warings = [], []
    for place in ("cpu", "cuda", "cuda"):  # the second time nothing is compiled
        rows = torch.from_numpy(X).to(place)
        torch.cuda.synchronize()
        start = time.perf_counter()
        tensor = apolar.SymmetricTensor.from_rows(rows, None, order)
        warings.append(apolar.decompose(tensor, rank, random_state=0))
        seconds.append(time.perf_counter() - start)
    host, device = warings[0], warings[-1]
    difference = np.abs(host.points - device.points).max()
    return [
        f"{n_rows:,} x {dim}", f"{order}", f"{rank}", f"{noise:g}", f"{seconds[0]:.2f}", f"{seconds[2]:.2f}",
        f"{device.residual:.4f}", f"{difference:.0e}",
    ]  # fmt: skip


def gpu() -> None:
    """Measure rows that are on a GPU."""
    import torch

    header = [
        "rows x columns", "order", "rank", "noise", "seconds, processor", "seconds, GPU", "residual",
        "largest difference of a point",
    ]  # fmt: skip
    problems.save("implicit_gpu", "Moments that are never formed, of rows on a GPU", [
        f"{torch.cuda.get_device_name()}, rows of float64 as torch tensors.",
        problems.table(header, [on_gpu(*shape) for shape in LARGE]),
    ], ("numpy", "torch"))  # fmt: skip


def main() -> None:
    header = [
        "rows x columns", "order", "rank", "noise", "seconds", "MB of the rows", "MB of the process at most",
        "residual, estimated", "status", "largest angle to a centre",
    ]  # fmt: skip
    # Each in a process of its own, whose memory is measured.
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        large = [pool.apply(measure, shape) for shape in LARGE]
    beside = [
        "rows x columns",
        "order",
        "rank",
        "noise",
        "seconds",
        "seconds, formed",
        "residual",
        "of the formed",
    ]
    problems.save("implicit", "Moments that are never formed", [
        "Rows around as many centres as the rank, float64; time includes the check of the rows.",
        problems.table(header, large),
        "Compared with the same tensor with all its coefficients, where these are few:",
        problems.table(beside, [compare(*shape) for shape in SMALL]),
    ], ("numpy", "scipy"))  # fmt: skip
