"""Bad arguments to the functions on small matrices raise, and none reads or writes outside of an array."""

import numpy as np
import pytest

from apolar._core import compiled
from kernel_sums import needs_kernels

pytestmark = needs_kernels

# The numbers of arrays, and of what follows them, after the code of a family if there is one.
FUNCTIONS = {
    "inverses": (3, (), 1),
    "natural": (4, (), 2),
    "common_covariance": (3, (), 7),
    "gradient": (8, (), 4),
    "joint_rotation": (2, (), 3),
    "merge_costs": (9, (), 1),
    "merge_tree": (4, (), 2),
    "added_gains": (6, (), 4),
    "family_m_step": (8, ("VEE",), 5),
    "plain_run": (11, ("EVI",), 9),
}
REFUSED = (TypeError, ValueError, OverflowError, BufferError, MemoryError)
each_function = pytest.mark.parametrize("name", FUNCTIONS)


def outcome(name, arrays, numbers):
    """Return the result of a call, or None if it was refused."""
    try:
        return getattr(compiled.kernels, name)(*arrays, *FUNCTIONS[name][1], *numbers)
    except REFUSED:
        return None


@each_function
def test_random_sizes_are_refused_or_fit(name):
    rng = np.random.default_rng(0)
    n_arrays, _, n_numbers = FUNCTIONS[name]
    for _ in range(300):
        m, n = rng.integers(1, 4), rng.integers(0, 4)
        n_stats = 1 + m + m * (m + 1) // 2
        lengths = [
            n,
            n * m,
            n * m * m,
            m * m,
            n * n_stats,
            n * (2 * m + 1),
            n * n,
            32,
            32 * n_stats,
            32 * n,
            0,
            m,
        ]
        arrays = [rng.uniform(0, 1, rng.choice(lengths)) for _ in range(n_arrays)]
        numbers = [int(m), *rng.integers(-1, 4, n_numbers).tolist()][:n_numbers]
        assert outcome(name, arrays, numbers) in (None, True, False, 2)


@pytest.mark.parametrize("size", [2**15, 2**20, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**64, -1, 0])
@each_function
def test_sizes_that_do_not_fit_are_refused(name, size):
    n_arrays, _, n_numbers = FUNCTIONS[name]
    for length in (0, 1, 32):
        arrays = [np.ones(length) for _ in range(n_arrays)]
        for position in range(n_numbers):
            numbers = [1] * n_numbers
            numbers[position] = size
            # Some are numbers of steps, or tolerances: those may be any.
            assert outcome(name, arrays, numbers) in (None, True, False, 2)
        # No array has so many numbers, or fewer than one; where there are none, no such size does harm.
        if length:
            assert outcome(name, arrays, [size] * n_numbers) is None


@each_function
def test_what_is_no_contiguous_array_of_doubles_is_refused(name):
    n_arrays, code, n_numbers = FUNCTIONS[name]
    function, rest = getattr(compiled.kernels, name), [*code, *[1] * n_numbers]
    wrong = [np.ones(64, dtype) for dtype in (np.float32, bool, np.int16, complex, ">f8", object, "S8")]
    for position in range(n_arrays):
        for array in wrong:
            arrays = [np.ones(32) for _ in range(n_arrays)]
            arrays[position] = array
            with pytest.raises(REFUSED):
                function(*arrays, *rest)
    for array in (None, 1.0, "text", [1.0], np.ones(64)[::2]):
        with pytest.raises(REFUSED):
            function(*[array] * n_arrays, *rest)
    read_only = np.ones(32)
    read_only.flags.writeable = False
    with pytest.raises(REFUSED):
        function(*[read_only] * n_arrays, *rest)
    sound = [*[np.ones(1)] * n_arrays, *rest]
    for arguments in ([], sound[:-1], [*sound, 1]):
        with pytest.raises(TypeError, match="argument"):
            function(*arguments)


def test_steps_of_families_are_refused_with_what_is_wrong():
    none, ones = np.empty(0), np.ones((2, 3, 3))
    stats, means = np.ones((2, 10)), np.ones((2, 3))

    def m_step(code="VEE", m=3, near=none, frame=none):
        arrays = stats, none, none, near, frame, none, means, ones
        compiled.kernels.family_m_step(*arrays, code, m, 2, 0.0, 0.0, 0.0)

    for given, message in (
        ({"code": "XYZ"}, "No such family"),
        ({"m": 2**15}, "too large"),
        ({"code": "VVE", "frame": np.ones(4)}, "wrong sizes"),
        ({"near": np.ones(5)}, "wrong sizes"),
        ({"code": "EVI"}, "wrong sizes"),
    ):
        with pytest.raises(ValueError, match=message):
            m_step(**given)
