"""Tables in .npy files."""

import io
import pickle

import numpy as np
import pytest

from apolar.cli.tables import TableError, read_table

X = np.random.default_rng(0).standard_normal((500, 3))


def saved(array, **options):
    np.save("a.npy", array, **options)
    return "a.npy"


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.uint64, ">f8", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("limit", [0, 2**29])
def test_real_numbers_of_every_kind(temporary, dtype, order, limit):
    array = np.asarray(np.abs(X) * 10, dtype=dtype, order=order)
    with read_table(saved(array), in_memory_bytes=limit) as table:
        np.testing.assert_array_equal(table.X, array.astype(np.float64))
        assert table.X.dtype == np.float64
        assert isinstance(table.X, np.memmap) == (limit == 0)
        assert not table.X.flags.writeable
        assert table.names == ("x1", "x2", "x3")
    assert list(temporary.iterdir()) == []


def test_a_large_file_is_used_as_it_is(temporary, folder):
    with read_table(saved(X), in_memory_bytes=0) as table:
        assert table.X.filename == str(folder / "a.npy")
        assert list(temporary.iterdir()) == []
    assert (folder / "a.npy").exists()
    np.testing.assert_array_equal(read_table(saved(X[:, 0]), in_memory_bytes=0).X, X[:, :1])
    saved(X)
    # Unless a part is asked for, or it is a copy of a stream.
    for source, columns in (("a.npy", [1]), (io.BytesIO((folder / "a.npy").read_bytes()), None)):
        with read_table(source, in_memory_bytes=0, columns=columns) as table:
            assert len(list(temporary.iterdir())) == 1


def test_one_dimension_is_one_column():
    assert read_table(saved(np.arange(5))).X.tolist() == [[0], [1], [2], [3], [4]]


def test_columns_labels_and_missing_numbers():
    array = X.copy()
    array[:, 2] = np.arange(len(X)) // 250
    array[3, 0] = np.nan
    table = read_table(
        saved(array), columns=["x2", "1"], label_column="x3", drop_missing=True, in_memory_bytes=0
    )
    keep = np.arange(len(X)) != 3
    np.testing.assert_array_equal(table.X, array[keep][:, [1, 0]])
    assert tuple(dict.fromkeys(table.labels)) == ("0", "1")
    np.testing.assert_array_equal(table.row_numbers, np.flatnonzero(keep))
    table.close()
    with pytest.raises(TableError) as caught:
        read_table("a.npy", in_memory_bytes=0)
    assert str(caught.value) == (
        "a.npy: 1 row has missing values, in column 'x1'; see row 4. "
        "Fill them in, or leave those rows out with --drop-missing."
    )
    array[4, 1] = np.inf
    with pytest.raises(TableError, match="^a.npy, row 5, column 'x2': the number is infinite or too large"):
        read_table(saved(array), drop_missing=True)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.zeros((2, 2, 2)),
            "an array of shape (2, 2, 2), not a table of rows and columns. "
            "Save it again with two dimensions.",
        ),
        (
            np.zeros(()),
            "an array of shape (), not a table of rows and columns. Save it again with two dimensions.",
        ),
        (np.zeros((3, 2), complex), "complex128, not real numbers. Save it again as an array of float64."),
        (np.zeros((3, 2), bool), "bool, not real numbers. Save it again as an array of float64."),
        (np.array([["a"]]), "<U1, not real numbers. Save it again as an array of float64."),
    ],
)
def test_what_is_no_table(array, message):
    with pytest.raises(TableError) as caught:
        read_table(saved(array))
    assert str(caught.value) == f"a.npy holds {message}"


def test_nothing_is_unpickled(refusal):
    class Bomb:
        def __reduce__(self):
            return print, ("never",)

    array = np.array([[Bomb()]], dtype=object)
    with pytest.raises(TableError, match="Python objects"):
        read_table(saved(array, allow_pickle=True))
    assert refusal(pickle.dumps(array), "b.npy").startswith("b.npy is not a .npy file of numbers")


def test_damaged_files(refusal, folder):
    content = (folder / saved(X)).read_bytes()
    unknown = b"\x93NUMPY\x09" + content[7:]
    claims = [content.replace(b"(500, 3)", shape) for shape in (b"(-9, -3)", b"(-9,  3)", b"(9**9,3)")]
    for damaged in (*(content[:n_bytes] for n_bytes in (1, 6, 7, 8, 10, 50, -8)), unknown, *claims):
        assert refusal(damaged, "b.npy").startswith("b.npy is not a .npy file of numbers, or is truncated")
    assert (
        refusal((folder / saved(X[:0])).read_bytes(), "b.npy")
        == "b.npy has no rows: at least two are needed."
    )
    assert refusal((folder / saved(X[:1])).read_bytes(), "b.npy") == (
        "b.npy has only one row of numbers: at least two are needed."
    )
