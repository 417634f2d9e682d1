"""Bad parameters, places and files: the error comes before the work begins."""

import os
import re
import tempfile

import numpy as np
import pytest

import apolar
from apolar import GaussianMixture
from estimator.checkpoint.fits import Unread, X, mixture


def test_a_place_that_cannot_be_written_is_refused_before_the_rows_are_read(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no folder .*missing to save fit.npz to: make it"):
        mixture(checkpoint=tmp_path / "missing" / "fit.npz").fit(Unread())
    with pytest.raises(IsADirectoryError, match="is a folder: give the path of a file in it"):
        mixture(checkpoint=tmp_path).fit(Unread())

    def refused(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(PermissionError, match=r"cannot be written to \(Permission denied\): give checkpoint"):
        mixture(checkpoint=tmp_path / "fit.npz").fit(Unread())
    assert os.listdir(tmp_path) == []


def test_a_path_without_a_file_is_refused(tmp_path):
    for place in (tmp_path / "none.npz", str(tmp_path / "none.npz"), ""):
        with pytest.raises(FileNotFoundError, match="no file .* to start from.* warm_start=True continues"):
            mixture(warm_start=place).fit(X)


@pytest.mark.parametrize("by_path", [True, False])
@pytest.mark.parametrize(
    ("parameters", "columns", "in_file", "asked"),
    [
        ({"n_components": 2}, 2, "n_components=3", "n_components=2"),
        ({"covariance_type": "VVI"}, 2, "covariance_type='full'", "covariance_type='diag'"),
        ({}, 1, "2 columns", "1 columns"),
    ],
)
def test_a_file_of_another_mixture_is_refused(path, by_path, parameters, columns, in_file, asked):
    mixture(max_iter=0).fit(X).save(path)
    before = path.read_bytes()
    start = {"warm_start": path} if by_path else {"warm_start": True, "checkpoint": path}
    message = f"fit.npz holds .*{in_file}.*, but this estimator has .*{asked}.*Delete the file .* or change"
    with pytest.raises(ValueError, match=message):
        mixture(**start, **parameters).fit(X[:, :columns])
    assert path.read_bytes() == before


def test_a_damaged_file_is_not_passed_over(path):
    mixture(max_iter=0).fit(X).save(path)
    part = path.read_bytes()[:-40]
    path.write_bytes(part)
    for start in ({"warm_start": path}, {"warm_start": True, "checkpoint": path}):
        with pytest.raises(ValueError, match="is damaged"):
            mixture(**start).fit(X)
    assert path.read_bytes() == part
    # Unless nobody asks for what is in it.
    assert mixture(checkpoint=path).fit(X).converged_
    assert GaussianMixture.load(path).converged_


def test_a_file_cannot_say_where_to_write(path):
    mixture(max_iter=0).fit(X).save(path)
    with np.load(path) as file:
        text = str(file["parameters"])
    arrays = apolar._core.files.load_arrays(
        path, apolar.estimator.model_files.MODEL_FORMAT, apolar.estimator.model_files.MODEL_VERSION, "a model"
    )
    arrays["parameters"] = np.array(re.sub('"checkpoint": null', '"checkpoint": "x"', text))
    apolar._core.files.save_arrays(
        path, apolar.estimator.model_files.MODEL_FORMAT, apolar.estimator.model_files.MODEL_VERSION, arrays
    )
    with pytest.raises(ValueError, match="checkpoint must be one that files can hold"):
        GaussianMixture.load(path)
