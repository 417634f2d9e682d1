"""Files of arrays that cannot run code: written completely or not at all, checked when they are read."""

import hashlib
import math
import os
import platform
import re
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

# The entries that say what a file is; no array of its content may have these names.
_LABELS = ("format", "version", "checksum")

# The kinds of array that a file may hold: booleans, integers, real numbers and strings.
_KINDS = "biufU"

_SCALAR_KINDS: dict[type, str] = {bool: "b", int: "iu", float: "f", str: "U"}


def save_arrays(
    path: str | os.PathLike[str], format: str, version: int, arrays: Mapping[str, np.ndarray]
) -> None:
    """Write arrays to a file, with a format, a version and a checksum.

    The file appears complete or not at all; a file that was there before is kept
    if anything fails.

    Parameters
    ----------
    path : str or path
    format : str
        What kind of file it is.
    version : int
        Of the format.
    arrays : dict of str to ndarray
        Numbers, booleans or strings.
    """
    target = Path(path)
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS or name in _LABELS:
            raise ValueError(f"An array {name!r} of {array.dtype} cannot be stored in a file of arrays.")
    content = {**arrays, "format": np.array(format), "version": np.array(version)}
    content["checksum"] = np.frombuffer(_checksum(content), dtype=np.uint8)
    with whole_file(target) as file:
        # Nothing is pickled: the kinds have been checked, and not every NumPy has savez(allow_pickle=).
        np.savez(file, **content)  # type: ignore[arg-type]


def check_regular(path: Path) -> None:
    """Refuse a path at which there is something other than a file: a folder, a device, a pipe."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file in it.")
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no regular file, and would be lost: give another path.")


def check_finite(path: str | os.PathLike[str], what: str) -> None:
    """Refuse to read what may never end, or never begin: a device, a pipe, a socket.

    Checked before anything is opened: a pipe that nobody writes to would keep the caller waiting.
    """
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a folder raises an error by itself
        raise ValueError(f"{path} is not {what}: it is a device or a pipe. Pass the path of a file.")


def part_path(target: Path) -> Path:
    """Return a temporary name for a file that is being written, which tells the machine and the process.

    Its length does not depend on that of the target's name, which may be as long as a name can be.
    """
    return target.with_name(f"{_part_prefix(target)}{os.getpid()}-{uuid.uuid4().hex}.part")


def _part_prefix(target: Path) -> str:
    owner = hashlib.sha256(f"{platform.node()}\0{target.name}".encode(errors="surrogateescape")).hexdigest()
    return f".apolar-{owner[:16]}-"


def remove_stale_parts(target: Path) -> None:
    """Remove the parts of this file that writers on this machine left when they were killed."""
    if os.name != "posix":  # elsewhere os.kill would end the process
        return
    pattern = re.compile(re.escape(_part_prefix(target)) + r"(\d+)-[0-9a-f]{32}\.part")
    for name in os.listdir(target.parent):
        match = pattern.fullmatch(name)
        if match and not _is_running(int(match[1])):
            with suppress(OSError):
                target.with_name(name).unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def flushed_to_disk(file: IO[Any]) -> None:
    """Wait until a file is on the disk: once it is renamed, a power failure must not lose its content."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file to write that appears complete at the end, or not at all.

    Parts that earlier writers of the same file left when they were killed are removed.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to save to: make it first.")
    # The target of a link is written, and the link stays.
    target = target.resolve()
    check_regular(target)
    with suppress(OSError):  # a folder that may be written to but not listed
        remove_stale_parts(target)
    part = part_path(target)
    try:
        with open(part, "xb") as file:
            yield file
            flushed_to_disk(file)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def load_arrays(
    path: str | os.PathLike[str], format: str, version: int, what: str, names: Iterable[str] = ()
) -> dict[str, Array]:
    """Read the arrays of a file that `save_arrays` wrote.

    Parameters
    ----------
    path : str or path
    format : str
        What kind of file it must be.
    version : int
        Of the format.
    what : str
        What messages call such a file, with its article.
    names : iterable of str, optional
        The arrays that must be there.

    Returns
    -------
    arrays : dict of str to ndarray

    Raises
    ------
    ValueError
        If the file is of another kind or version, incomplete or damaged.
    OSError
        If there is no such file, or it may not be read.
    """
    check_finite(path, what)
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
        raise ValueError(f"{path} is not {what}: it does not say what it is. Pass another file.") from error
    if stored_format != format:
        raise ValueError(
            f"{path} is not {what}: it says that it is {stored_format[:60]!r}. Pass another file."
        )
    if stored_version != version:
        raise ValueError(
            f"{path} has version {stored_version}; this library reads {version}. "
            "Load it with the release that wrote it."
        )
    if stored_checksum != _checksum(arrays):
        raise ValueError(
            f"{path} is damaged: its checksum does not fit. Make the file again, or take a copy."
        )
    missing = sorted(set(names) - set(arrays))
    if missing:
        raise ValueError(f"{path} is not {what}: it has no {', '.join(missing)}. Make the file again.")
    return {name: array for name, array in arrays.items() if name not in _LABELS}


def stored_value(
    arrays: Mapping[str, Array], name: str, kind: type[Scalar], *, may_be_nan: bool = False
) -> Scalar:
    """Return a single value of a file as a bool, an int, a finite float or a str.

    With `may_be_nan`, a float may also be NaN, which says that it was not computed.
    """
    array = arrays.get(name)
    if array is None or array.shape != () or array.dtype.kind not in _SCALAR_KINDS[kind]:
        raise ValueError(f"{name} must be a single {kind.__name__}.")
    value = array.item()
    if kind is float and not (math.isfinite(value) or (may_be_nan and math.isnan(value))):
        raise ValueError(f"{name} must be finite, not {value}.")
    return kind(value)


def stored_numbers(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """Return an array of a file, after checking that it is of float64, of that shape, and finite."""
    array = arrays[name]
    if array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"{name} must be float64 of shape {shape}; it is {array.dtype} of {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} contains NaN or infinity.")
    return array


def _members(file: IO[bytes]) -> dict[str, Array]:
    """Return the arrays of an .npz file, checked only for what could run code or fill the memory."""
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        # Nothing is compressed: arrays that are larger than the file are refused.
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise ValueError("it is compressed, which files of this library are not")
        if sum(info.file_size for info in infos) > os.fstat(file.fileno()).st_size:
            raise ValueError("its parts claim to be larger than the file")
        arrays = {info.filename.removesuffix(".npy"): _array(archive, info) for info in infos}
        if len(arrays) != len(infos):
            raise ValueError("it holds several arrays of one name")
    return arrays


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError(f"{info.filename} is of an unknown version of .npy")
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        if dtype.kind not in _KINDS:
            raise ValueError(f"{info.filename} holds {dtype}, which this library does not write")
        # Checked before anything is allocated: a header can claim any shape.
        n_bytes = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or n_bytes != info.file_size - member.tell():
            raise ValueError(f"{info.filename} is not as long as its shape {shape} says")
        member.seek(0)
        array: Array = np.lib.format.read_array(member, allow_pickle=False)
        return array


def _checksum(arrays: Mapping[str, Any]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
