"""The mixture so far as a file: written while a fit runs, read when one that was killed goes on."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from apolar._core.files import check_regular
from apolar.em.lbfgs import LBFGSHistory
from apolar.em.result import FitResult
from apolar.estimator.parameters import is_path
from apolar.estimator.storage import load_model, save_model
from apolar.exceptions import CheckpointWarning
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters

__all__ = ["Checkpoint", "check_writable", "resumed"]

# Numbers that are kept of each half of the curvature, at most: 8 MB.
MOST_CURVATURE = 2**20
# What a checkpoint says of itself.
MESSAGE = (
    "A checkpoint on the way, after pass {}: EM has not converged. To go on, fit the same rows with the same "
    "parameters, this file as checkpoint, and warm_start=True."
)


class Checkpoint:
    """Watches the passes of a fit, and writes the best mixture of all its runs to a file.

    The first pass is written, then each `checkpoint_every`-th if there is something better, and the end. A
    write that fails is told once and tried again when the next is due: the fit goes on.

    Parameters
    ----------
    estimator : GaussianMixture
        Its parameters are written with the mixture. "auto" takes the place of labels and responsibilities:
        these are as long as the table.
    attributes : callable
        The fitted attributes that a FitResult stands for.
    ordered : callable
        A FitResult with its components in the order in which they are to be written.
    """

    def __init__(
        self,
        estimator: Any,
        attributes: Callable[[FitResult], dict[str, Any]],
        ordered: Callable[[FitResult], FitResult],
    ) -> None:
        self.estimator, self.attributes, self.ordered = estimator, attributes, ordered
        self.n_passes = 0
        # The best of the runs that have ended; the run that goes on, and what it raised.
        self.ended: FitResult | None = None
        self.latest: FitResult | None = None
        self.history: list[float] = []
        self.written: WhitenedParameters | None = None
        self.has_warned = False

    def __call__(self, fit: FitResult) -> bool:
        """Take in a pass, and write if it is time to; never ask to stop."""
        if self.latest is None or (fit.n_iter == 1 and fit is not self.latest):
            self.ended = None if self.latest is None else self._best(self.latest)
            self.history = []
        self.latest = fit
        self.history.append(fit.objective)
        self.n_passes += 1
        if (self.n_passes - 1) % self.estimator.checkpoint_every:
            return False
        best = self._best(fit)
        if best.parameters is not self.written:
            said = {"start_": "checkpoint", "start_notes_": [], "message_": MESSAGE.format(self.n_passes)}
            kept = self.ordered(best)
            if self._write(self.attributes(kept) | said | _curvature(kept)):
                self.written = best.parameters
        return False

    def end(self, attributes: dict[str, Any]) -> None:
        """Write the fitted mixture, whose attributes these are."""
        self._write(attributes)

    def _best(self, latest: FitResult) -> FitResult:
        """Return the best of all runs; they are compared by likelihood, as where the winner is chosen."""
        if self.ended is not None and self.ended.log_likelihood >= latest.log_likelihood:
            return self.ended
        return replace(latest, n_iter=len(self.history), history=tuple(self.history))

    def _write(self, attributes: dict[str, Any]) -> bool:
        """Write a mixture; return whether that worked."""
        model = type(self.estimator)(**self.estimator.get_params(deep=False))
        if not isinstance(model.init_params, str):
            model.init_params = "auto"
        if hasattr(self.estimator, "feature_names_in_"):
            model.feature_names_in_ = self.estimator.feature_names_in_
        for name, value in attributes.items():
            setattr(model, name, value)
        try:
            save_model(model, self.estimator.checkpoint)
        # A full disk, or a mixture that has collapsed on the way so far that no file holds it.
        except (OSError, ValueError) as error:
            if not self.has_warned:
                self.has_warned = True
                warnings.warn(
                    f"The checkpoint {self.estimator.checkpoint} could not be written: {error}. The fit goes "
                    f"on, and tries again every {self.estimator.checkpoint_every} passes.",
                    CheckpointWarning,
                    stacklevel=2,
                )
            return False
        return True


def _curvature(fit: FitResult) -> dict[str, Any]:
    """Return what a run has learnt of the curvature, as an attribute, if it is not too much for a file."""
    if fit.curvature is None or not fit.curvature.pairs:
        return {}
    arrays = fit.curvature.arrays()
    return {"_curvature": arrays} if arrays[0].size <= MOST_CURVATURE else {}


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a checkpoint that cannot be written, before the work begins."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"checkpoint={str(path)!r} is a folder: give the path of a file in it.")
    check_regular(target.resolve())
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.parent} for the checkpoint {target.name}: make it first."
        )
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        # Of the same kind: a number of an error makes PermissionError of OSError.
        raise OSError(
            error.errno,
            f"The folder {target.parent} of the checkpoint cannot be written to ({error.strerror}): give "
            "checkpoint another path.",
        ) from error


def resumed(
    estimator: Any, kind: Family, n_features: int
) -> tuple[MixtureParameters, LBFGSHistory | None] | None:
    """Return the mixture of the file that a fit is to start from, or None if there is none.

    Parameters
    ----------
    estimator : GaussianMixture
        `warm_start` is the path of a file, or true: then the file is its checkpoint, if that exists and the
        estimator has not been fitted.
    kind : Family
    n_features : int

    Returns
    -------
    parameters : MixtureParameters
        In the units of the data.
    memory : Memory or None
        What is known of the curvature there.

    Raises
    ------
    FileNotFoundError
        If `warm_start` is the path of no file.
    ValueError
        If the file is damaged, or its mixture is not of that family and size.
    """
    path = estimator.warm_start
    if not is_path(path):
        path = estimator.checkpoint
        if not estimator.warm_start or path is None or hasattr(estimator, "weights_"):
            return None
        if not os.path.exists(path):
            return None
    elif not os.path.exists(path):
        raise FileNotFoundError(
            f"There is no file {path!s} to start from. Give warm_start the path of a saved mixture; "
            "warm_start=True goes on from the checkpoint if there is one, and starts afresh if not."
        )
    model = load_model(type(estimator), path)
    found = (family(model.covariance_type).name, model.n_components, model.n_features_in_)
    asked = (kind.name, estimator.n_components, n_features)
    if found != asked:
        raise ValueError(
            f"{path!s} holds {_described(*found)}; asked for is {_described(*asked)}. Delete the file to "
            "start afresh, or change the parameters to those of the file."
        )
    parameters = MixtureParameters(model.weights_, model.means_, np.asarray(model.covariances_))
    curvature = None
    if hasattr(model, "_curvature"):
        steps, gradient_changes = model._curvature
        # One coordinate per parameter, and one more: all weights times one factor is no change.
        n_coordinates = kind.n_parameters(parameters.n_components, parameters.n_features) + 1
        if steps.shape[1] != n_coordinates:
            raise ValueError(
                f"{path!s} is damaged: its curvature has {steps.shape[1]} coordinates, the mixture "
                f"{n_coordinates}. Delete the file to start afresh."
            )
        curvature = LBFGSHistory.of(steps, gradient_changes)
    return parameters, curvature


def _described(name: str, n_components: int, n_features: int) -> str:
    return f"a mixture of n_components={n_components}, covariance_type={name!r}, {n_features} columns"
