"""`apolar sketch` and `merge`, and a mixture from the moments alone."""

import json
import math

import numpy as np
from sklearn.datasets import load_wine

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
    # mclust's code names the same family; others need more of the sketch, or are not determined by moments.
    by_code = run("fit", "--sketch", tmp_path / "both.npz", "-k", 4, "--covariance", "VII", "-o", "by-code")
    assert by_code.exit_code == 0, by_code.output
    for kind, words in (("EEE", "make the sketch with order 4"), ("VEV", "not VEV")):
        refused = run("fit", "--sketch", tmp_path / "both.npz", "-k", 4, "--covariance", kind)
        assert refused.exit_code == 2
        assert words in " ".join(refused.output.split())


def wines(path):
    wine = load_wine()
    header = ",".join(wine.feature_names).replace("/", "_")
    np.savetxt(path, wine.data, delimiter=",", header=header, comments="", fmt="%.17g")
    return wine


def test_columns_of_mixed_units_are_standardised_from_the_sketch(tmp_path):
    wine = wines(tmp_path / "wine.csv")
    assert run("sketch", tmp_path / "wine.csv", "-o", tmp_path / "wine.npz").exit_code == 0

    def fitted(*options):
        folder = tmp_path / "out"
        result = run("fit", "--sketch", tmp_path / "wine.npz", "-k", 3, "--json", "-o", folder, *options)
        assert result.exit_code == 0, result.output
        arguments = (folder / "model.npz", tmp_path / "wine.csv", "-o", tmp_path / "labels.csv")
        assert run("predict", *arguments).exit_code == 0
        clusters = [cluster for _, cluster, _ in labels(tmp_path / "labels.csv")]
        return json.loads(result.output), apolar.scores.adjusted_rand_index(wine.target, clusters)

    answer, agreement = fitted()
    assert answer["standardised"]
    assert "differ by a factor of 2,5" in answer["notes"][0]
    assert np.shape(answer["variances"]) == (3, 13)
    assert answer["status"] == "VALID"
    assert agreement > 0.8
    model = apolar.GaussianMixture.load(tmp_path / "out" / "model.npz")
    assert model.covariance_type == "diag"
    np.testing.assert_allclose(model.weights_ @ model.means_, wine.data.mean(axis=0), rtol=0.05)
    answer, agreement = fitted("--no-standardise")
    assert not answer["standardised"]
    assert answer["status"] == "POOR_FIT"
    assert agreement < 0.4
    shown = run("fit", "--sketch", tmp_path / "wine.npz", "-k", 3, "-o", tmp_path / "out")
    assert "--no-standardise leaves them." in " ".join(shown.output.split())


def test_columns_in_one_unit_are_left_as_they_are(tmp_path, flowers):
    result = run("sketch", flowers, "-o", tmp_path / "flowers.npz")
    assert "Dropped column 'species': it holds text." in result.output
    arguments = ("fit", "--sketch", tmp_path / "flowers.npz", "-k", 3, "--json", "-o", tmp_path / "out")
    assert not json.loads(run(*arguments).output)["standardised"]
    assert json.loads(run(*arguments, "--standardise").output)["standardised"]


def test_what_is_left_out_of_a_sketch_and_of_its_fit(tmp_path):
    """A column that is constant in one part of a table may not be so in another."""
    X, _ = apolar.datasets.make_example(2, 400, random_state=0)
    for part, rows in enumerate((X[:200], X[200:])):
        table = np.column_stack([np.arange(200), rows, np.ones(200), np.full(200, part)])
        header = "id," + ",".join("abcde"[: X.shape[1]]) + ",flat,part"
        np.savetxt(tmp_path / f"{part}.csv", table, delimiter=",", header=header, comments="")
        result = run("sketch", tmp_path / f"{part}.csv", "-o", tmp_path / f"{part}.npz")
        assert result.exit_code == 0, result.output
        assert "Dropped column 'id': it numbers the rows. Use --keep id to include it." in result.output
        assert "Column 'flat' is constant; kept because other parts of the table may differ." in result.output
    merged = run("merge", tmp_path / "0.npz", tmp_path / "1.npz", "-o", tmp_path / "both.npz")
    assert merged.exit_code == 0, merged.output
    answer = json.loads(
        run("fit", "--sketch", tmp_path / "both.npz", "-k", 2, "--json", "-o", tmp_path / "out").output
    )
    assert answer["columns"][-1] == "part"
    assert answer["notes"][0] == "Dropped constant columns: 'flat'."


def test_options_that_need_rows_are_refused_for_a_sketch():
    for option in (("--keep", "a"), ("--encoding", "latin-1"), ("--na-values", "-9"), ("--sheet", "a")):
        result = run("fit", "--sketch", "any.npz", "-k", 2, *option)
        assert result.exit_code == 2
        assert f"{option[0]} needs the rows" in result.output


def test_other_families_from_a_sketch(tmp_path):
    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    means = np.array([[0, 0, 0, 0], [8, 1, 0, 0], [0, 9, 2, 1]])
    spread = np.array([[1, 2, 1, 3], [2, 1, 1, 1], [1, 1, 3, 1]])
    which = rng.choice(3, 6000, p=[0.5, 0.3, 0.2])
    X = (means[which] + spread[which] * rng.standard_normal((6000, 4))) * [1, 1000, 0.01, 1]
    for part, rows in enumerate(np.array_split(X, 2)):
        np.savetxt(tmp_path / f"{part}.csv", rows, delimiter=",", header=",".join(names), comments="")
        made = run("sketch", tmp_path / f"{part}.csv", "--order", 4, "-o", tmp_path / f"{part}.npz")
        assert made.exit_code == 0, made.output
    both = tmp_path / "both.npz"
    assert run("merge", tmp_path / "0.npz", tmp_path / "1.npz", "-o", both).exit_code == 0
    options = ("--covariance", "diag", "--json", "-o", tmp_path / "out")
    answer = json.loads(run("fit", "--sketch", both, "-k", 3, *options).output)
    # Means of 6000 rows: to a tenth of a deviation.
    found = np.array(answer["means"]) / [1, 1000, 0.01, 1]
    np.testing.assert_allclose(found, means, atol=0.3)
    assert answer["covariance"] == "diag"
    assert answer["p_value"] > 1e-3
    assert apolar.GaussianMixture.load(tmp_path / "out" / "model.npz").covariance_type == "diag"
    shown = run("fit", "--sketch", both, "-k", 3, "--covariance", "tied", "-o", tmp_path / "out")
    assert "The moments do not agree with such a mixture" in shown.output
    chosen = run("fit", "--sketch", both, "-k", "2-3", "--covariance", "diag,tied", "-o", tmp_path / "out")
    assert "3 diag components have the lowest criterion" in " ".join(chosen.output.split())
    refused = run("fit", "--sketch", both, "-k", 3, "--covariance", "diag", "--standardise")
    assert refused.exit_code == 2
    assert "--standardise matters to spherical components only" in refused.output


def test_sketches_of_another_order_do_not_add_up(tmp_path, flowers):
    assert run("sketch", flowers, "-o", tmp_path / "3.npz").exit_code == 0
    assert run("sketch", flowers, "--order", 4, "-o", tmp_path / "4.npz").exit_code == 0
    result = run("merge", tmp_path / "3.npz", tmp_path / "4.npz", "-o", tmp_path / "no.npz")
    assert result.exit_code == 2
    assert "of order 3 and 4" in result.output
    result = run("merge", tmp_path / "3.npz", flowers, "-o", tmp_path / "no.npz")
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {flowers} is not a moment sketch")
    assert not (tmp_path / "no.npz").exists()
    assert run("sketch", flowers, "--order", 9, "-o", tmp_path / "9.npz").exit_code == 2
