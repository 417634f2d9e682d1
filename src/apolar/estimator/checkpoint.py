"""Checkpoints: the best mixture so far, written to a file while a fit runs, and read to resume it."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from apolar._core.files import check_regular, real_path
from apolar.em.result import Fit
from apolar.estimator.attributes import was_rounded
from apolar.estimator.parameters import is_path
from apolar.estimator.storage import load_model, save_model
from apolar.exceptions import CheckpointWarning
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters

__all__ = ["Checkpoint", "StoredStart", "check_writable", "resumed"]

# The `message_` of the mixture in a checkpoint.
MESSAGE = (
    "A checkpoint on the way, after pass {}: EM has not converged. To go on, fit the same rows with the same "
    "parameters, this file as checkpoint, and warm_start=True."
)


class Checkpoint:
    """A callback of EM that writes the best mixture of all runs of a fit to a file.

    It is called after each pass. It writes after the first one, then after each `checkpoint_every`-th if the
    mixture is better than the one in the file, and at the end. If a write fails, it warns once, and tries
    again when the next is due: the fit goes on.

    Parameters
    ----------
    estimator : GaussianMixture
        Its parameters are written with the mixture. Labels and responsibilities as `init_params` are as long
        as the table, and are written as "auto".
    attributes : callable
        Returns the fitted attributes of a Fit.
    ordered : callable
        Returns a Fit with its components in the order in which they are to be written.
    """

    def __init__(
        self,
        estimator: Any,
        attributes: Callable[[Fit], dict[str, Any]],
        ordered: Callable[[Fit], Fit],
    ) -> None:
        self.estimator, self.attributes, self.ordered = estimator, attributes, ordered
        self.n_passes = 0
        # The best result of the runs that have ended.
        self.ended: Fit | None = None
        # The latest result of the current run, and its objective after each pass.
        self.latest: Fit | None = None
        self.history: list[float] = []
        # The mixture in the file.
        self.written: WhitenedParameters | None = None
        self.has_warned = False

    def __call__(self, fit: Fit) -> bool:
        """Record a pass, and write if a write is due; never ask to stop."""
        if self.latest is None or (fit.n_iter == 1 and fit is not self.latest):
            self.ended = None if self.latest is None else self._best(self.latest)
            self.history = []
        self.latest = fit
        if self.history and fit.objective < self.history[-1]:
            # The prior was adapted, which changes the objective by a constant: see `EMRun.adapt_prior`.
            shift = fit.objective - self.history[-1]
            self.history = [value + shift for value in self.history]
        self.history.append(fit.objective)
        self.n_passes += 1
        if (self.n_passes - 1) % self.estimator.checkpoint_every:
            return False
        best = self._best(fit)
        if best.parameters is not self.written:
            status = {"start_": "checkpoint", "start_notes_": [], "message_": MESSAGE.format(self.n_passes)}
            ordered = self.ordered(best)
            if self._write(self.attributes(ordered) | status):
                self.written = best.parameters
        return False

    def end(self, attributes: dict[str, Any]) -> None:
        """Write the fitted mixture, given its attributes."""
        self._write(attributes)

    def _best(self, latest: Fit) -> Fit:
        """Return the best result of all runs, by likelihood: evidence is known only at the end of a run."""
        if self.ended is not None and self.ended.log_likelihood >= latest.log_likelihood:
            return self.ended
        return replace(latest, n_iter=len(self.history), history=tuple(self.history))

    def _write(self, attributes: dict[str, Any]) -> bool:
        """Write a mixture, given its fitted attributes; return whether that worked."""
        model = type(self.estimator)(**self.estimator.get_params(deep=False))
        if not isinstance(model.init_params, str):
            model.init_params = "auto"
        if hasattr(self.estimator, "feature_names_in_"):
            model.feature_names_in_ = self.estimator.feature_names_in_
        for name, value in attributes.items():
            setattr(model, name, value)
        try:
            save_model(model, self.estimator.checkpoint)
        # The disk is full, or the mixture has collapsed so far that its precisions overflow.
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


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no checkpoint can be written, before the fit begins."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"checkpoint={str(path)!r} is a folder: give the path of a file in it.")
    check_regular(real_path(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.parent} for the checkpoint {target.name}: make it first."
        )
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        # With the errno, OSError makes an error of the same class, such as PermissionError.
        raise OSError(
            error.errno,
            f"The folder {target.parent} of the checkpoint cannot be written to ({error.strerror}): give "
            "checkpoint another path.",
        ) from error


@dataclass(frozen=True, eq=False)
class StoredStart:
    """The mixture of a file, to start from.

    Attributes
    ----------
    parameters : MixtureParameters
        In the units of the data.
    is_rounded : bool
        Whether its fit took the rows to be known up to their rounding errors.
    shrinkage : float
        The attribute `shrinkage_`.
    """

    parameters: MixtureParameters
    is_rounded: bool
    shrinkage: float


def resumed(estimator: Any, kind: Family, n_features: int) -> StoredStart | None:
    """Return the mixture of the file that a fit resumes from; None if there is none.

    Parameters
    ----------
    estimator : GaussianMixture
        If its `warm_start` is a path, that is the file. If it is true, the file is its checkpoint, provided
        that this exists and the estimator has not been fitted.
    kind : Family
    n_features : int

    Returns
    -------
    stored : StoredStart or None

    Raises
    ------
    FileNotFoundError
        If `warm_start` is a path, and there is no such file.
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
    stored = (family(model.covariance_type).name, model.n_components, model.n_features_in_)
    requested = (kind.name, estimator.n_components, n_features)
    if stored != requested:
        raise ValueError(
            f"{path!s} holds {_described(*stored)}; asked for is {_described(*requested)}. Delete the file "
            "to start afresh, or change the parameters to those of the file."
        )
    covariances = np.asarray(model.covariances_)
    parameters = MixtureParameters(model.weights_, model.means_, covariances, model.noise_box_)
    return StoredStart(parameters, was_rounded(model), vars(model).get("shrinkage_", 0.0))


def _described(name: str, n_components: int, n_features: int) -> str:
    return f"a mixture of n_components={n_components}, covariance_type={name!r}, {n_features} columns"
