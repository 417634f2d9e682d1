"""A GPU: the moment start, a step of EM, fits and predictions, compared with the same step in plain torch."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import apolar
from apolar.data import open_rows
from apolar.em import kernel_block
from apolar.em.problem import Problem
from apolar.estimator.fitted import FittedState
from apolar.mixture.families import family
from apolar.search.moment_starts import whitened_mixture
from benchmarks import large, problems

N_ROWS, N_COLUMNS, N_COMPONENTS = 100_000_000, 16, 8
FULL_ROWS = 20_000_000
HOST_ROWS = 20_000_000


def made(n_rows: int) -> Any:
    """Return rows of clusters, made on the GPU, of float32."""
    import torch

    weights, means, deviations = (
        torch.tensor(parameter, dtype=torch.float32, device="cuda")
        for parameter in large.clusters(N_COLUMNS, N_COMPONENTS)
    )
    generator = torch.Generator(device="cuda").manual_seed(0)
    X = torch.empty((n_rows, N_COLUMNS), device="cuda")
    for start in range(0, n_rows, 2**23):
        part = X[start : start + 2**23]
        labels = torch.multinomial(weights, len(part), replacement=True, generator=generator)
        noise = torch.randn(part.shape, device="cuda", generator=generator)
        part[...] = means[labels] + deviations[labels, None] * noise
    return X


def milliseconds(call: Callable[[], Any], repeats: int = 5) -> tuple[float, float]:
    """Return the time of the first call, and the median of those after it."""
    import torch

    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return times[0], float(np.median(times[1:]))


def plain_step(X: Any, means: Any, variances: Any, weights: Any) -> tuple[Any, ...]:
    """Return the sums of an E-step as a user of torch would write it, in single precision."""
    import torch

    n_columns = X.shape[1]
    squares = (X * X).sum(dim=1, keepdim=True) - 2 * X @ means.T + (means * means).sum(dim=1)
    logits = (
        torch.log(weights) - 0.5 * n_columns * torch.log(2 * torch.pi * variances) - 0.5 * squares / variances
    )
    density = torch.logsumexp(logits, dim=1)
    responsibilities = torch.exp(logits - density[:, None])
    return (
        responsibilities.sum(dim=0),
        responsibilities.T @ X,
        (responsibilities * squares).sum(dim=0),
        density.sum(),
    )


def without_kernels(call: Callable[[], Any], repeats: int = 5) -> tuple[float, float]:
    """Return the times of calls without the kernels of EM."""
    is_fused, kernel_block.is_fused = kernel_block.is_fused, lambda *_: False
    try:
        return milliseconds(call, repeats)
    finally:
        kernel_block.is_fused = is_fused


def fit(data: Any, covariance_type: str = "spherical") -> apolar.GaussianMixture:
    """Return the default fit."""
    return apolar.GaussianMixture(N_COMPONENTS, covariance_type=covariance_type, random_state=0).fit(data)


def predictions(model: apolar.GaussianMixture, X: Any) -> list[list[Any]]:
    """Return the times of predictions."""
    methods = ("predict", "predict_proba", "score_samples", "score")
    return [
        [f"`{method}`", *milliseconds(lambda method=method: getattr(model, method)(X), 3)]
        for method in methods
    ]


def full_timings(X: Any, moments: Any) -> list[list[Any]]:
    """Return the times of steps, the fit and predictions with full covariances."""
    data = Problem(open_rows(X), family("full"))
    start = whitened_mixture(data, moments, np.ones(N_COLUMNS))[None]
    rows = [["step of EM, one kernel", *milliseconds(lambda: data.e_step(start))]]
    rows.append(
        ["step of EM, by chunks, without the kernel", *without_kernels(lambda: data.e_step(start), 3)]
    )
    rows.append(["whole default fit", *milliseconds(lambda: fit(X, "full"), 1)])
    return rows + predictions(fit(X, "full"), X)


def main() -> None:
    """Time the steps, the fits and the predictions."""
    import torch

    warnings.simplefilter("ignore")
    n_rows = N_ROWS
    X = made(n_rows)
    rows = [["read all rows once", *milliseconds(lambda: X.sum())]]
    moments = apolar.mixture_from_moments(X, N_COMPONENTS)
    rows.append(["moment start", *milliseconds(lambda: apolar.mixture_from_moments(X, N_COMPONENTS))])
    data = Problem(open_rows(X), family("spherical"))
    start = whitened_mixture(data, moments, np.ones(N_COLUMNS))[None]
    rows.append(["step of EM, one kernel", *milliseconds(lambda: data.e_step(start))])
    diagonal = Problem(open_rows(X), family("diag"))
    diagonal_start = whitened_mixture(diagonal, moments, np.ones(N_COLUMNS))[None]
    rows.append(["step of EM, diagonal", *milliseconds(lambda: diagonal.e_step(diagonal_start))])
    rows.append(["step of EM, by chunks, without the kernel", *without_kernels(lambda: data.e_step(start))])
    parameters = [
        torch.tensor(parameter, dtype=torch.float32, device="cuda")
        for parameter in (moments.means, moments.variances, moments.weights)
    ]
    rows.append(["step of EM, plain torch, float32", *milliseconds(lambda: plain_step(X, *parameters))])
    compiled = torch.compile(plain_step)
    rows.append(["the same, compiled by torch", *milliseconds(lambda: compiled(X, *parameters))])
    rows.append(["whole default fit", *milliseconds(lambda: fit(X), 3)])
    rows += predictions(fit(X), X)
    full = full_timings(X[:FULL_ROWS], moments)
    few = X[:HOST_ROWS].cpu().numpy()
    host = [
        [
            f"array on the host, moved ({few.nbytes / 1e9:.2f} GB)",
            *milliseconds(lambda: fit(apolar.on_device(few)), 1),
        ]
    ]
    max_bytes = few.nbytes // 4
    host.append(
        [
            "the same, streamed in each pass",
            *milliseconds(lambda: fit(apolar.on_device(few, max_bytes=max_bytes)), 1),
        ]
    )
    begin = time.perf_counter()
    on_host = fit(few)
    host.append(["the same, by the processor", 1e3 * (time.perf_counter() - begin), None])
    on_device = fit(apolar.on_device(few))
    # In double precision: the attributes of fits to rows of float32 are rounded.
    ours, theirs = FittedState.of(on_device).parameters, FittedState.of(on_host).parameters
    difference = max(
        np.abs(ours.means - theirs.means).max(), np.abs(ours.covariances - theirs.covariances).max()
    )
    setting = (
        f"{torch.cuda.get_device_name()}, {n_rows:,} x {N_COLUMNS} numbers of float32 on the device, "
        f"{N_COMPONENTS} components, torch {torch.__version__}. The first call includes what is compiled. "
        "All sums are in double precision but those of plain torch."
    )
    host_setting = (
        f"The default fit of {HOST_ROWS:,} rows of the host. The parameters from GPU and processor differ by "
        f"{difference:.0e} at most."
    )
    header = ["what", "first call, ms", "later, ms"]

    def shown(timings: list[list[Any]]) -> str:
        return problems.table(
            header, [[name, *("" if ms is None else f"{ms:.1f}" for ms in times)] for name, *times in timings]
        )

    problems.save(
        "gpu",
        "A GPU",
        [
            setting + "\n\n" + shown(rows),
            f"Full covariances, {FULL_ROWS:,} of these rows.\n\n" + shown(full),
            host_setting + "\n\n" + shown(host),
        ],
        ("numpy", "torch"),
    )
