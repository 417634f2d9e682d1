"""Files that were damaged, cut or written by others: what was saved, or an error in one line."""

import tempfile
import warnings
from pathlib import Path

import numpy as np

import apolar
from apolar.cli.tables import read_table
from fuzz.outcomes import refused_on_purpose, single_line


def run(rng):
    """Damage a file, and read it; return what was tried."""
    name = str(rng.choice(list(KINDS)))
    damage = str(rng.choice(list(DAMAGES)))
    write, read, use, suffix = KINDS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        write(rng, path)
        path.write_bytes(DAMAGES[damage](rng, path.read_bytes()))
        tried = f"{name}, {damage}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                use(read(path))
        except (ValueError, TypeError) as error:
            refused_on_purpose(error)
            single_line(error)
            return f"{tried}: {error}"
    return tried


def _model(rng, path):
    X = rng.standard_normal((30, 2)) + 4 * rng.integers(2, size=(30, 1))
    family = str(rng.choice(["full", "tied", "diag", "spherical"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        apolar.GaussianMixture(2, covariance_type=family, init_params="moments", max_iter=5).fit(X).save(path)


def _use_model(model):
    assert np.all(np.isfinite(model.predict_proba(np.zeros((2, model.n_features_in_)))))


def _sketch(rng, path):
    apolar.MomentSketch(3).update(rng.standard_normal((20, 3))).save(path)


def _use_sketch(sketch):
    assert sketch.central().mean.shape == (sketch.n_features,)


def _text(rng, path):
    header = str(rng.choice(["a,b,c\n", "", '"x;y","z","w"\n', "a\tb\tc\n"]))
    separator = str(rng.choice([",", ";", "\t", " "]))
    cells = rng.choice(
        ["1", "2.5", "-3e8", "1e400", "NA", "", "nan", "inf", "1,5", "x", '"4"', "0x10"], (20, 3)
    )
    rows = "\n".join(separator.join(row) for row in cells)
    path.write_bytes((header + rows).encode(str(rng.choice(["utf-8", "utf-16", "latin-1"]))))


def _numbers(rng, path):
    kind = rng.choice(["f8", "f4", "i8", "u1", "?", "c16", "U3", ">f8"])
    shape = [(20, 3), (0, 3), (20,), (2, 2, 2), (), (3, 0)][rng.integers(6)]
    np.save(path, rng.integers(0, 2, size=shape).astype(kind))


def _use_table(table):
    assert table.X.ndim == 2


# What writes a file, reads it and uses what was read, and the suffix of its name.
KINDS = {
    "model": (_model, apolar.GaussianMixture.load, _use_model, ".model"),
    "sketch": (_sketch, apolar.MomentSketch.load, _use_sketch, ".sketch"),
    "text": (_text, read_table, _use_table, ".csv"),
    "numbers": (_numbers, read_table, _use_table, ".npy"),
}


def _flipped(rng, data):
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        changed[rng.integers(len(changed))] = rng.integers(256)
    return bytes(changed)


def _mixed(rng, data):
    start, stop = sorted(rng.integers(0, len(data) + 1, size=2))
    return (
        data[:start] + bytes(rng.permutation(np.frombuffer(data[start:stop], np.uint8).copy())) + data[stop:]
    )


DAMAGES = {
    "as it was": lambda _, data: data,
    "cut": lambda rng, data: data[: rng.integers(len(data) + 1)],
    "empty": lambda rng, data: b"",
    "bytes changed": lambda rng, data: _flipped(rng, data) if data else data,
    "bytes in another order": _mixed,
    "bytes before": lambda rng, data: rng.bytes(8) + data,
    "twice": lambda _, data: data + data,
    "noise": lambda rng, data: rng.bytes(len(data)),
    "zeros": lambda _, data: bytes(len(data)),
}
