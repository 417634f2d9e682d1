"""Bad arguments to the functions of the extension raise: none reads or writes outside of an array."""

import numpy as np
import pytest

from apolar._core import compiled
from apolar._core.compiled import DIAGONAL
from kernel_sums import needs_kernels

pytestmark = needs_kernels

N_ROWS, N_COLUMNS, N_COMPONENTS, N_PARTS, PART_ROWS = 20, 3, 2, 3, 8
N_STATS = 2 * N_COLUMNS + 1
REFUSED = (TypeError, ValueError, BufferError, OverflowError)


def arguments(name):
    """Return sound arguments of a function, by name."""
    rng = np.random.default_rng(0)
    rows = {
        "values": rng.standard_normal((N_ROWS, N_COLUMNS)),
        "weights": rng.uniform(0, 1, N_ROWS),
        "centre": np.zeros(N_COLUMNS),
        "scale": np.ones(N_COLUMNS),
        "matrix": np.eye(N_COLUMNS),
    }
    parts = {"part_rows": PART_ROWS, "counter": np.zeros(1, np.int64)}
    natural = {"natural": rng.standard_normal((N_COMPONENTS, N_STATS))}
    stats = {"stats": np.zeros((N_PARTS, N_COMPONENTS, N_STATS))}
    if name == "e_step":
        options = {"kind": DIAGONAL, "is_linear": 0, "is_hard": 0, "n_mixtures": 1}
        return rows | natural | options | parts | stats | {"log_likelihood": np.zeros((N_PARTS, 1))}
    if name == "stats":
        responsibilities = {"responsibilities": np.ones((N_COMPONENTS, N_ROWS)), "kind": DIAGONAL}
        return rows | responsibilities | parts | stats
    if name == "rows":
        outputs = {
            "logits": None,
            "responsibilities": np.zeros((N_ROWS, N_COMPONENTS)),
            "labels": np.zeros(N_ROWS, np.int64),
            "density": np.zeros(N_ROWS),
            "sums": np.zeros((N_PARTS, 3)),
        }
        return rows | natural | {"kind": DIAGONAL, "is_linear": 0} | parts | outputs
    return rows | parts | {"sums": np.zeros((N_PARTS, N_COLUMNS + 10))}


def called(name, **changed):
    given = arguments(name) | changed
    getattr(compiled.kernels, name)(*given.values())
    return given


FUNCTIONS = ("e_step", "stats", "rows", "third")
ARRAYS = [(name, key) for name in FUNCTIONS for key, value in arguments(name).items() if np.ndim(value)]
OUTPUTS = [
    *[("e_step", "stats"), ("e_step", "log_likelihood"), ("e_step", "counter"), ("stats", "stats")],
    *[("rows", key) for key in ("responsibilities", "labels", "density", "sums", "counter")],
    ("third", "sums"),
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sound_arguments_are_taken(name):
    assert called(name)["counter"][0] == N_PARTS + 1


@pytest.mark.parametrize(
    "dtype", [bool, np.int32, np.float16, np.longdouble, complex, ">f8", "S8", object, "f8,f8"]
)
@pytest.mark.parametrize(("name", "key"), ARRAYS)
def test_another_dtype_is_refused(name, key, dtype):
    array = arguments(name)[key]
    with pytest.raises(REFUSED):
        called(name, **{key: np.zeros(array.shape, dtype)})


@pytest.mark.parametrize(("name", "key"), ARRAYS)
def test_another_number_of_dimensions_is_refused(name, key):
    array = arguments(name)[key]
    for other in (array[None], array[0], array.ravel()[:1].reshape(()), array.reshape((*array.shape, 1, 1))):
        with pytest.raises(REFUSED):
            called(name, **{key: other})


@pytest.mark.parametrize(("name", "key"), ARRAYS)
def test_another_length_is_refused(name, key):
    array = arguments(name)[key]
    for axis in range(array.ndim):
        for length in (0, array.shape[axis] + 1, array.shape[axis] - 1):
            shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
            with pytest.raises(REFUSED):
                called(name, **{key: np.ones(shape, array.dtype)})


@pytest.mark.parametrize(("name", "key"), ARRAYS)
@pytest.mark.parametrize("other", [None, 0, "text", b"bytes", [1.0], {}], ids=repr)
def test_what_is_no_array_is_refused(name, key, other):
    # Of these, None stands for what is not given.
    optional = {"weights", "matrix"} | (
        {"responsibilities", "labels", "density", "sums"} if name == "rows" else set()
    )
    if other is None and key in optional:
        called(name, **{key: None})
        return
    with pytest.raises(REFUSED):
        called(name, **{key: other})


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


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("part_rows", [0, -1, -(2**63), 2**63, 1, 6, 19, 20, 21, 2**62, 2**63 - 1])
def test_parts_of_another_length_need_as_many_sums(name, part_rows):
    n_parts = -(-N_ROWS // part_rows) if part_rows else 0
    outputs = {"e_step": ("stats", "log_likelihood"), "stats": ("stats",)}.get(name, ("sums",))
    given = arguments(name)
    with pytest.raises(REFUSED):
        called(name, part_rows=part_rows)
    if 0 < part_rows < 2**63:
        fitting = {key: np.zeros((n_parts, *given[key].shape[1:])) for key in outputs}
        sums = called(name, part_rows=part_rows, **fitting)[outputs[0]]
        np.testing.assert_allclose(sums.sum(axis=0), called(name)[outputs[0]].sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("first", [-1, -(2**62), -(2**63), N_PARTS, 2**62, 2**63 - 1])
def test_a_counter_outside_of_the_parts_adds_nothing(name, first):
    given = called(name, counter=np.array([first], np.int64))
    output = given["stats" if "stats" in given else "sums"]
    assert not output.any()


@pytest.mark.parametrize("kind", [-1, 3, 2**31])
@pytest.mark.parametrize("name", ["e_step", "stats", "rows"])
def test_another_kind_is_refused(name, kind):
    with pytest.raises(REFUSED):
        called(name, kind=kind)


@pytest.mark.parametrize("n_mixtures", [-1, 0, 3, 2**31 - 1])
def test_another_number_of_mixtures_is_refused(n_mixtures):
    with pytest.raises(ValueError, match="natural must have"):
        called("e_step", n_mixtures=n_mixtures)


def test_rows_are_assigned_under_one_mixture_at_a_time():
    with pytest.raises(ValueError, match="one mixture"):
        called("e_step", is_hard=1, n_mixtures=2, log_likelihood=np.zeros((N_PARTS, 2)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_columns_are_refused(name):
    with pytest.raises(ValueError, match="the number of columns must be positive"):
        called(name, values=np.zeros((N_ROWS, 0)))


def test_so_many_third_moments_that_their_number_overflows_are_refused():
    wide = 3_100_000
    with pytest.raises(ValueError, match="outputs"):
        called("third", values=np.zeros((1, 1)), weights=None, centre=np.zeros(1), scale=np.ones(1),
               matrix=np.zeros((1, wide)))  # fmt: skip


def test_no_rows_need_no_memory():
    # 2^31 components of 10^9 statistics would not fit.
    components = np.broadcast_to(np.zeros((1, 1)), (2**31 - 2, 0))
    called("stats", values=np.zeros((0, N_COLUMNS)), weights=None, responsibilities=components,
           stats=np.zeros((0, 1, 1)))  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_number_of_arguments_is_refused(name):
    sound = list(arguments(name).values())
    for wrong in ([], sound[:-1], [*sound, None]):
        with pytest.raises(TypeError):
            getattr(compiled.kernels, name)(*wrong)


def test_only_kernels_of_this_processor_can_be_used():
    extension = compiled.kernels
    before = extension.target()
    with pytest.raises(ValueError, match="no kernels named z80"):
        extension.use("z80")
    with pytest.raises(TypeError):
        extension.use(7)
    assert extension.target() == before
    assert before in extension.targets()
    assert extension.targets()[-1] == "baseline"
