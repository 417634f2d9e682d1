"""`apolar predict`: columns by name, one row, rows far from all clusters, and where labels go."""

import os
import subprocess
import sys

import pytest

from cli.commands import answer, refuse, rows_of, run, succeed


def test_predict_finds_columns_by_name_and_prints_by_default(flowers, model):
    shuffled = flowers.with_name("shuffled.csv")
    lines = [line.split(",") for line in flowers.read_text().splitlines()]
    shuffled.write_text("".join(f"{species},{d},{a},{c},{b}\n" for a, b, c, d, species in lines))
    assert run("predict", model, shuffled).output == (model.parent / "labels.csv").read_text()
    # One row is enough.
    shuffled.write_text("\n".join(map(",".join, lines[:2])))
    said = run("predict", model, shuffled, "-o", "-").output.splitlines()
    assert said == ["row,cluster,probability,outlier,p1,p2", "1,2,1.0,no,0.0,1.0"]


def test_links_are_followed_and_devices_are_refused(flowers, model, tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    link.symlink_to(real)
    assert run("predict", model, flowers, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert real.read_text().startswith("row,cluster")
    os.mkfifo(tmp_path / "pipe")
    said = refuse("predict", model, flowers, "-o", tmp_path / "pipe")
    assert "it is not a plain file. Choose another -o." in said


def test_what_is_read_is_not_overwritten(flowers, model):
    before = model.read_bytes()
    for target in (model, flowers):
        assert "is also an input; choose another -o." in refuse("predict", model, flowers, "-o", target)
    assert model.read_bytes() == before


def test_rows_far_from_all_clusters_are_marked(flowers, model, tmp_path):
    (tmp_path / "far.csv").write_text(flowers.read_text() + "1e6,1e6,1e6,1e6,x\n1e300,1e300,1e300,1e300,x\n")
    said = succeed("predict", model, tmp_path / "far.csv", "-o", tmp_path / "out.csv", "--outliers")
    assert "2 outliers (5% chance of any false alarm per table): rows 151 and 152." in said
    rows = rows_of(tmp_path / "out.csv")
    assert [row["outlier"] for row in rows] == ["no"] * 150 + ["yes", "yes"]
    # Beyond what numbers can hold there are no probabilities, and the nearest cluster.
    assert [rows[151][name] for name in ("probability", "p1", "p2")] == ["", "", ""]
    assert rows[151]["cluster"] in ("1", "2")
    as_json = answer("predict", model, tmp_path / "far.csv")
    assert as_json["outliers"] == [151, 152]
    assert as_json["probability"][151] is None
    assert as_json["probabilities"][151] == [None, None]
    assert as_json["probabilities"][0] == pytest.approx([0, 1], abs=1e-6)


def test_a_report_on_new_rows(flowers, model, tmp_path):
    (tmp_path / "more.csv").write_text("\n".join(flowers.read_text().splitlines()[:61]) + "\n")
    page = tmp_path / "pages" / "more.html"
    options = ("--report", page, "--label-column", "species", "-o", tmp_path / "l.csv")
    succeed("predict", model, tmp_path / "more.csv", *options)
    text = page.read_text()
    for part in ("2 clusters in 60 rows", f"loaded from {model}: it was fitted to 150 rows", "versicolor"):
        assert part in text
    assert "n_components" not in text
    assert "give --report FILE" in refuse("predict", model, flowers, "--label-column", "species")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="There is no /dev/full here.")
def test_a_full_standard_output(flowers, model):
    command = [sys.executable, "-m", "apolar", "predict", str(model), str(flowers)]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "No space left on device" in ended.stderr
