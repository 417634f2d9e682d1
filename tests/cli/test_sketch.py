"""`apolar sketch` and `merge`, and a mixture from the moments alone."""

import math

import numpy as np
from sklearn.datasets import load_wine

import apolar
from cli.commands import answer, labels, refuse, succeed


def write_table(path, X, names, **options):
    np.savetxt(path, X, delimiter=",", header=names, comments="", **options)


def test_sketches_add_up_and_give_a_mixture(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _ = apolar.datasets.make_example(1, 20_000, random_state=0)
    for name, part in (("one", X[:8000]), ("two", X[8000:])):
        np.save(f"{name}.npy", part)
        succeed("sketch", f"{name}.npy", "-o", f"{name}.npz")
    assert "20,000 rows, 6 columns" in succeed("merge", "one.npz", "two.npz", "-o", "both.npz")
    assert "from moments alone" in succeed("fit", "--sketch", "both.npz", "-k", 4)
    found = answer("fit", "--sketch", "both.npz", "-k", 4)
    np.testing.assert_allclose(found["weights"], apolar.mixture_from_moments(X, 4).weights, rtol=1e-6)
    saved = "apolar-both/model.npz"
    succeed("predict", saved, "one.npy", "-o", "labels.csv")
    assert len(labels(tmp_path / "labels.csv")) == 8000
    model = apolar.GaussianMixture.load(saved)
    assert not model.converged_
    assert math.isnan(model.lower_bound_)
    assert "moments of a sketch alone: EM has not run and no likelihood was computed" in model.message_
    # It can be saved again, and EM goes on from it.
    model.save("again.npz")
    fitted = apolar.GaussianMixture(4, covariance_type="spherical", warm_start="again.npz", n_threads=1)
    assert math.isfinite(fitted.fit(X[:500]).lower_bound_)
    # mclust's code names the same family; others need more of the sketch, or are not determined by moments.
    succeed("fit", "--sketch", "both.npz", "-k", 4, "--covariance", "VII", "-o", "by-code")
    for kind, words in (("EEE", "make the sketch with order 4"), ("VEV", "not VEV")):
        assert words in refuse("fit", "--sketch", "both.npz", "-k", 4, "--covariance", kind)


def test_sketches_that_do_not_add_up(tmp_path, flowers, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((50, 3))
    for name, order in (("named", "a,b,c"), ("mixed", "c,b,a")):
        write_table(f"{name}.csv", X, order)
        succeed("sketch", f"{name}.csv", "-o", f"{name}.npz")
    succeed("sketch", "named.csv", "--order", 4, "-o", "4.npz")
    for other, words in (
        ("mixed.npz", "or a different order of columns: a, b, c; c, b, a."),
        ("4.npz", "of order 3 and 4"),
        (flowers, f"Error: {flowers} is not a moment sketch"),
    ):
        assert words in refuse("merge", "named.npz", other, "-o", "no.npz")
    assert not (tmp_path / "no.npz").exists()
    refuse("sketch", flowers, "--order", 9, "-o", "9.npz")


def test_columns_of_mixed_units_are_standardised_from_the_sketch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wine = load_wine()
    write_table("wine.csv", wine.data, ",".join(wine.feature_names).replace("/", "_"), fmt="%.17g")
    succeed("sketch", "wine.csv", "-o", "wine.npz")

    def fit_to(*options):
        found = answer("fit", "--sketch", "wine.npz", "-k", 3, "-o", "out", *options)
        succeed("predict", "out/model.npz", "wine.csv", "-o", "labels.csv")
        clusters = [cluster for _, cluster, _ in labels(tmp_path / "labels.csv")]
        return found, apolar.scores.adjusted_rand_index(wine.target, clusters)

    found, agreement = fit_to("--no-standardise")
    assert (found["standardised"], found["status"]) == (False, "POOR_FIT")
    assert agreement < 0.4
    found, agreement = fit_to()
    assert (found["standardised"], found["status"]) == (True, "VALID")
    assert "differ by a factor of 2,5" in found["notes"][0]
    assert "--no-standardise leaves them." in found["notes"][0]
    assert np.shape(found["variances"]) == (3, 13)
    assert agreement > 0.8
    model = apolar.GaussianMixture.load("out/model.npz")
    assert model.covariance_type == "diag"
    np.testing.assert_allclose(model.weights_ @ model.means_, wine.data.mean(axis=0), rtol=0.05)


def test_what_is_left_out_of_a_sketch_and_of_its_fit(tmp_path, monkeypatch):
    """A column that is constant in one part of a table may not be so in another."""
    monkeypatch.chdir(tmp_path)
    X, _ = apolar.datasets.make_example(2, 400, random_state=0)
    for part, rows in enumerate((X[:200], X[200:])):
        table = np.column_stack([np.arange(200), rows, np.ones(200), np.full(200, part)])
        write_table(f"{part}.csv", table, "id," + ",".join("abcde"[: X.shape[1]]) + ",flat,part")
        said = succeed("sketch", f"{part}.csv", "-o", f"{part}.npz")
        assert "Dropped column 'id': row numbers. Use --keep id to include it." in said
        assert "Kept column 'flat', as other parts of the table may differ: constant." in said
    succeed("merge", "0.npz", "1.npz", "-o", "both.npz")
    found = answer("fit", "--sketch", "both.npz", "-k", 2, "-o", "out")
    assert found["columns"][-1] == "part"
    assert found["notes"][0] == "Dropped constant columns: 'flat'."


def test_other_families_from_a_sketch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    means = np.array([[0, 0, 0, 0], [8, 1, 0, 0], [0, 9, 2, 1]])
    spread = np.array([[1, 2, 1, 3], [2, 1, 1, 1], [1, 1, 3, 1]])
    which = rng.choice(3, 6000, p=[0.5, 0.3, 0.2])
    X = (means[which] + spread[which] * rng.standard_normal((6000, 4))) * [1, 1000, 0.01, 1]
    for part, rows in enumerate(np.array_split(X, 2)):
        write_table(f"{part}.csv", rows, "a,b,c,d")
        succeed("sketch", f"{part}.csv", "--order", 4, "-o", f"{part}.npz")
    succeed("merge", "0.npz", "1.npz", "-o", "both.npz")
    options = ("fit", "--sketch", "both.npz", "-o", "out", "-k")
    found = answer(*options, 3, "--covariance", "diag")
    # Means of 6000 rows: to a tenth of a deviation.
    np.testing.assert_allclose(np.array(found["means"]) / [1, 1000, 0.01, 1], means, atol=0.3)
    assert found["covariance"] == "diag"
    assert found["p_value"] > 1e-3
    assert apolar.GaussianMixture.load("out/model.npz").covariance_type == "diag"
    said = succeed(*options, 3, "--covariance", "tied")
    assert "The moments do not agree with such a mixture" in said
    said = succeed(*options, "2-3", "--covariance", "diag,tied")
    assert "Lowest BIC for moments, of 4 candidates: 3 diag components." in said
    said = refuse(*options, 3, "--covariance", "diag", "--standardise")
    assert "--standardise matters to spherical components only" in said
