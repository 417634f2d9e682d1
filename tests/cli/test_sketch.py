"""`apolar sketch` and `merge`, and a mixture from the moments alone."""

import json
import math

import numpy as np

import apolar
from cli.commands import labels, run


def test_sketches_add_up_and_give_a_mixture(tmp_path, monkeypatch):
    X, _ = apolar.datasets.make_example(1, 20_000, random_state=0)
    names = ["a", "b", "c", "d", "e", "f"]
    np.savetxt(tmp_path / "mixed.csv", X[:50, ::-1], delimiter=",", header=",".join(names[::-1]), comments="")
    assert run("sketch", tmp_path / "mixed.csv", "-o", tmp_path / "mixed.npz").exit_code == 0
    np.savetxt(tmp_path / "named.csv", X[:50], delimiter=",", header=",".join(names), comments="")
    assert run("sketch", tmp_path / "named.csv", "-o", tmp_path / "named.npz").exit_code == 0
    swapped = run("merge", tmp_path / "named.npz", tmp_path / "mixed.npz", "-o", tmp_path / "no.npz")
    assert swapped.exit_code == 2
    assert "have them in another order: a, b, c, d, e, f; f, e, d, c, b, a." in swapped.output
    for name, part in (("one", X[:8000]), ("two", X[8000:])):
        np.save(tmp_path / f"{name}.npy", part)
        result = run("sketch", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}.npz")
        assert result.exit_code == 0, result.output
    result = run("merge", tmp_path / "one.npz", tmp_path / "two.npz", "-o", tmp_path / "both.npz")
    assert result.exit_code == 0, result.output
    assert "20,000 rows, 6 columns" in result.output
    answer = json.loads(
        run("fit", "--sketch", tmp_path / "both.npz", "-k", 4, "--json", "-o", tmp_path / "out").output
    )
    expected = apolar.mixture_from_moments(X, 4)
    np.testing.assert_allclose(answer["weights"], expected.weights, rtol=1e-6)
    result = run(
        "predict", tmp_path / "out" / "model.npz", tmp_path / "one.npy", "-o", tmp_path / "labels.csv"
    )
    assert result.exit_code == 0, result.output
    assert len(labels(tmp_path / "labels.csv")) == 8000
    model = apolar.GaussianMixture.load(tmp_path / "out" / "model.npz")
    assert not model.converged_
    assert math.isnan(model.lower_bound_)
    assert (
        "from the moments of a sketch alone: EM has not run and no likelihood was computed" in model.message_
    )
    # It can be saved again, and EM goes on from it.
    model.save(tmp_path / "again.npz")
    rows = X[:500]
    fitted = apolar.GaussianMixture(
        4, covariance_type="spherical", warm_start=tmp_path / "again.npz", n_threads=1
    ).fit(rows)
    assert math.isfinite(fitted.lower_bound_)
    monkeypatch.chdir(tmp_path)
    shown = run("fit", "--sketch", tmp_path / "both.npz", "-k", 4)
    assert "from moments alone" in shown.output
    assert (tmp_path / "apolar-both" / "model.npz").exists()
    # mclust's code names the same family, and others are refused under either name.
    by_code = run("fit", "--sketch", tmp_path / "both.npz", "-k", 4, "--covariance", "VII", "-o", "by-code")
    assert by_code.exit_code == 0, by_code.output
    refused = run("fit", "--sketch", tmp_path / "both.npz", "-k", 4, "--covariance", "VVV")
    assert refused.exit_code == 2
    assert "spherical components only, not VVV" in refused.output
