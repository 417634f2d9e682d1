"""The handwritten zeros and ones of MNIST's training set."""

from __future__ import annotations

from importlib import resources

import numpy as np
from scipy.linalg import eigh

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar.datasets import Dataset

N_VARYING = 617  # pixels that are not the same in all images


def load_images(n_components: int | None, *, centred: bool) -> Dataset:
    """Return the images or their principal components: see `apolar.datasets.load_mnist01`."""
    if n_components is not None:
        n_components = check_integer(n_components, "n_components", least=1)
        if n_components > N_VARYING:
            raise ValueError(
                f"n_components must be at most {N_VARYING}, the number of pixels that vary, not "
                f"{n_components}; pass None for the images."
            )
    path = resources.files(__package__).joinpath("data", "mnist01.npz")
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    if n_components is None:
        data = images.astype(np.float64)
        names = tuple(f"pixel{number}" for number in range(data.shape[1]))
    else:
        data = _principal_components(images, n_components, centred)
        names = tuple(f"pc{number + 1}" for number in range(n_components))
    return Dataset(
        data,
        labels.astype(np.int64),
        names,
        ("0", "1"),
        "mnist01",
        "Images of the handwritten digits 0 and 1 in the training set of MNIST, by LeCun, Cortes and Burges, "
        "of 28 by 28 pixels; unless asked for as they are, as principal components of the standardised "
        "pixels. Licence as known: CC BY-SA 3.0.",
    )


def _principal_components(images: Array, n_components: int, centred: bool) -> Array:
    """Return the first principal components of the standardised pixels, largest variance first."""
    pixels = images[:, images.min(axis=0) < images.max(axis=0)].astype(np.float64)
    n_samples, n_pixels = pixels.shape
    sums = pixels.sum(axis=0)
    # Integers below 2^53: the covariance, times n^2, has no rounding error.
    covariance = n_samples * (pixels.T @ pixels) - np.outer(sums, sums)
    deviations = np.sqrt(covariance.diagonal())
    _, axes = eigh(
        covariance / np.outer(deviations, deviations),
        subset_by_index=(n_pixels - n_components, n_pixels - 1),
        overwrite_a=True,
        check_finite=False,
    )
    axes = axes[:, ::-1]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.sign(axes[largest, np.arange(n_components)])
    projection = axes * (n_samples / deviations)[:, None]
    projected = pixels @ projection
    return projected - (sums / n_samples) @ projection if centred else projected
