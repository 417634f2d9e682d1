"""Bad arguments to the functions on small matrices raise, and none reads or writes outside of an array."""

import numpy as np
import pytest

from apolar._core import compiled
from kernel_sums import needs_kernels

pytestmark = needs_kernels

# The numbers of arrays, and of what follows them.
FUNCTIONS = {
    "inverses": (3, 1),
    "natural": (4, 2),
    "merging_terms": (2, 2),
    "log_prior": (5, 4),
    "common_covariance": (3, 7),
    "relative_scatter": (4, 1),
    "gradient": (8, 4),
    "joint_rotation": (2, 3),
    "merge_costs": (9, 1),
    "merge_tree": (4, 2),
    "added_gains": (6, 4),
}
REFUSED = (TypeError, ValueError, OverflowError, BufferError, MemoryError)


def function(name):
    return getattr(compiled.kernels, name)


def outcome(name, arrays, numbers):
    """Return the result of a call, or None if it was refused."""
    try:
        return function(name)(*arrays, *numbers)
    except REFUSED:
        return None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_random_sizes_are_refused_or_fit(name):
    rng = np.random.default_rng(0)
    n_arrays, n_numbers = FUNCTIONS[name]
    for _ in range(300):
        m, n = rng.integers(1, 4), rng.integers(0, 4)
        n_stats = 1 + m + m * (m + 1) // 2
        sizes = [
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
        arrays = [rng.uniform(0, 1, rng.choice(sizes)) for _ in range(n_arrays)]
        numbers = [int(m), *rng.integers(-1, 4, n_numbers).tolist()][:n_numbers]
        assert outcome(name, arrays, numbers) in (None, True, False)


@pytest.mark.parametrize("size", [2**15, 2**20, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**64, -1, 0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_that_do_not_fit_are_refused(name, size):
    n_arrays, n_numbers = FUNCTIONS[name]
    for length in (0, 1, 32):
        arrays = [np.ones(length) for _ in range(n_arrays)]
        for position in range(n_numbers):
            numbers = [1] * n_numbers
            numbers[position] = size
            # Some are numbers of steps, or tolerances: those may be any.
            assert outcome(name, arrays, numbers) in (None, True, False)
        # No array has so many numbers, or fewer than one; where there are none, no such size does harm.
        if length:
            assert outcome(name, arrays, [size] * n_numbers) is None


@pytest.mark.parametrize("dtype", [np.float32, bool, np.int16, complex, ">f8", object, "S8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_dtype_is_refused(name, dtype):
    n_arrays, n_numbers = FUNCTIONS[name]
    for position in range(n_arrays):
        arrays = [np.ones(32) for _ in range(n_arrays)]
        arrays[position] = np.ones(64, dtype)
        with pytest.raises((TypeError, BufferError, ValueError)):
            function(name)(*arrays, *[1] * n_numbers)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_contiguous_array_is_refused(name):
    n_arrays, n_numbers = FUNCTIONS[name]
    for wrong in (None, 1.0, "text", [1.0], np.ones(64)[::2]):
        with pytest.raises((TypeError, BufferError, ValueError)):
            function(name)(*[wrong] * n_arrays, *[1] * n_numbers)
    read_only = np.ones(32)
    read_only.flags.writeable = False
    with pytest.raises((TypeError, BufferError, ValueError)):
        function(name)(*[read_only] * n_arrays, *[1] * n_numbers)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_number_of_arguments_is_refused(name):
    n_arrays, n_numbers = FUNCTIONS[name]
    sound = [np.ones(1)] * n_arrays + [1] * n_numbers
    for wrong in ([], sound[:-1], [*sound, 1]):
        with pytest.raises(TypeError, match="argument"):
            function(name)(*wrong)
