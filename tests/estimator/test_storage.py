"""Model files: exact round trips, and nothing but a ValueError from a bad one."""

import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import apolar
from apolar import GaussianMixture, MomentSketch, Prior
from apolar._core.files import load_arrays, part_path, save_arrays
from apolar.estimator import storage
from apolar.estimator.storage import load_model, save_model
from apolar.mixture.families import FAMILIES

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal((40, 3)) * [1, 2, 0.5] + shift for shift in (0, 3)])
NEW = RNG.standard_normal((200, 3)) * 3
KINDS = ("full", "tied", "diag", "spherical", "tied_diag", "tied_spherical")


def fit(kind="full", **parameters):
    parameters = {"init_params": "kmeans", "random_state": 0, "n_threads": 1} | parameters
    return GaussianMixture(2, covariance_type=kind, **parameters).fit(X)


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.fixture
def path(tmp_path, model):
    save_model(model, tmp_path / "a.model")
    return tmp_path / "a.model"


def same(one, two):
    """Whether two models are equal, types and all, and say the same of rows, bit for bit."""
    names = {name for name in vars(one) if name.endswith("_")}
    assert names == {name for name in vars(two) if name.endswith("_")} >= {"weights_", "message_"}
    for name in names:
        a, b = getattr(one, name), getattr(two, name)
        assert type(a) is type(b), name
        np.testing.assert_array_equal(a, b, err_msg=name)
        if isinstance(a, list):
            assert [type(value) for value in a] == [type(value) for value in b]
    for method in ("predict", "predict_proba", "score_samples"):
        assert getattr(one, method)(NEW).tobytes() == getattr(two, method)(NEW).tobytes()
    return True


def changed(path, **changes):
    """Rewrite a model file with some arrays changed, under a checksum that fits."""
    arrays = load_arrays(path, storage.FORMAT, storage.VERSION, "a model")
    for name, value in changes.items():
        arrays[name] = np.asarray(value)
    save_arrays(path, storage.FORMAT, storage.VERSION, arrays)


def changed_parameters(path, **changes):
    arrays = load_arrays(path, storage.FORMAT, storage.VERSION, "a model")
    changed(path, parameters=json.dumps(json.loads(str(arrays["parameters"])) | changes))


# --- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_is_exact(tmp_path, kind):
    saved = fit(kind)
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert same(saved, loaded)
    assert loaded.get_params() == saved.get_params()
    assert not hasattr(loaded, "feature_names_in_")
    assert os.listdir(tmp_path) == ["a.model"]
    save_model(loaded, tmp_path / "b.model")
    assert same(saved, load_model(GaussianMixture, str(tmp_path / "b.model")))


def test_the_kinds_are_all_there_are():
    assert {FAMILIES[name].name for name in FAMILIES} == set(KINDS)


def test_every_parameter_is_checked():
    assert set(storage._CHECKS) == set(GaussianMixture().get_params())


def test_names_of_columns_come_back(tmp_path):
    frame = pd.DataFrame(X, columns=["größe", "b", "c"])
    saved = GaussianMixture(2, init_params="kmeans", random_state=0, n_threads=1).fit(frame)
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert loaded.feature_names_in_.dtype == object
    np.testing.assert_array_equal(loaded.feature_names_in_, saved.feature_names_in_)
    np.testing.assert_array_equal(loaded.predict(frame), saved.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"b": "d"}))


def test_parameters_come_back(tmp_path):
    labels = np.repeat([0, 1], 40)
    saved = fit(
        "VVI",
        init_params=labels,
        prior=Prior(shrinkage=np.float32(0.5), scale=0.1),
        tol=np.float64(1e-4),
        max_iter=np.int64(50),
        warm_start=True,
        verbose=False,
    ).set_params(weights_init=np.array([0.1, 0.9]))
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert same(saved, loaded)
    assert loaded.init_params == labels.tolist()
    assert loaded.prior == saved.prior
    assert (loaded.tol, loaded.max_iter, loaded.weights_init) == (1e-4, 50, [0.1, 0.9])
    assert loaded.set_params(weights_init=None, warm_start=False).fit(X).converged_


def test_what_a_file_cannot_hold_is_left_out(tmp_path):
    saved = fit(init_params=lambda X, r, rng: np.arange(len(X)) % r, random_state=np.random.default_rng(0))
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert same(saved, loaded)
    assert (loaded.init_params, loaded.random_state) == ("auto", None)


def test_a_stream_goes_on_after_loading(tmp_path):
    saved = GaussianMixture(2, random_state=0, n_threads=1).partial_fit(X)
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert same(saved, loaded)
    assert loaded.partial_fit(X).n_samples_seen_ == 2 * len(X)


# --- models that cannot be saved, and places that cannot be written ---------------------------------


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(GaussianMixture(2), tmp_path / "a.model")
    half = GaussianMixture(2)
    half.n_features_in_ = 3
    with pytest.raises(NotFittedError):
        save_model(half, tmp_path / "a.model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 3}, r"weights_ must be float64 of shape \(3,\)"),
        ({"covariance_type": "tied"}, "covariances_ must be float64 of shape"),
        ({"init_params": np.array([object()])}, "init_params cannot be written as text"),
        ({"means_init": [[np.nan] * 3] * 2}, "means_init cannot be written as text"),
        ({"random_state": "seed"}, "random_state must be an integer"),
    ],
)
def test_a_model_that_could_not_be_read_is_not_saved(tmp_path, parameters, message):
    saved = fit().set_params(**parameters)
    with pytest.raises(ValueError, match=f"cannot be saved: .*{message}.* fit it again"):
        save_model(saved, tmp_path / "a.model")
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_no_file_and_keeps_the_old_one(path, monkeypatch):
    before = path.read_bytes()

    def fails(file, **_arrays):
        file.write(b"half")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", fails)
        with pytest.raises(OSError, match="disk full"):
            save_model(fit("diag"), path)
        with pytest.raises(OSError, match="disk full"):
            save_model(fit("diag"), path.with_name("new.model"))
    assert os.listdir(path.parent) == ["a.model"]
    assert path.read_bytes() == before


def test_a_file_is_on_the_disk_before_it_has_its_name(path, model, monkeypatch):
    events = []
    fsync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: events.append("fsync") or fsync(file))
    monkeypatch.setattr(os, "replace", lambda *paths: events.append("replace") or move(*paths))
    save_model(model, path)
    assert events == ["fsync", "replace"]


def test_an_interrupted_save_leaves_nothing(path, monkeypatch):
    def interrupted(file, **_arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(fit("diag"), path)
    assert os.listdir(path.parent) == ["a.model"]


@pytest.mark.skipif(os.name != "posix", reason="asks the system about processes")
def test_what_a_killed_writer_left_is_removed_by_the_next(path, model, monkeypatch):
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: killed.pid)
        stale = part_path(path)
        of_another_file = part_path(path.with_name("b.model"))
    at_work = part_path(path)
    for part in (stale, of_another_file, at_work):
        part.write_bytes(b"half")
    save_model(model, path)
    assert set(os.listdir(path.parent)) == {"a.model", of_another_file.name, at_work.name}
    assert same(model, load_model(GaussianMixture, path))


def test_names_as_long_as_they_can_be(tmp_path, model):
    save_model(model, tmp_path / ("a" * 255))
    assert os.listdir(tmp_path) == ["a" * 255]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_devices_and_pipes_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for endless in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(ValueError, match="not a Gaussian mixture of apolar: it is a device or a pipe"):
            GaussianMixture.load(endless)
        with pytest.raises(ValueError, match="not a moment sketch: it is a device or a pipe"):
            MomentSketch.load(endless)
        with pytest.raises(ValueError, match="a device or a pipe"):
            GaussianMixture(2, warm_start=str(endless)).fit(X)


def test_folders_and_missing_files(tmp_path, model):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        save_model(model, tmp_path / "missing" / "a.model")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        save_model(model, tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        load_model(GaussianMixture, tmp_path / "missing.model")
    with pytest.raises((IsADirectoryError, PermissionError)):
        load_model(GaussianMixture, tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


# --- damaged files ------------------------------------------------------------------------------


def test_every_damaged_byte_is_noticed_or_harmless(path, model):
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            loaded = load_model(GaussianMixture, path)
        except ValueError:
            refused += 1
        else:
            np.testing.assert_array_equal(loaded.covariances_, model.covariances_)
            np.testing.assert_array_equal(loaded.means_, model.means_)
            assert loaded.get_params() == model.get_params()
    assert refused > 10


def test_a_truncated_file_is_refused(path):
    whole = path.read_bytes()
    for length in (0, 1, 30, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="or is damaged: .* Make the file again"):
            load_model(GaussianMixture, path)


def test_a_wrong_checksum_is_refused(path):
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path.with_suffix(".npz"), **arrays | {"means_": arrays["means_"] + 1})
    with pytest.raises(ValueError, match="checksum does not fit"):
        load_model(GaussianMixture, path.with_suffix(".npz"))
    # The same bytes as another type.
    np.savez(path.with_suffix(".npz"), **arrays | {"means_": arrays["means_"].view(np.int64)})
    with pytest.raises(ValueError, match="checksum does not fit"):
        load_model(GaussianMixture, path.with_suffix(".npz"))
    del arrays["checksum"]
    np.savez(path.with_suffix(".npz"), **arrays)
    with pytest.raises(ValueError, match="checksum does not fit"):
        load_model(GaussianMixture, path.with_suffix(".npz"))


# --- foreign and hostile files --------------------------------------------------------------------


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
    with pytest.raises(ValueError, match="holds object"):
        load_model(GaussianMixture, path.with_suffix(".npz"))
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="not a zip file"):
        load_model(GaussianMixture, path)
    with pytest.raises(ValueError, match="cannot be stored"):
        save_arrays(path, "format", 1, {"a": trap})
    assert not Trap.sprung


def test_other_files_are_refused(path):
    apolar.MomentSketch(3).update(X).save(path)
    with pytest.raises(ValueError, match="it says that it is 'apolar moment sketch'. Pass another"):
        load_model(GaussianMixture, path)
    np.savez(path.with_suffix(".npz"), a=X)
    with pytest.raises(ValueError, match="does not say what it is"):
        load_model(GaussianMixture, path.with_suffix(".npz"))
    save_arrays(path, storage.FORMAT, storage.VERSION + 1, {})
    with pytest.raises(ValueError, match=f"version {storage.VERSION + 1}; .* release that wrote it"):
        load_model(GaussianMixture, path)
    save_arrays(path, storage.FORMAT, storage.VERSION, {"parameters": np.array("{}")})
    with pytest.raises(ValueError, match="it has no apolar, .*weights_"):
        load_model(GaussianMixture, path)


def npy(shape, data=b"", descr="<f8"):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def test_files_that_would_fill_the_memory_are_refused(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("means_.npy", npy((2**17,), bytes(2**20)))
    with pytest.raises(ValueError, match="compressed"):
        load_model(GaussianMixture, path)
    for shape in [(2**40,), (2**40, 2**40), (-1,)]:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("means_.npy", npy(shape))
        with pytest.raises(ValueError, match="not as long as its shape"):
            load_model(GaussianMixture, path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("means_.npy", npy((1,), bytes(8)))
        archive.filelist[0].file_size = 2**33
    with pytest.raises(ValueError, match="larger than the file"):
        load_model(GaussianMixture, path)


def test_two_arrays_of_one_name_are_refused(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy((1,), bytes(8)))
        archive.writestr("a", npy((1,), bytes(8)))
    with pytest.raises(ValueError, match="of one name"):
        load_model(GaussianMixture, path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights_": [0.5, 0.3, 0.2]}, "weights_ must be float64 of shape"),
        ({"weights_": [1.5, -0.5]}, "must not be negative"),
        ({"weights_": [0.5, 0.6]}, "add up to one"),
        ({"weights_": [np.nan, 0.5]}, "NaN"),
        ({"weights_": ["a", "b"]}, "weights_ must be float64"),
        ({"means_": np.zeros((3, 2))}, r"means_ must be float64 of shape \(2, 3\)"),
        ({"means_": np.full((2, 3), np.inf)}, "infinity"),
        ({"covariances_": np.ones((2, 3))}, r"covariances_ must be float64 of shape \(2, 3, 3\)"),
        ({"covariances_": np.ones((2, 3, 3)) - 0.1 * np.eye(3)}, "positive definite"),
        ({"covariances_": -np.stack([np.eye(3)] * 2)}, "positive definite"),
        ({"covariances_": np.stack([np.eye(3) + np.eye(3, k=1) / 2] * 2)}, "symmetric"),
        ({"covariances_": 1e-310 * np.stack([np.eye(3)] * 2)}, "overflow"),
        ({"n_features_in_": 4}, "means_ must be float64"),
        # Covariances of so many columns would be 8 TB: the shape is refused before.
        ({"n_features_in_": 10**6, "means_": np.zeros((2, 10**6))}, "covariances_ must be float64"),
        ({"n_features_in_": -1}, "at least 1"),
        ({"n_iter_": -1}, "at least 0"),
        ({"n_samples_seen_": 0.0}, "above zero"),
        ({"n_iter_": 1.5}, "n_iter_ must be a single int"),
        ({"converged_": 1}, "converged_ must be a single bool"),
        ({"lower_bound_": np.inf}, "must be finite"),
        ({"lower_bounds_": np.zeros((2, 2))}, "lower_bounds_ must be float64"),
        ({"message_": ["a", "b"]}, "message_ must be a single str"),
        ({"start_notes_": [1, 2]}, "list of texts"),
        ({"feature_names_in_": ["a", "b"]}, "must be 3 names"),
        ({"parameters": 3}, "parameters must be a single str"),
        ({"parameters": "{"}, "Expecting"),
        ({"parameters": "[]"}, "no table"),
        ({"parameters": '{"tol": NaN}'}, "contain NaN"),
        ({"parameters": '{"means_init": ' + "[" * 50_000}, "recursion depth"),
    ],
)
def test_files_that_hold_no_mixture_are_refused(path, changes, message):
    changed(path, **changes)
    with pytest.raises(ValueError, match=f"holds no sound mixture: .*{message}.* Save the model again"):
        load_model(GaussianMixture, path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"__class__": "os.system"}, "no parameter '__class__'"),
        ({"n_components": 3}, "weights_ must be float64"),
        ({"n_components": "2"}, "an integer"),
        ({"n_components": 10**400}, "weights_"),
        ({"covariance_type": "other"}, "covariance_type must be one of"),
        ({"covariance_type": ["full"]}, "covariance_type must be one of"),
        ({"covariance_type": "diag"}, "covariances_ must be float64"),
        ({"init_params": "other"}, "init_params must be one of"),
        ({"init_params": [[1], 2]}, "inhomogeneous"),
        ({"init_params": [{"a": 1}]}, "numbers or texts"),
        ({"tol": -1}, "tol must be finite"),
        ({"tol": 10**400}, "too large"),
        ({"prior": "weak"}, "prior must be one of"),
        ({"prior": {"Prior": {"shrinkage": -1}}}, "above zero"),
        ({"prior": {"Prior": {"shrinkage": None}}}, "shrinkage must be a number"),
        ({"prior": {"Prior": {"power": 1}}}, "unexpected keyword"),
        ({"prior": {"os.system": {}}}, "no known kind"),
        ({"random_state": "seed"}, "an integer"),
        ({"warm_start": "yes"}, "warm_start must be one of"),
        ({"verbose": "yes"}, "verbose must be an integer"),
        ({"means_init": "zeros"}, "must hold numbers"),
        ({"n_threads": 0}, "at least 1"),
    ],
)
def test_parameters_that_no_model_has_are_refused(path, changes, message):
    changed_parameters(path, **changes)
    with pytest.raises(ValueError, match=f"holds no sound mixture: .*{message}"):
        load_model(GaussianMixture, path)


def test_a_parameter_that_is_not_named_has_its_default(path):
    arrays = load_arrays(path, storage.FORMAT, storage.VERSION, "a model")
    parameters = json.loads(str(arrays["parameters"]))
    del parameters["n_threads"], parameters["init_params"]
    changed(path, parameters=json.dumps(parameters))
    loaded = load_model(GaussianMixture, path)
    assert (loaded.n_threads, loaded.init_params) == (None, "auto")


# --- sketches: a sound checksum over sums that do not fit --------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_features": 0}, "at least 1"),
        ({"n_features": 4}, "first must be float64"),
        ({"n_features": "4"}, "single int"),
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
    with pytest.raises(ValueError, match=f"not a sound moment sketch: .*{message}.* Make the sketch again"):
        apolar.MomentSketch.load(path)
