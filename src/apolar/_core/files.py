"""Files of arrays: written atomically, and read without running any code from them."""

import hashlib
import math
import os
import stat
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from apolar._core.arrays import Array

Scalar = TypeVar("Scalar", bool, int, float, str)

# Entries that describe the file itself: their names are reserved.
_LABELS = ("format", "version", "checksum")

# The dtype kinds that a file may contain: booleans, integers, real numbers and strings.
_KINDS = "biufU"

_SCALAR_KINDS: dict[type, str] = {bool: "b", int: "iu", float: "f", str: "U"}


def save_arrays(
    path: str | os.PathLike[str], format: str, version: int, arrays: Mapping[str, np.ndarray]
) -> None:
    """Write arrays to a file, with a format, a version and a checksum.

    The write is atomic: if anything fails, no file appears, and an existing file stays as it was.

    Parameters
    ----------
    path : str or path
    format : str
        The name of the file format.
    version : int
        The version of the format.
    arrays : dict of str to ndarray
        Numbers, booleans or strings.
    """
    target = Path(path)
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS or name in _LABELS:
            raise ValueError(f"An array {name!r} of {array.dtype} cannot be stored in a file of arrays.")
    content = {**arrays, "format": np.array(format), "version": np.array(version)}
    content["checksum"] = np.frombuffer(_checksum(content), dtype=np.uint8)
    with atomic_file(target) as file:
        # Nothing is pickled, as the dtypes are checked above; older NumPy has no savez(allow_pickle=False).
        np.savez(file, **content)  # type: ignore[arg-type]  # a name may be allow_pickle


def real_path(path: Path) -> Path:
    """Return the file that a path leads to: a symbolic link stays, and what it points to is replaced."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(f"{path} is a symbolic link that leads to itself: give another path.")
    return target


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to, in a folder that exists; refuse folders, devices and pipes."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.parent} to save {target.name} to: make it first."
        )
    target = real_path(target)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the path of a file in it.")
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is not a regular file, and would be lost: give another path.")
    return target


def new_part(target: Path) -> Path:
    """Create an empty temporary file next to a target, and return its path.

    Its name has a fixed length: that of the target may be as long as the file system allows. If it
    replaces a file, which may be private, only its owner can read it until it does.
    """
    part = target.with_name(f".apolar-{uuid.uuid4().hex}.part")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if target.exists() else 0o666))
    return part


def replace_by_part(part: Path, target: Path) -> None:
    """Rename a temporary file to its target; the permissions of a file that it replaces stay."""
    with suppress(OSError):  # there is no such file, or its file system has no permissions
        part.chmod(stat.S_IMODE(target.stat().st_mode))
    os.replace(part, target)


def flush_to_disk(file: IO[Any]) -> None:
    """Wait until a file is on the disk: after it is renamed, a power failure must not lose its content."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces the target at the end, or not at all if anything fails.

    The permissions of a file that is replaced stay.
    """
    target = check_target(path)
    part = new_part(target)
    try:
        with open(part, "wb") as file:
            yield file
            flush_to_disk(file)
        replace_by_part(part, target)
    finally:
        part.unlink(missing_ok=True)


def load_arrays(
    path: str | os.PathLike[str],
    format: str,
    version: int | tuple[int, ...],
    what: str,
    names: Iterable[str] = (),
) -> dict[str, Array]:
    """Read the arrays of a file that `save_arrays` wrote.

    Parameters
    ----------
    path : str or path
    format : str
        The expected file format.
    version : int or tuple of int
        The version of the format that is expected, or those that can be read.
    what : str
        A description of such a file for messages, with an article.
    names : iterable of str, optional
        The names of required arrays.

    Returns
    -------
    arrays : dict of str to ndarray

    Raises
    ------
    ValueError
        If the file has another format or version, or is incomplete or damaged.
    OSError
        If the file does not exist or cannot be read.
    """
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a folder raises an error by itself
        # To read it might never end, and to open a pipe that nobody writes to would block.
        raise ValueError(f"{path} is not {what}: it is a device or a pipe. Pass the path of a file.")
    with open(path, "rb") as file:
        try:
            arrays = _members(file)
        except Exception as error:  # damaged bytes make zipfile and NumPy raise almost anything
            reason = " ".join((str(error) or type(error).__name__).split())[:200].rstrip(".")
            raise ValueError(
                f"{path} is not {what}, or is damaged: {reason}. Make the file again, or take a copy."
            ) from error
    stored_checksum = arrays.pop("checksum", np.zeros(0, dtype=np.uint8)).tobytes()
    try:
        stored_format = stored_value(arrays, "format", str)
        stored_version = stored_value(arrays, "version", int)
    except ValueError as error:
        raise ValueError(f"{path} is not {what}: it has no name of a format. Pass another file.") from error
    if stored_format != format:
        raise ValueError(
            f"{path} is not {what}: it says that it is {stored_format[:60]!r}. Pass another file."
        )
    versions = (version,) if isinstance(version, int) else version
    if stored_version not in versions:
        raise ValueError(
            f"{path} has version {stored_version}; this library reads {' and '.join(map(str, versions))}. "
            "Load it with the release that wrote it."
        )
    if stored_checksum != _checksum(arrays):
        raise ValueError(
            f"{path} is damaged: its checksum does not match. Make the file again, or take a copy."
        )
    missing = sorted(set(names) - set(arrays))
    if missing:
        raise ValueError(f"{path} is not {what}: it has no {', '.join(missing)}. Make the file again.")
    return {name: array for name, array in arrays.items() if name not in _LABELS}


def stored_value(
    arrays: Mapping[str, Array], name: str, kind: type[Scalar], *, may_be_nan: bool = False
) -> Scalar:
    """Return a scalar of a file as a bool, an int, a finite float or a str.

    With `may_be_nan`, a float may also be NaN, which stands for a value that was not computed.
    """
    array = arrays.get(name)
    if array is None or array.shape != () or array.dtype.kind not in _SCALAR_KINDS[kind]:
        raise ValueError(f"{name} must be a single {kind.__name__}.")
    value = array.item()
    if kind is float and not (math.isfinite(value) or (may_be_nan and math.isnan(value))):
        raise ValueError(f"{name} must be finite, not {value}.")
    return kind(value)


def stored_numbers(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """Return an array of a file, after checking that it is float64, of the given shape, and finite."""
    array = arrays[name]
    if array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"{name} must be float64 of shape {shape}; it is {array.dtype} of {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} contains NaN or infinity.")
    return array


def stored_strings(arrays: Mapping[str, Array], name: str) -> list[str]:
    """Return a list of strings of a file."""
    array = arrays[name]
    if array.dtype.kind != "U" or array.ndim != 1:
        raise ValueError(f"{name} must be a list of strings.")
    return [str(string) for string in array.tolist()]


def _members(file: IO[bytes]) -> dict[str, Array]:
    """Return the arrays of an .npz file; refuse those that could run code or exhaust the memory."""
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
    # Without compression, the arrays cannot be larger than the file.
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
        raise ValueError("it is compressed, which files of this library are not")
    if sum(info.file_size for info in infos) > os.fstat(file.fileno()).st_size:
        raise ValueError("its parts claim to be larger than the file")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    if len(arrays) != len(infos):
        raise ValueError("it holds several arrays of one name")
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise ValueError(f"{name} holds {array.dtype}, which this library does not write")
    return arrays


def _checksum(arrays: Mapping[str, Any]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
