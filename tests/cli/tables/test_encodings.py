"""Encodings, and strings that stand for missing values."""

import numpy as np
import pytest

from apolar.cli.tables import text as text_module

TEXT = "größe,b\n1,2\n3,4\n"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_marks_say_the_encoding(read, encoding):
    table = read(TEXT.encode(encoding))
    assert table.names == ("größe", "b")
    assert table.X.tolist() == [[1, 2], [3, 4]]


def test_big_endian(read):
    assert read(b"\xfe\xff" + TEXT.encode("utf-16-be")).names == ("größe", "b")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-le", "utf-8"])
def test_a_given_encoding(read, encoding):
    assert read(TEXT.encode(encoding), encoding=encoding).names == ("größe", "b")


def test_blocks_do_not_matter(read, monkeypatch):
    rows = "".join(f"{i},{i / 7}\n" for i in range(500))
    data = f"größe,b\n{rows}".encode("utf-16")
    whole = read(data)
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 37)  # in the middle of a character
    np.testing.assert_array_equal(read(data).X, whole.X)


def test_wrong_encodings(refusal):
    assert refusal(TEXT.encode("latin-1")) == (
        "data.csv, line 1: byte 0xf6 at offset 2 is not UTF-8 text. Specify the encoding, such "
        "as --encoding latin-1."
    )
    assert refusal(TEXT, encoding="klingon") == (
        "Unknown encoding 'klingon': give one such as --encoding latin-1."
    )
    assert "Unknown encoding 'rot13'" in refusal(TEXT, encoding="rot13")
    assert refusal(TEXT, encoding="ascii") == (
        "data.csv, line 1: byte 0xc3 at offset 2 is not ascii text. Choose another encoding, or omit "
        "--encoding for UTF-8."
    )
    assert "--encoding utf-16-le" in refusal(TEXT.encode("utf-16-le"))


def test_further_missing_values(read, refusal):
    text = "a,b,c\n1,unknown,-999\n-999,2,3\n4,5,6\n"
    table = read(text, na_values=["unknown", "-999"], keep_missing=True)
    np.testing.assert_array_equal(table.X, [[1, np.nan, np.nan], [np.nan, 2, 3], [4, 5, 6]])
    assert table.n_missing.tolist() == [1, 1, 1]
    quoted = read('a,b\n"1",2\n"not asked",3\n4,5\n', na_values=["not asked"], keep_missing=True)
    np.testing.assert_array_equal(quoted.X[:, 0], [1, np.nan, 4])
    # The strings are taken as they are, and a longer one is another.
    assert "'unknowns' is not a number" in refusal(
        "a,b\n" + "1,2\n" * 10 + "1,unknowns\n", na_values=["unknown"], keep_missing=True
    )


def test_missing_numbers_of_other_formats(read):
    np.save("x.npy", [[1.0, -999.0], [2.0, 3.0]])
    with open("x.npy", "rb") as file:
        table = read(file.read(), "y.npy", na_values=["-999"], keep_missing=True)
    np.testing.assert_array_equal(table.X, [[1, np.nan], [2, 3]])
