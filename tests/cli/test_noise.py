"""`--noise`: labels of -1, the report, JSON, other commands, and what is refused."""

import json

import numpy as np
import pytest

import apolar
from cli.commands import labels, run


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    kinds = np.arange(240) % 2
    X = np.array([[0.0, 0, 0], [9, 4, 1]])[kinds] + rng.standard_normal((240, 3))
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 6, X.max(axis=0) + 6, (24, 3))])
    path = tmp_path / "points.csv"
    names = ["one", "two"]
    lines = [f"{x},{y},{z},{names[i % 2] if i < 240 else 'none'}" for i, (x, y, z) in enumerate(X.tolist())]
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n")
    return path, X


@pytest.mark.parametrize("option", [["--noise"], ["--noise", "0.1"], ["--noise=0.1", "--standardise"]])
def test_rows_of_noise_have_the_label_minus_one(table, tmp_path, option):
    path, X = table
    out = tmp_path / "out"
    result = run("fit", path, "-k", 2, *option, "--covariance", "diag", "--label-column", "kind", "-o", out)
    assert result.exit_code == 0, result.output
    clusters = np.array([cluster for _, cluster, _ in labels(out / "labels.csv")])
    assert set(clusters) == {-1, 1, 2}
    n_noise = int(np.sum(clusters == -1))
    assert np.mean(clusters[240:] == -1) > 0.85
    assert np.mean(clusters[:240] == -1) < 0.02
    model = apolar.GaussianMixture.load(out / "model.npz")
    model.__dict__.pop("feature_names_in_")
    expected = model.predict(X)
    np.testing.assert_array_equal(clusters, np.where(expected < 0, -1, expected + 1))
    assert f"{n_noise} rows" in result.output
    lines = result.output.splitlines()
    assert any(line.split()[:2] == ["noise", str(n_noise)] for line in lines)
    report = (out / "report.html").read_text()
    summary = report.partition('id="summary"')[2].partition("</table>")[0]
    assert f"noise</span></th><td>{n_noise}</td>" in summary
    predicted = run("predict", out / "model.npz", path)
    assert sum(",-1," in line for line in predicted.output.splitlines()) == n_noise
    as_json = json.loads(run("predict", out / "model.npz", path, "--json").output)
    assert as_json["cluster"] == clusters.tolist()


def test_json_has_the_noise(table, tmp_path):
    path, _ = table
    result = run("fit", path, "-k", 2, "--noise", "-o", tmp_path / "o", "--no-report", "--json")
    answer = json.loads(result.output)
    assert answer["noise_weight"] == pytest.approx(24 / 264, abs=0.04)
    assert sum(answer["rows"]) + answer["noise_rows"] == 264
    without = json.loads(run("fit", path, "-k", 2, "-o", tmp_path / "p", "--no-report", "--json").output)
    assert without["noise_rows"] == 0
    assert without["noise_weight"] == 0


def test_select_compares_mixtures_with_noise(table):
    path, _ = table
    arguments = ("select", path, "--components", "1-3", "--covariance", "diag", "--json")
    with_noise = json.loads(run(*arguments, "--noise").output)
    assert with_noise["best"]["components"] == 2
    without = json.loads(run(*arguments).output)
    parameters = [[row["parameters"] for row in answer["table"]] for answer in (with_noise, without)]
    np.testing.assert_array_equal(np.subtract(*parameters), 2)


@pytest.mark.parametrize("share", ["0", "1", "1.5", "much"])
def test_a_fraction_is_between_zero_and_one(table, share):
    result = run("fit", table[0], "-k", 2, f"--noise={share}")
    assert result.exit_code == 2
    assert "takes a fraction between 0 and 1" in result.output


def test_a_sketch_has_no_rows_that_could_be_noise(table, tmp_path):
    assert run("sketch", table[0], "--columns", "a,b,c", "-o", tmp_path / "s.npz").exit_code == 0
    result = run("fit", "--sketch", tmp_path / "s.npz", "-k", 2, "--noise")
    assert result.exit_code == 2
    assert "--noise needs the rows" in result.output
