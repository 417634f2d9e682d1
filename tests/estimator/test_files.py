"""Saved mixtures: what comes back, what is refused, and that no file is half written."""

import json
import os
import pickle
import stat
import zipfile

import numpy as np
import pandas as pd
import pytest

import apolar
from apolar import BayesianGaussianMixture, GaussianMixture, MomentSketch, Prior, StudentMixture
from apolar._core.files import load_arrays, save_arrays
from apolar.estimator import model_files
from mixtures import FAMILY_NAMES, pairs

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal((40, 3)) * [1, 2, 0.5] + shift for shift in (0, 3)])
NEW = RNG.standard_normal((200, 3)) * 3


def fit(kind="full", rows=X, cls=GaussianMixture, **parameters):
    parameters = {"init_params": "kmeans", "random_state": 0, "n_threads": 1} | parameters
    return cls(2, covariance_type=kind, **parameters).fit(rows)


def stored_arrays(path):
    return load_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION, "a model")


def store_arrays(path, arrays):
    save_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION, arrays)


def saved_and_loaded(model, path):
    model.save(path)
    loaded = GaussianMixture.load(path)
    assert type(loaded) is type(model)
    assert is_same_model(model, loaded)
    return loaded


def is_same_model(first, second):
    """Whether two models are equal, types and all, and say the same of rows, bit for bit."""
    names = {name for name in vars(first) if name.endswith("_")}
    assert names == {name for name in vars(second) if name.endswith("_")} >= {"weights_", "message_"}
    for name in names:
        a, b = getattr(first, name), getattr(second, name)
        assert type(a) is type(b), name
        if name == "noise_box_" and a is not None:
            a, b = np.vstack([a.origin, a.edges]), np.vstack([b.origin, b.edges])
        np.testing.assert_array_equal(a, b, err_msg=name)
        if isinstance(a, list):
            assert [type(value) for value in a] == [type(value) for value in b]
    for method in ("predict", "predict_proba", "score_samples"):
        assert getattr(first, method)(NEW).tobytes() == getattr(second, method)(NEW).tobytes()
    return True


def rewrite_arrays(path, **changes):
    """Rewrite a model file with some arrays changed, under a checksum that fits."""
    store_arrays(path, stored_arrays(path) | {name: np.asarray(value) for name, value in changes.items()})


def rewrite_parameters(path, *left_out, **changes):
    parameters = json.loads(str(stored_arrays(path)["parameters"])) | changes
    rewrite_arrays(path, parameters=json.dumps({k: v for k, v in parameters.items() if k not in left_out}))


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.fixture
def path(tmp_path, model):
    model.save(tmp_path / "a.model")
    return tmp_path / "a.model"


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        *pairs(FAMILY_NAMES, [{}, {"noise": 0.1}, {}]),
        ("factor", {"n_factors": 1}),
        ("full", {"cls": StudentMixture, "dof": "common", "noise": True}),
        ("tied", {"cls": BayesianGaussianMixture, "mean_prior": [0.0, 1.0, 2.0], "max_iter": 500}),
        ("diag", {"cls": BayesianGaussianMixture, "max_iter": 500}),
    ],
)
def test_a_round_trip_is_exact(tmp_path, kind, parameters):
    saved = fit(kind, **parameters)
    assert is_same_model(saved, pickle.loads(pickle.dumps(saved)))
    loaded = saved_and_loaded(saved, tmp_path / "a.model")
    assert loaded.get_params() == saved.get_params()
    assert not hasattr(loaded, "feature_names_in_")
    assert os.listdir(tmp_path) == ["a.model"]


def test_names_of_columns_come_back(tmp_path):
    frame = pd.DataFrame(X, columns=["größe", "b", "c"])
    saved = fit(rows=frame)
    saved.save(tmp_path / "a.model")
    loaded = GaussianMixture.load(tmp_path / "a.model")
    assert loaded.feature_names_in_.dtype == object
    np.testing.assert_array_equal(loaded.predict(frame), saved.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"b": "d"}))


def test_parameters_come_back_where_a_file_can_hold_them(tmp_path):
    labels = np.repeat([0, 1], 40)
    given = {"tol": np.float64(1e-4), "max_iter": np.int64(50), "warm_start": True, "verbose": False}
    prior = Prior(shrinkage=np.float32(0.5), scale=0.1)
    saved = fit("VVI", init_params=labels, prior=prior, **given).set_params(weights_init=np.array([0.1, 0.9]))
    loaded = saved_and_loaded(saved, tmp_path / "a.model")
    assert loaded.init_params == labels.tolist()
    assert loaded.prior == saved.prior
    assert (loaded.tol, loaded.max_iter, loaded.weights_init) == (1e-4, 50, [0.1, 0.9])
    assert loaded.set_params(weights_init=None, warm_start=False).fit(X).converged_
    saved = fit(init_params=lambda X, r, rng: np.arange(len(X)) % r, random_state=np.random.default_rng(0))
    loaded = saved_and_loaded(saved, tmp_path / "a.model")
    assert (loaded.init_params, loaded.random_state) == ("auto", None)


def test_a_stream_goes_on_after_loading(tmp_path):
    saved = GaussianMixture(2, random_state=0, n_threads=1).partial_fit(X)
    assert saved_and_loaded(saved, tmp_path / "a.model").partial_fit(X).n_samples_seen_ == 2 * len(X)


def test_older_files_may_lack_parameters_and_the_evidence(path):
    rewrite_parameters(path, "n_threads", "init_params")
    store_arrays(path, {name: v for name, v in stored_arrays(path).items() if name != "evidence_"})
    loaded = GaussianMixture.load(path)
    assert (loaded.n_threads, loaded.init_params) == (None, "auto")
    assert not hasattr(loaded, "evidence_")
    loaded.save(path)
    assert not hasattr(GaussianMixture.load(path), "evidence_")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 3}, r"weights_ must be float64 of shape \(3,\)"),
        ({"covariance_type": "tied"}, "was not fitted with covariance_type=.tied."),
        ({"init_params": np.array([object()])}, "Circular reference|JSON"),
        ({"means_init": [[np.nan] * 3] * 2}, "not JSON compliant"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_a_model_that_could_not_be_read_is_not_saved(tmp_path, parameters, message):
    saved = fit().set_params(**parameters)
    with pytest.raises(ValueError, match=f"cannot be saved: .*{message}.* fit it again"):
        saved.save(tmp_path / "a.model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_save_leaves_no_file_and_keeps_the_old_one(path, monkeypatch, error):
    before = path.read_bytes()

    def fails(file, **_arrays):
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "savez", fails)
    for place in (path, path.with_name("new.model")):
        with pytest.raises(error):
            fit("diag").save(place)
    assert os.listdir(path.parent) == ["a.model"]
    assert path.read_bytes() == before


def test_a_file_is_on_the_disk_before_it_has_its_name(path, model, monkeypatch):
    events = []
    fsync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: events.append("fsync") or fsync(file))
    monkeypatch.setattr(os, "replace", lambda *paths: events.append("replace") or move(*paths))
    model.save(path)
    assert events == ["fsync", "replace"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of files")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_the_permissions_of_a_file_that_is_replaced_stay(path, model, monkeypatch, mode):
    part_modes, savez = [], np.savez

    def written(file, **arrays):
        part_modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        savez(file, **arrays)

    monkeypatch.setattr(np, "savez", written)
    checkpointed = GaussianMixture(2, checkpoint=path, random_state=0)
    for write in (model.save, MomentSketch(3).update(X).save, lambda _: checkpointed.fit(X)):
        path.chmod(mode)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    # Nobody else can read what replaces a file while it is written.
    assert set(part_modes) == {0o600}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_devices_and_pipes_are_neither_read_nor_replaced(tmp_path, model):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        model.save(tmp_path / "pipe")
    for endless in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(ValueError, match="not a Gaussian mixture of apolar: it is a device or a pipe"):
            GaussianMixture.load(endless)
        with pytest.raises(ValueError, match="not a moment sketch: it is a device or a pipe"):
            MomentSketch.load(endless)
        with pytest.raises(ValueError, match="a device or a pipe"):
            GaussianMixture(2, warm_start=str(endless)).fit(X)


def test_folders_and_missing_files(tmp_path, model):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        model.save(tmp_path / "missing" / "a.model")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        model.save(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        GaussianMixture.load(tmp_path / "missing.model")
    with pytest.raises((IsADirectoryError, PermissionError)):
        GaussianMixture.load(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_every_damaged_byte_is_noticed_or_harmless(path, model):
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            loaded = GaussianMixture.load(path)
        except ValueError:
            refused += 1
        else:
            np.testing.assert_array_equal(loaded.covariances_, model.covariances_)
            np.testing.assert_array_equal(loaded.means_, model.means_)
            assert loaded.get_params() == model.get_params()
    assert refused > 10


def test_a_wrong_checksum_is_refused(path):
    other = path.with_suffix(".npz")
    with np.load(path) as file:
        arrays = dict(file)
    # Another number, the same bytes as another type, and no checksum.
    changed = [
        arrays | {"means_": means} for means in (arrays["means_"] + 1, arrays["means_"].view(np.int64))
    ]
    changed.append({name: values for name, values in arrays.items() if name != "checksum"})
    for wrong in changed:
        np.savez(other, **wrong)
        with pytest.raises(ValueError, match="checksum does not match"):
            GaussianMixture.load(other)


class Trap:
    """Leaves a trace if it is ever unpickled."""

    sprung = False

    @staticmethod
    def spring():
        Trap.sprung = True

    def __reduce__(self):
        return Trap.spring, ()


def test_pickles_are_never_opened(path):
    trap = np.array([Trap()], dtype=object)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path.with_suffix(".npz"), **arrays | {"means_": trap})
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        GaussianMixture.load(path.with_suffix(".npz"))
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="not a zip file"):
        GaussianMixture.load(path)
    with pytest.raises(ValueError, match="cannot be stored"):
        save_arrays(path, "format", 1, {"a": trap})
    assert not Trap.sprung


def test_other_files_are_refused(path):
    apolar.MomentSketch(3).update(X).save(path)
    with pytest.raises(ValueError, match="it says that it is 'apolar moment sketch'. Pass another"):
        GaussianMixture.load(path)
    np.savez(path.with_suffix(".npz"), a=X)
    with pytest.raises(ValueError, match="has no name of a format"):
        GaussianMixture.load(path.with_suffix(".npz"))
    newer = model_files.MODEL_VERSION + 1
    save_arrays(path, model_files.MODEL_FORMAT, newer, {})
    with pytest.raises(ValueError, match=f"version {newer}; .* release that wrote it"):
        GaussianMixture.load(path)
    store_arrays(path, {"parameters": np.array("{}")})
    with pytest.raises(ValueError, match="it has no apolar, .*weights_"):
        GaussianMixture.load(path)


def npy(shape, data=b"", descr="<f8"):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def test_files_that_would_fill_the_memory_are_refused(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("means_.npy", npy((2**17,), bytes(2**20)))
    with pytest.raises(ValueError, match="compressed"):
        GaussianMixture.load(path)
    for shape in [(2**40,), (2**40, 2**40), (-1,)]:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("means_.npy", npy(shape))
        with pytest.raises(ValueError, match="is damaged"):
            GaussianMixture.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("means_.npy", npy((1,), bytes(8)))
        archive.filelist[0].file_size = 2**33
    with pytest.raises(ValueError, match="larger than the file"):
        GaussianMixture.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights_": [0.5, 0.3, 0.2]}, "weights_ must be float64 of shape"),
        ({"weights_": [1.5, -0.5]}, "must not be negative"),
        ({"weights_": [0.5, 0.6]}, "add up to one"),
        ({"means_": np.full((2, 3), np.inf)}, "infinity"),
        ({"means_": [[0.0, 0, 0], [1e308, 0, 0]]}, "means_ are too large: their squares overflow"),
        ({"weights_": [0.0, 0.0], "noise_origin": np.zeros(3), "noise_edges": np.ones(3)}, "weights_"),
        ({"noise_origin": np.zeros(3)}, "only noise_origin"),
        ({"covariances_": np.ones((2, 3, 3)) - 0.1 * np.eye(3)}, "positive definite"),
        ({"covariances_": np.stack([np.eye(3) + np.eye(3, k=1) / 2] * 2)}, "symmetric"),
        ({"covariances_": 1e-310 * np.stack([np.eye(3)] * 2)}, "overflow"),
        # Covariances of so many columns would be 8 TB: the shape is refused before.
        ({"n_features_in_": 10**6, "means_": np.zeros((2, 10**6))}, "covariances_ must be float64"),
        ({"n_features_in_": -1}, "at least 1"),
        ({"n_samples_seen_": 0.0}, "above zero"),
        ({"converged_": 1}, "converged_ must be a single bool"),
        ({"lower_bound_": np.inf}, "must be finite"),
        ({"rounding_variances_": np.array([0.0, -1, 0])}, "must not be negative"),
        ({"start_notes_": [1, 2]}, "list of strings"),
        ({"shrinkage_": [1.0, 2.0]}, "shrinkage_"),
        ({"shrinkage_": [1.0, 1.5, 0.0]}, "shrinkage_"),
        ({"feature_names_in_": ["a", "b"]}, "must be 3 names"),
        ({"parameters": "{"}, "Expecting"),
        ({"parameters": '{"tol": NaN}'}, "contain NaN"),
        ({"parameters": '{"means_init": ' + "[" * 50_000}, "recursion depth"),
    ],
)
def test_files_that_hold_no_mixture_are_refused(path, changes, message):
    rewrite_arrays(path, **changes)
    with pytest.raises(ValueError, match=f"is not a valid mixture: .*{message}.* Save the model again"):
        GaussianMixture.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"__class__": "os.system"}, "no parameter '__class__'"),
        ({"n_components": 3}, "weights_ must be float64"),
        ({"n_components": 10**400}, "weights_"),
        ({"covariance_type": "other"}, "covariance_type must be one of"),
        ({"init_params": [[1], 2]}, "inhomogeneous"),
        ({"tol": -1}, "tol"),
        ({"prior": {"Prior": {"shrinkage": -1}}}, "above zero"),
        ({"prior": {"os.system": {}}}, "unknown type"),
        ({"checkpoint": "x"}, "checkpoint must be one that files can hold"),
    ],
)
def test_parameters_that_no_model_has_are_refused(path, changes, message):
    rewrite_parameters(path, **changes)
    with pytest.raises(ValueError, match=f"is not a valid mixture: .*{message}"):
        GaussianMixture.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_features": 4}, "first must be float64"),
        ({"n_rows": 0}, "do not fit together"),
        ({"third": np.zeros(3)}, "third must be float64"),
        ({"second": np.full((3, 3), np.nan)}, "NaN"),
        ({"frame": np.ones((3, 2)), "third": np.zeros(4)}, "orthonormal"),
    ],
)
def test_files_that_hold_no_sketch_are_refused(path, changes, message):
    apolar.MomentSketch(3).update(X).save(path)
    arrays = load_arrays(path, "apolar moment sketch", 3, "a sketch")
    save_arrays(path, "apolar moment sketch", 3, arrays | {k: np.asarray(v) for k, v in changes.items()})
    with pytest.raises(ValueError, match=f"not a valid moment sketch: .*{message}.* Make the sketch again"):
        apolar.MomentSketch.load(path)
