"""Bad arguments to the functions of the extension raise: none reads or writes outside of an array."""

import numpy as np
import pytest

from apolar._core import compiled
from apolar._core.compiled import DIAGONAL, GIVEN, HARD, SOFT
from kernel_sums import needs_kernels

pytestmark = needs_kernels

N_ROWS, N_COLUMNS, N_COMPONENTS, N_PARTS, PART_ROWS = 20, 3, 2, 3, 8
N_STATS = 2 * N_COLUMNS + 1
REFUSED = (TypeError, ValueError, BufferError, OverflowError, MemoryError)


# --- sums over rows -----------------------------------------------------------------------------


# The statistics under given responsibilities are an E-step without densities.
FUNCTIONS = {"stats": "e_step"}


def arguments(name):
    """Return sound arguments of a function, by name."""
    rng = np.random.default_rng(0)
    given = {
        "values": rng.standard_normal((N_ROWS, N_COLUMNS)),
        "weights": rng.uniform(0, 1, N_ROWS),
        "centre": np.zeros(N_COLUMNS),
        "scale": np.ones(N_COLUMNS),
        "matrix": np.eye(N_COLUMNS),
    }
    tails = rng.uniform(1, 5, (N_COMPONENTS, 4))
    if name in ("e_step", "rows"):
        given |= {"natural": rng.standard_normal((N_COMPONENTS, N_STATS)), "kind": DIAGONAL}
    if name == "stats":
        given |= {"responsibilities": np.ones((N_COMPONENTS, N_ROWS)), "kind": DIAGONAL, "source": GIVEN}
        given |= {"is_linear": 0, "n_mixtures": 1, "tails": None}
    if name == "e_step":
        given |= {"source": SOFT, "is_linear": 0, "n_mixtures": 1, "tails": tails}
    if name == "rows":
        given |= {"tails": tails}
    given |= {"part_rows": PART_ROWS, "counter": np.zeros(1, np.int64)}
    stats = {"stats": np.zeros((N_PARTS, N_COMPONENTS, N_STATS))}
    outputs = {
        "e_step": stats
        | {"log_likelihood": np.zeros((N_PARTS, 1)), "tail_sums": np.zeros((N_PARTS, 2, N_COMPONENTS))},
        "stats": stats,
        "rows": {
            "logits": None,
            "responsibilities": np.zeros((N_ROWS, N_COMPONENTS)),
            "labels": np.zeros(N_ROWS, np.int64),
            "density": np.zeros(N_ROWS),
            "sums": np.zeros((N_PARTS, 3)),
        },
        "third": {"sums": np.zeros((N_PARTS, N_COLUMNS + 10))},
    }
    return given | outputs[name]


def called(name, **changed):
    given = arguments(name) | changed
    getattr(compiled.kernels, FUNCTIONS.get(name, name))(*given.values())
    return given


SUMS = ("e_step", "stats", "rows", "third")
ARRAYS = [(name, key) for name in SUMS for key, value in arguments(name).items() if np.ndim(value)]
OUTPUTS = [
    *[("e_step", key) for key in ("stats", "log_likelihood", "tail_sums", "counter")],
    ("stats", "stats"),
    *[("rows", key) for key in ("responsibilities", "labels", "density", "sums", "counter")],
    ("third", "sums"),
]
each_array = pytest.mark.parametrize(("name", "key"), ARRAYS)


@each_array
def test_arrays_of_another_dtype_or_shape_are_refused(name, key):
    array = arguments(name)[key]
    others = [np.zeros(array.shape, dtype) for dtype in (bool, np.int32, np.float16, np.longdouble, complex)]
    others += [np.zeros(array.shape, dtype) for dtype in (">f8", "S8", object, "f8,f8")]
    others += [array[None], array[0], array.ravel()[:1].reshape(()), array.reshape((*array.shape, 1, 1))]
    for axis in range(array.ndim):
        for length in (0, array.shape[axis] + 1, array.shape[axis] - 1):
            shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
            others.append(np.ones(shape, array.dtype))
    # None stands for what is not given.
    is_last_of_rows = name == "rows" and key in list(arguments(name))[-5:]
    is_optional = is_last_of_rows or key in {"weights", "matrix", "tails"}
    for other in [*others, *([] if is_optional else [None]), 0, "text", b"bytes", [1.0], {}]:
        with pytest.raises(REFUSED):
            called(name, **{key: other})
    if is_optional:
        called(name, **{key: None})


@pytest.mark.parametrize(("name", "key"), OUTPUTS)
def test_what_is_written_to_is_contiguous_and_writeable(name, key):
    array = arguments(name)[key]
    read_only = array.copy()
    read_only.flags.writeable = False
    strided = np.repeat(array[..., None], 2, axis=-1)[..., 0] if array.size > 1 else read_only
    for refused in (read_only, strided):
        with pytest.raises(REFUSED):
            called(name, **{key: refused})
        assert not refused.any()


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        *[(name, {"kind": kind}, ".") for name in SUMS[:3] for kind in (-1, 3, 2**31)],
        *[("e_step", {"n_mixtures": number}, "natural must have") for number in (-1, 0, 3)],
        ("e_step", {"n_mixtures": 2**31 - 1}, "too large"),
        ("e_step", {"source": HARD, "n_mixtures": 2}, "one mixture"),
        ("third", {"values": np.zeros((1, 1)), "weights": None, "centre": np.zeros(1), "scale": np.ones(1),
                   "matrix": np.zeros((1, 3_100_000))}, "outputs"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(name, changed, message):
    with pytest.raises(REFUSED, match=message):
        called(name, **changed)


# --- small matrices -----------------------------------------------------------------------------

# The numbers of arrays, and of what follows them, after the code of a family if there is one.
STEPS = {
    "inverses": (3, (), 1),
    "natural": (4, (), 2),
    "merging_terms": (2, (), 2),
    "left_out": (5, (), 2),
    "gradient": (8, (), 4),
    "joint_rotation": (2, (), 3),
    "merge_costs": (9, (), 1),
    "merge_tree": (4, (), 2),
    "family_m_step": (8, ("VEE",), 5),
    "plain_run": (11, ("EVI",), 9),
}
each_step = pytest.mark.parametrize("name", STEPS)


def outcome(name, arrays, numbers):
    """Return the result of a call, or None if it was refused."""
    try:
        return getattr(compiled.kernels, name)(*arrays, *STEPS[name][1], *numbers)
    except REFUSED:
        return None


@each_step
def test_random_sizes_are_refused_or_fit(name):
    rng = np.random.default_rng(0)
    n_arrays, _, n_numbers = STEPS[name]
    for _ in range(300):
        m, n = rng.integers(1, 4), rng.integers(0, 4)
        n_stats = 1 + m + m * (m + 1) // 2
        of_stats = [n * n_stats, n * (2 * m + 1), 32 * n_stats]
        lengths = [n, n * m, n * m * m, m * m, n * n, 32, 32 * n, 0, m, *of_stats]
        arrays = [rng.uniform(0, 1, rng.choice(lengths)) for _ in range(n_arrays)]
        numbers = [int(m), *rng.integers(-1, 4, n_numbers).tolist()][:n_numbers]
        assert outcome(name, arrays, numbers) in (None, True, False, 2)


@pytest.mark.parametrize("size", [2**15, 2**17, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**64, -1, 0])
@each_step
def test_sizes_that_do_not_fit_are_refused(name, size):
    n_arrays, _, n_numbers = STEPS[name]
    for length in (0, 1, 32):
        arrays = [np.ones(length) for _ in range(n_arrays)]
        for position in range(n_numbers):
            # Some are numbers of steps, or tolerances: those may be any.
            numbers = [size if place == position else 1 for place in range(n_numbers)]
            assert outcome(name, arrays, numbers) in (None, True, False, 2)
        # No array has so many numbers, or fewer than one; where there are none, no such size does harm.
        if length:
            assert outcome(name, arrays, [size] * n_numbers) is None


@each_step
def test_what_is_no_contiguous_array_of_doubles_is_refused(name):
    n_arrays, code, n_numbers = STEPS[name]
    function, rest = getattr(compiled.kernels, name), [*code, *[1] * n_numbers]
    for position in range(n_arrays):
        for dtype in (np.float32, bool, np.int16, complex, ">f8", object, "S8"):
            arrays = [np.ones(32) for _ in range(n_arrays)]
            arrays[position] = np.ones(64, dtype)
            with pytest.raises(TypeError, match=f"Argument {position + 1} must be an array of float64"):
                function(*arrays, *rest)
    read_only = np.ones(32)
    read_only.flags.writeable = False
    for array in (None, 1.0, "text", [1.0], np.ones(64)[::2], read_only):
        with pytest.raises(REFUSED):
            function(*[array] * n_arrays, *rest)
    sound = [*[np.ones(1)] * n_arrays, *rest]
    for wrong in ([], sound[:-1], [*sound, 1]):
        with pytest.raises(TypeError, match="argument"):
            function(*wrong)
