"""`apolar fit` and `select`: what they print and write, and the options they share."""

import re

import numpy as np
import pytest

import apolar
from cli.commands import answer, labels, names_in, refuse, rows_of, run, succeed

NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def test_fit_writes_labels_model_and_report(flowers, tmp_path):
    said = succeed("fit", flowers, "-k", 3, "-o", tmp_path / "out", "--label-column", "species")
    assert names_in(tmp_path / "out") == {"labels.csv", "model.npz", "report.html"}
    assigned = labels(tmp_path / "out" / "labels.csv")
    iris = apolar.datasets.load_iris()
    model = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    assert [cluster - 1 for _, cluster, _ in assigned] == model.predict(iris.data).tolist()
    assert [row for row, _, _ in assigned] == list(range(1, 151))
    assert "3 clusters in 150 rows" in said
    assert "adjusted Rand index 0.922" in said
    assert f"BIC {model.bic(iris.data):.2f} (lower is better; with the default prior), 44 parameters" in said
    report = (tmp_path / "out" / "report.html").read_text()
    assert "3 clusters in 150 rows" in report
    assert "versicolor" in report


def test_the_default_folder_has_the_name_of_the_table(flowers, monkeypatch):
    monkeypatch.chdir(flowers.parent)
    said = succeed("fit", flowers.name, "-k", 2, "--no-report", "--covariance", "spherical")
    assert names_in(flowers.parent / "apolar-flowers") == {"labels.csv", "model.npz"}
    assert "Dropped column 'species': text." in said


def test_json_standard_input_and_chosen_columns(flowers, tmp_path):
    options = ("--no-report", "-o", tmp_path / "out")
    chosen = answer("fit", flowers, "-k", "2-3", *options)
    assert (chosen["n_components"], chosen["covariance"], chosen["columns"]) == (2, "VEV", NAMES)
    assert sum(chosen["rows"]) == 150
    assert "lowest BIC" in chosen["reason"]
    assert chosen["files"]["labels"].endswith("labels.csv")
    text = flowers.read_text().replace("petal_width", '"petal,width"')
    read = answer("fit", "-", "-k", 2, "--columns", '3,"petal,width"', *options, stdin=text)
    assert read["columns"] == ["petal_length", "petal,width"]


def test_rows_with_missing_values(flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    lines[5] = ",3.6,1.4,0.2,setosa"
    lines[9] = "4.9,NA,1.5,0.1,setosa"
    flowers.write_text("\n".join(lines) + "\n")
    missing = (
        "2 of 600 values are missing (columns 'sepal_length' (1) and 'sepal_width' (1)); incomplete rows"
    )
    assert missing in succeed("fit", flowers, "-k", 2, "-o", tmp_path / "kept")
    assert [row for row, _, _ in labels(tmp_path / "kept" / "labels.csv")] == list(range(1, 151))
    assert "2 values are missing" in (tmp_path / "kept" / "report.html").read_text()
    options = ("-o", tmp_path / "out", "--no-report")
    assert answer("fit", flowers, "-k", 2, "--standardise", *options)["n_missing"] == [1, 1, 0, 0]
    predicted = run("predict", tmp_path / "kept" / "model.npz", flowers).output
    assert missing in " ".join(predicted.split())
    assert len(re.findall(r"^\d+,\d", predicted, flags=re.MULTILINE)) == 150
    assert missing in succeed("select", flowers, "-k", "1-2", "--covariance", "diag")
    assert "Dropped 2 rows with missing values." in succeed(
        "fit", flowers, "-k", 2, "--drop-missing", *options
    )
    numbers = [row for row, _, _ in labels(tmp_path / "out" / "labels.csv")]
    assert numbers == [row for row in range(1, 151) if row not in (5, 9)]


def test_rows_without_a_class_do_not_count(flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    lines[1:13] = [line.rsplit(",", 1)[0] + "," for line in lines[1:13]]
    flowers.write_text("\n".join(lines) + "\n")
    said = succeed("fit", flowers, "-k", 3, "--label-column", "species", "-o", tmp_path / "o")
    assert "4 of 138 rows (2.9%)" in said
    assert "The class of 12 rows is not known." in said


# --- columns --------------------------------------------------------------------------------------


def test_fit_leaves_columns_out_and_says_so(tmp_path):
    people = tmp_path / "people.csv"
    rows = apolar.datasets.load_iris().data.tolist()
    lines = [f"{i},{','.join(map(str, row))},{i % 2},7,2020-01-{1 + i % 28:02}" for i, row in enumerate(rows)]
    people.write_text("\n".join(["id,a,b,c,d,sex,flat,when", *lines]))
    said = succeed("fit", people, "-k", 3, "-o", tmp_path / "o")
    page = (tmp_path / "o" / "report.html").read_text().replace("&#39;", "'")
    for note in (
        "Dropped column 'when': dates.",
        "Dropped column 'id': row numbers. Use --keep id to include it.",
        "Dropped column 'sex': only 2 distinct values. Use --keep sex to include it.",
        "Dropped column 'flat': constant. Use --keep flat to include it.",
    ):
        assert said.count(note) == 1
        assert note in page
    # The model finds its columns by name, and says nothing of the others.
    model = tmp_path / "o" / "model.npz"
    assert apolar.GaussianMixture.load(model).feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert succeed("predict", model, people, "-o", tmp_path / "l.csv") == f"150 rows: {tmp_path / 'l.csv'}"
    assert labels(tmp_path / "l.csv") == labels(tmp_path / "o" / "labels.csv")


# --- selection ------------------------------------------------------------------------------------


def test_select_prints_and_writes_a_table(flowers, tmp_path):
    said = succeed("select", flowers, "-k", "1-3", "--covariance", "full", "-o", tmp_path / "out")
    assert "2 full components have the lowest BIC" in said
    rows = rows_of(tmp_path / "out" / "selection.csv")
    assert [(row["components"], row["tails"]) for row in rows] == [
        (number, tails) for tails in ("gaussian", "t") for number in "123"
    ]
    for tails in ("gaussian", "t"):
        chosen = answer("select", flowers, "-k", "2", "--covariance", "diag", "--tails", tails)
        assert chosen["best"] == {"covariance": "diag", "components": 2, "tails": tails}


def test_fit_and_select_take_the_same_options(flowers, tmp_path):
    options = ["-k", "2,3", "--covariance", "diag,EEE", "--covariance", "VVI", "--criterion", "icl"]
    chosen = answer("select", flowers, *options)
    kinds = [(row["covariance"], row["components"]) for row in chosen["table"]]
    assert kinds == 2 * [("diag", 2), ("diag", 3), ("EEE", 2), ("EEE", 3)]
    fitted = answer("fit", flowers, *options, "--no-report", "-o", tmp_path / "o")
    assert (fitted["covariance"], fitted["n_components"]) == tuple(chosen["best"].values())[:2]
    assert (fitted["degrees_of_freedom"] is None) == (chosen["best"]["tails"] == "gaussian")
    assert "lowest ICL" in fitted["reason"]
    assert fitted["reason"] == chosen["reason"]
    lowest = min(row["icl"] for row in chosen["table"] if not row["dropped"])
    assert lowest == pytest.approx(fitted["icl"], abs=1e-3)


def test_all_forms(flowers):
    options = ("select", flowers, "-k", 1, "--covariance")
    assert len(answer(*options, "all")["table"]) == 28
    assert len(answer(*options, "all", "--columns", "1", "--tails", "gaussian")["table"]) == 2
    assert answer(*options, "vvv")["best"]["covariance"] == "VVV"
    assert "'round' is not one of 'full'" in refuse(*options, "full,round")


# --- noise ----------------------------------------------------------------------------------------


@pytest.fixture
def noisy(tmp_path):
    """Two clusters of 120 rows, and 24 rows of noise."""
    rng = np.random.default_rng(0)
    kinds = np.arange(240) % 2
    X = np.array([[0.0, 0, 0], [9, 4, 1]])[kinds] + rng.standard_normal((240, 3))
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 6, X.max(axis=0) + 6, (24, 3))])
    path = tmp_path / "points.csv"
    names = ["one", "two"]
    lines = [f"{x},{y},{z},{names[i % 2] if i < 240 else 'none'}" for i, (x, y, z) in enumerate(X.tolist())]
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n")
    return path, X


@pytest.mark.parametrize("option", [["--noise"], ["--noise=0.1", "--standardise"]])
def test_rows_of_noise_have_the_label_minus_one(noisy, tmp_path, option):
    path, X = noisy
    out = tmp_path / "out"
    options = ("-k", 2, *option, "--covariance", "diag", "--label-column", "kind", "-o", out)
    printed = run("fit", path, *options).output
    clusters = np.array([cluster for _, cluster, _ in labels(out / "labels.csv")])
    n_noise = int(np.sum(clusters == -1))
    assert np.mean(clusters[240:] == -1) > 0.85
    assert np.mean(clusters[:240] == -1) < 0.02
    model = apolar.GaussianMixture.load(out / "model.npz")
    model.__dict__.pop("feature_names_in_")
    expected = model.predict(X)
    np.testing.assert_array_equal(clusters, np.where(expected < 0, -1, expected + 1))
    assert any(line.split()[:2] == ["noise", str(n_noise)] for line in printed.splitlines())
    page = (out / "report.html").read_text()
    assert (
        f"<strong>{n_noise} rows</strong>"
        in page.partition('aria-label="Noise"')[2].partition("</section>")[0]
    )
    # The rows of noise are listed.
    listed = re.findall(r'data-row="(\d+)"', page.partition('id="noisy"')[2].partition("</table>")[0])
    assert set(map(int, listed)) <= set((np.flatnonzero(clusters == -1) + 1).tolist())
    assert len(listed) == min(n_noise, 15)
    assert answer("predict", out / "model.npz", path)["cluster"] == clusters.tolist()


@pytest.mark.parametrize("fraction", ["0", "1", "much"])
def test_a_fraction_is_between_zero_and_one(flowers, fraction):
    for option in ("--noise", "--outliers"):
        said = refuse("fit", flowers, "-k", 2, f"{option}={fraction}")
        assert f"{option} takes a fraction between 0 and 1" in said


# --- names of rows, columns that did not take part ------------------------------------------------


def test_rows_have_their_names_in_all_results(tmp_path):
    path, out = tmp_path / "people.csv", tmp_path / "o"
    rng = np.random.default_rng(0)
    lines = [f"person {i},{'ab'[i % 2]},{x:.3f},{y:.3f}" for i, (x, y) in enumerate(rng.normal(size=(60, 2)))]
    lines[10] = "odd one,a,90,90"
    path.write_text("\n".join(["who,group,x,y", *lines, ""]))
    succeed("fit", path, "-k", 1, "--id-column", "who", "--outliers", "-o", out)
    assert [row["id"] for row in rows_of(out / "labels.csv")][9:11] == ["person 9", "odd one"]
    assert [row["id"] for row in rows_of(out / "outliers.csv")] == ["odd one"]
    page = (out / "report.html").read_text()
    assert "11 (odd one)" in page
    assert '<table class="categories">' in page
    # The results of this fit are known as such by the next one.
    succeed("fit", path, "-k", 1, "--no-report", "-o", out)
    assert names_in(out) == {"labels.csv", "model.npz"}
    path.write_text("\n".join(["who,group,x,y", *lines[:10], ""]))
    succeed("fit", path, "-k", 1, "--id-column", "who", "--outliers", "--no-report", "-o", out)
    assert (out / "outliers.csv").read_text() == "row,id,cluster,distance,x,y\n"


def test_the_page_does_not_tell_where_its_files_are(flowers, tmp_path):
    succeed("fit", flowers, "-k", 2, "-o", tmp_path / "o")
    page = (tmp_path / "o" / "report.html").read_text()
    assert "flowers.csv" in page
    assert str(flowers.parent) not in page.replace(str(tmp_path / "o" / "model.npz"), "")


# --- the screen -----------------------------------------------------------------------------------


def test_columns_that_separate_clusters_come_first(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30))
    X[:100, 17] += 9
    path = tmp_path / "wide.csv"
    np.savetxt(path, X, delimiter=",", header=",".join(f"v{j}" for j in range(30)), comments="")
    said = run(
        "fit", path, "-k", 2, "--covariance", "tied_spherical", "--no-report", "-o", tmp_path / "o"
    ).output
    head = next(line for line in said.splitlines() if line.startswith(" cluster"))
    assert head.split()[3] == "v17"
    assert head.split()[-1] == "..."
    n_shown = len(head.split()) - 4
    assert f"Shown: {n_shown} of 30 columns, those that separate the clusters best." in said
    assert re.search(r"^Cluster [12]: highest v17 \(", said, flags=re.MULTILINE)
    monkeypatch.setenv("COLUMNS", "60")
    narrow = run(
        "fit", path, "-k", 2, "--covariance", "tied_spherical", "--no-report", "-o", tmp_path / "o"
    ).output
    head = next(line for line in narrow.splitlines() if line.startswith(" cluster"))
    assert len(head.rstrip()) <= 60


def test_a_wide_table_is_told_before_the_fit(tmp_path):
    path = tmp_path / "wide.csv"
    np.savetxt(path, np.random.default_rng(0).normal(size=(12, 15)), delimiter=",")
    result = run("fit", path, "-k", 1, "--no-report", "-o", tmp_path / "o")
    assert "have up to 120 parameters" not in result.output  # 180 values
    result = run("fit", path, "-k", 2, "--no-report", "-o", tmp_path / "o")
    told = "Covariances of 15 columns have up to 240 parameters, more than the table has values. "
    assert f"{told}Using diagonal ones" in result.output
    assert "(diag covariances" in result.output
    result = run("fit", path, "-k", 2, "--covariance", "full", "--no-report", "-o", tmp_path / "o")
    assert f"{told}The fit may take long" in result.output
    assert "(full covariances" in result.output


# --- long tails ------------------------------------------------------------------------------------


def test_clusters_with_long_tails_are_told_from_others(tmp_path):
    rng = np.random.default_rng(1)
    centres = np.repeat([[0.0, 0.0], [12.0, 0.0]], 300, axis=0)
    for tails, rows in (("t", rng.standard_t(2.5, (600, 2))), ("gaussian", rng.standard_normal((600, 2)))):
        table = tmp_path / f"{tails}.csv"
        np.savetxt(table, centres + rows, delimiter=",", header="a,b", comments="")
        for k in ("2", "1-3"):
            said = succeed("fit", table, "-k", k, "--covariance", "full", "--no-report", "-o", tmp_path / "o")
            assert ("2 clusters in 600 rows (full covariances, long tails)." in said) == (tails == "t")
            assert ("degrees of freedom. The fewer, the longer." in said) == (tails == "t")
            assert ("scales within" in said) == (tails == "t")
        # Rows of the tails are no outliers, and new rows get clusters from either kind of model.
        assert "600 rows" in succeed("predict", tmp_path / "o" / "model.npz", table, "-o", tmp_path / "p.csv")
        fitted = answer("fit", table, "-k", "2", "--tails", "t", "--no-report", "-o", tmp_path / "o")
        assert len(fitted["degrees_of_freedom"]) == 2
    assert "--tails needs the rows" in refuse("fit", "--sketch", "sums.npz", "-k", "2", "--tails", "t")
    assert "'long' is not one of" in refuse("fit", table, "-k", "2", "--tails", "long")


def test_clusters_of_several_components_are_told_and_written(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.exp(rng.normal(0, 0.7, (400, 2)) + np.repeat([[0, 0], [4, 4]], 200, axis=0))
    table = tmp_path / "amounts.csv"
    np.savetxt(table, rows, delimiter=",", header="income,area", comments="")
    said = succeed(
        "fit", table, "-k", "auto", "--covariance", "diag", "-o", tmp_path / "out", "--resamples", 2
    )
    assert re.search(r"2 clusters in 400 rows \(\d diag components\)", said)
    assert "components combine into 2 clusters" in said
    assert "Replace the values by their logarithms" in said
    assert "of 2 resamples" in said
    assert re.findall(r"Cluster (\d):", said) == ["1", "2"]
    header, *lines = (tmp_path / "out" / "labels.csv").read_text().splitlines()
    assert header == "row,cluster,probability,outlier,p1,p2"
    clusters = [line.split(",")[1] for line in lines]
    # A row of each tail is nearer to the other cluster.
    assert clusters[:200].count("1") + clusters[200:].count("2") in (*range(3), *range(398, 401))
    page = (tmp_path / "out" / "report.html").read_text()
    assert len(re.findall(r'<section class="card"', page)) == 2
    assert "There are no standard errors: they are those of components" in page
    # The model gives new rows the same clusters; from Python, components.
    succeed("predict", tmp_path / "out" / "model.npz", table, "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().splitlines() == [header, *lines]
    model = apolar.GaussianMixture.load(tmp_path / "out" / "model.npz")
    assert sorted(sum(model.clusters_, ())) == list(range(len(model.weights_)))
    assert apolar.GaussianMixture.from_json(model.to_json()).clusters_ == model.clusters_
    assert "of cluster" in str(model.summary())
    plain = answer("fit", table, "-k", "2-4", "--covariance", "diag", "--no-report", "-o", tmp_path / "plain")
    assert plain["combined"] is None
