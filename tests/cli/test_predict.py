"""`apolar predict`: columns by name, one row, rows far from all clusters, and where labels go."""

import csv
import json
import os
import subprocess
import sys

import pytest

from cli.commands import labels, run


def test_standardised_spherical_clusters_predict_the_same_on_the_raw_table(flowers, tmp_path):
    out = tmp_path / "out"
    options = ("--covariance", "spherical", "--standardise", "--no-report", "-o", out)
    assert run("fit", flowers, "-k", 3, *options).exit_code == 0
    result = run("predict", out / "model.npz", flowers, "-o", tmp_path / "again.csv")
    assert result.exit_code == 0, result.output
    assert labels(tmp_path / "again.csv") == labels(out / "labels.csv")


def test_predict_finds_columns_by_name_and_prints_by_default(flowers, tmp_path):
    out = tmp_path / "out"
    assert run("fit", flowers, "-k", 3, "--no-report", "-o", out).exit_code == 0
    with flowers.open() as file:
        rows = list(csv.DictReader(file))
    shuffled = tmp_path / "shuffled.csv"
    with shuffled.open("w", newline="") as file:
        writer = csv.DictWriter(
            file, ["species", "petal_width", "sepal_length", "petal_length", "sepal_width"]
        )
        writer.writeheader()
        writer.writerows(rows)
    result = run("predict", out / "model.npz", shuffled)
    assert result.exit_code == 0
    assert result.output == (out / "labels.csv").read_text()
    as_json = json.loads(run("predict", out / "model.npz", shuffled, "--json").output)
    assert as_json["cluster"] == [cluster for _, cluster, _ in labels(out / "labels.csv")]


def test_predict_takes_one_row(flowers, model, tmp_path):
    lines = flowers.read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join(lines[:2]) + "\n")
    result = run("predict", model, tmp_path / "one.csv", "-o", "-")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == ["row,cluster,probability,outlier,p1,p2", "1,2,1.0,no,0.0,1.0"]


def test_links_are_followed_and_devices_are_refused(flowers, model, tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    link.symlink_to(real)
    assert run("predict", model, flowers, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert real.read_text().startswith("row,cluster")
    os.mkfifo(tmp_path / "pipe")
    refused = run("predict", model, flowers, "-o", tmp_path / "pipe")
    assert refused.exit_code == 2
    assert "it is not a plain file. Choose another -o." in refused.output


def test_what_is_read_is_not_overwritten(flowers, model):
    before = model.read_bytes()
    for target in (model, flowers):
        result = run("predict", model, flowers, "-o", target)
        assert result.exit_code == 2
        assert "is also an input; choose another -o." in result.output
    assert model.read_bytes() == before


def test_rows_far_from_all_clusters_are_marked(flowers, model, tmp_path):
    (tmp_path / "far.csv").write_text(flowers.read_text() + "1e6,1e6,1e6,1e6,x\n1e300,1e300,1e300,1e300,x\n")
    result = run("predict", model, tmp_path / "far.csv", "-o", tmp_path / "out.csv", "--outliers")
    assert result.exit_code == 0, result.output
    assert "2 outliers (5% chance of any false alarm per table): rows 151 and 152." in result.output
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["outlier"] for row in rows] == ["no"] * 150 + ["yes", "yes"]
    # Beyond what numbers can hold there are no probabilities, and the nearest cluster.
    assert [rows[151][name] for name in ("probability", "p1", "p2")] == ["", "", ""]
    assert rows[151]["cluster"] in ("1", "2")
    as_json = json.loads(run("predict", model, tmp_path / "far.csv", "--json").output)
    assert as_json["outliers"] == [151, 152]
    assert as_json["probability"][151] is None
    assert as_json["probabilities"][151] == [None, None]
    assert as_json["probabilities"][0] == pytest.approx([0, 1], abs=1e-6)


def test_a_report_on_new_rows(flowers, model, tmp_path):
    lines = flowers.read_text().splitlines()
    (tmp_path / "more.csv").write_text("\n".join(lines[:61]) + "\n")
    page = tmp_path / "pages" / "more.html"
    options = ("--report", page, "--label-column", "species", "-o", tmp_path / "l.csv")
    result = run("predict", model, tmp_path / "more.csv", *options)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "2 clusters in 60 rows" in text
    assert f"loaded from {model}: it was fitted to 150 rows" in text
    assert "versicolor" in text
    assert "n_components" not in text
    refused = run("predict", model, flowers, "--label-column", "species")
    assert refused.exit_code == 2
    assert "give --report FILE" in refused.output


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="There is no /dev/full here.")
def test_a_full_standard_output(flowers, model):
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "apolar", "predict", str(model), str(flowers)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert "No space left on device" in process.stderr
