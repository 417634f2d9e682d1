"""Damaged, foreign and hostile files: nothing but a ValueError."""

import pickle
import zipfile

import numpy as np
import pytest

import apolar
from apolar import GaussianMixture
from apolar._core.files import save_arrays
from apolar.estimator import model_files
from apolar.estimator.model_files import load_model
from estimator.storage.models import X


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
    save_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION + 1, {})
    with pytest.raises(
        ValueError, match=f"version {model_files.MODEL_VERSION + 1}; .* release that wrote it"
    ):
        load_model(GaussianMixture, path)
    save_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION, {"parameters": np.array("{}")})
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
        with pytest.raises(ValueError, match="is damaged"):
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
