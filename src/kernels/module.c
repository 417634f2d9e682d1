/* The module apolar._kernels: sums over rows, without the GIL, by the best kernels that the processor has.

   Arrays are passed by the buffer protocol. The Python side, apolar/_core/compiled.py, has checked their shapes
   and dtypes for the user; what is checked again here is what would read or write outside of them. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(_MSC_VER) && !defined(__clang__)
/* Before kernels.h, which defines a word that this header uses. */
#include <intrin.h>
#define FETCH_ADD(counter) _InterlockedExchangeAdd64((volatile __int64 *)(counter), 1)
#else
#define FETCH_ADD(counter) __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED)
#endif

#include "calls.h"

int64_t next_part(int64_t *counter) {
  int64_t part = FETCH_ADD(counter);
  /* A counter that did not start at zero, or that ran over: no such part. */
  return part < 0 ? INT64_MAX : part;
}

/* Best first. */
static const Kernels *const all_kernels[] = {
#ifdef HAS_X86_TARGETS
    &avx512_kernels,
    &avx2_kernels,
#endif
    &baseline_kernels,
};
#define N_KERNELS (sizeof all_kernels / sizeof all_kernels[0])
static const Kernels *kernels = &baseline_kernels;
const Kernels *kernels_in_use(void) { return kernels; }

/* --- buffers ----------------------------------------------------------------------------------------------- */

/* Return the buffer of an array of these dimensions and formats; NULL, with an exception, if it is not. */
static Py_buffer *buffer_of(Buffers *buffers, PyObject *array, const char *name, int n_dims, const char *formats,
                            int flags) {
  Py_buffer *view = &buffers->views[buffers->n];
  if (PyObject_GetBuffer(array, view, flags | PyBUF_FORMAT)) return NULL;
  buffers->n++;
  const char *format = view->format ? view->format : "B";
  if (strchr("@=<", *format) && *format) format++;
  if (view->ndim != n_dims || !*format || format[1] || !strchr(formats, *format)) {
    PyErr_Format(PyExc_TypeError, "%s must be an array of %d dimensions, of one of the formats %s; got %d, %s.", name,
                 n_dims, formats, view->ndim, view->format ? view->format : "none");
    return NULL;
  }
  return view;
}

#define READ (PyBUF_STRIDES)
#define READ_CONTIGUOUS (PyBUF_C_CONTIGUOUS)
#define WRITE (PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)

/* Return whether a buffer has this many items; raise ValueError if not. */
static int has_length(const Py_buffer *view, const char *name, int64_t length) {
  if (view->len / view->itemsize == length) return 1;
  PyErr_Format(PyExc_ValueError, "%s must have %lld items, not %lld.", name, (long long)length,
               (long long)(view->len / view->itemsize));
  return 0;
}

/* Numbers of items must be those of an int. */
static int is_small(int64_t number, const char *name) {
  if (number > 0 && number < INT32_MAX) return 1;
  PyErr_Format(PyExc_ValueError, "%s must be positive and below 2^31; got %lld.", name, (long long)number);
  return 0;
}

/* The rows and their map, from the first five arguments of a function: values, weights, centre, scale, matrix. */
static int rows_of(Buffers *buffers, PyObject *const *args, Rows *rows) {
  memset(rows, 0, sizeof *rows);
  Py_buffer *values = buffer_of(buffers, args[0], "values", 2, "df", READ);
  if (!values || !is_small(values->shape[1], "the number of columns")) return -1;
  rows->values = values->buf;
  rows->n_rows = values->shape[0];
  rows->n_columns = rows->n_outputs = (int)values->shape[1];
  rows->row_stride = values->strides[0];
  rows->column_stride = values->strides[1];
  rows->is_single = values->itemsize == 4;
  if (args[1] != Py_None) {
    Py_buffer *weights = buffer_of(buffers, args[1], "weights", 1, "d", READ);
    if (!weights || !has_length(weights, "weights", rows->n_rows)) return -1;
    rows->weights = weights->buf;
    rows->weight_stride = weights->strides[0];
  }
  Py_buffer *centre = buffer_of(buffers, args[2], "centre", 1, "d", READ_CONTIGUOUS);
  if (!centre || !has_length(centre, "centre", rows->n_columns)) return -1;
  Py_buffer *scale = buffer_of(buffers, args[3], "scale", 1, "d", READ_CONTIGUOUS);
  if (!scale || !has_length(scale, "scale", rows->n_columns)) return -1;
  rows->centre = centre->buf;
  rows->scale = scale->buf;
  if (args[4] != Py_None) {
    Py_buffer *matrix = buffer_of(buffers, args[4], "matrix", 2, "d", READ_CONTIGUOUS);
    if (!matrix || !is_small(matrix->shape[1], "the number of outputs")) return -1;
    if (matrix->shape[0] != rows->n_columns) {
      PyErr_SetString(PyExc_ValueError, "matrix must have a row per column of the values.");
      return -1;
    }
    rows->matrix = matrix->buf;
    rows->n_outputs = (int)matrix->shape[1];
  }
  return 0;
}

/* The parts of rows, from two arguments: the rows of a part, and the counter. */
static int parts_of(Buffers *buffers, PyObject *const *args, const Rows *rows, Parts *parts) {
  int64_t part_rows = PyLong_AsLongLong(args[0]);
  Py_buffer *view = PyErr_Occurred() ? NULL : buffer_of(buffers, args[1], "counter", 1, "ql", WRITE);
  if (!view || !has_length(view, "counter", 1)) return -1;
  if (view->itemsize != 8 || part_rows < 1) {
    PyErr_SetString(PyExc_ValueError, "counter must be of int64, and part_rows positive.");
    return -1;
  }
  parts->counter = view->buf;
  parts->part_rows = part_rows < rows->n_rows ? part_rows : rows->n_rows; /* so that products do not overflow */
  parts->n_parts = rows->n_rows ? (rows->n_rows - 1) / part_rows + 1 : 0;
  return 0;
}

/* What every pass over rows takes: `count` arguments, or some more, with those of parts from number `i` on. */
typedef struct {
  Buffers buffers;
  Rows rows;
  Parts parts;
} Pass;

static int begin(Pass *pass, PyObject *const *args, Py_ssize_t n_args, int count, int n_more, int i) {
  pass->buffers.n = 0;
  if (n_args >= count && n_args <= count + n_more)
    return !rows_of(&pass->buffers, args, &pass->rows) &&
           !parts_of(&pass->buffers, args + i, &pass->rows, &pass->parts);
  PyErr_Format(PyExc_TypeError, "%d arguments are needed, not %zd.", count, n_args);
  return 0;
}

static int64_t n_stats_of(int kind, int64_t m) {
  return kind == SPHERICAL ? m + 2 : kind == DIAGONAL ? 2 * m + 1 : (m + 1) * (m + 2) / 2;
}

/* --- functions --------------------------------------------------------------------------------------------- */

/* The logits of rows are those of natural parameters of one kind; which of them are known to be zero. */
static int mixtures_of(Buffers *buffers, PyObject *natural, const Rows *rows, int kind, int is_linear,
                       isize n_mixtures, Mixtures *mixtures) {
  memset(mixtures, 0, sizeof *mixtures);
  int64_t n_stats = n_stats_of(kind, rows->n_outputs);
  Py_buffer *view = buffer_of(buffers, natural, "natural", 2, "d", READ_CONTIGUOUS);
  if (!view || !is_small(view->shape[0], "the number of components") || !is_small(n_stats, "n_stats")) return -1;
  if (view->shape[1] != n_stats || n_mixtures < 1 || view->shape[0] % n_mixtures) {
    PyErr_Format(PyExc_ValueError, "natural must have %lld columns, and rows for each of %zd mixtures.",
                 (long long)n_stats, n_mixtures);
    return -1;
  }
  mixtures->kind = kind;
  mixtures->is_linear = is_linear;
  mixtures->n_mixtures = (int)n_mixtures;
  mixtures->n_components = (int)(view->shape[0] / n_mixtures);
  mixtures->n_stats = (int)n_stats;
  mixtures->natural = view->buf;
  return 0;
}

/* The tails of these components, or None. */
static int tails_of(Buffers *buffers, PyObject *tails, Mixtures *mixtures) {
  if (tails == Py_None) return 0;
  Py_buffer *view = buffer_of(buffers, tails, "tails", 2, "d", READ_CONTIGUOUS);
  if (!view || !has_length(view, "tails", 4 * (int64_t)mixtures->n_mixtures * mixtures->n_components)) return -1;
  mixtures->tails = view->buf;
  return 0;
}

static int is_kind(isize kind) {
  if (PyErr_Occurred()) return 0;
  if (kind >= SPHERICAL && kind <= FULL) return 1;
  PyErr_Format(PyExc_ValueError, "No kind %zd.", kind);
  return 0;
}

/* The responsibilities of rows, or None: all rows are of one component. */
static int responsibilities_of(Buffers *buffers, PyObject *responsibilities, const Rows *rows, int kind,
                               Mixtures *mixtures) {
  int64_t n_stats = n_stats_of(kind, rows->n_outputs);
  if (!is_small(n_stats, "n_stats")) return -1;
  *mixtures = (Mixtures){.kind = kind, .source = ALL, .n_mixtures = 1, .n_components = 1, .n_stats = (int)n_stats};
  if (responsibilities == Py_None) return 0;
  Py_buffer *view = buffer_of(buffers, responsibilities, "responsibilities", 2, "d", READ);
  if (!view || !is_small(view->shape[0], "the number of components")) return -1;
  if (view->shape[1] != rows->n_rows || view->strides[0] % 8 || view->strides[1] % 8) {
    PyErr_SetString(PyExc_ValueError, "responsibilities must have a column per row.");
    return -1;
  }
  mixtures->source = GIVEN;
  mixtures->n_components = (int)view->shape[0];
  mixtures->responsibilities = view->buf;
  mixtures->component_stride = view->strides[0] / 8;
  mixtures->responsibility_stride = view->strides[1] / 8;
  return 0;
}

/* e_step(values, weights, centre, scale, matrix, given, kind, source, is_linear, n_mixtures, tails, part_rows, counter,
   stats, log_likelihood, tail_sums): add sufficient statistics and log-likelihoods of parts of rows. What is given are
   natural parameters, for responsibilities (SOFT) or labels (HARD); or responsibilities, or None for one component
   (GIVEN): there are then no log-likelihoods. Tails are None if components are Gaussian. */
PyObject *py_e_step(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Pass pass;
  Mixtures mixtures;
  Buffers *buffers = &pass.buffers;
  if (!begin(&pass, args, n_args, 14, 2, 11)) return failed(buffers);
  isize kind = number_of(args[6]), source = number_of(args[7]), is_linear = number_of(args[8]);
  isize n_mixtures = number_of(args[9]);
  int64_t n_parts = pass.parts.n_parts;
  int status;
  if (!is_kind(kind) ||
      (source == GIVEN ? responsibilities_of(buffers, args[5], &pass.rows, (int)kind, &mixtures)
                       : mixtures_of(buffers, args[5], &pass.rows, (int)kind, is_linear != 0, n_mixtures, &mixtures)) ||
      tails_of(buffers, args[10], &mixtures))
    return failed(buffers);
  if (source != GIVEN) mixtures.source = source == HARD ? HARD : SOFT;
  if (source != SOFT && (mixtures.n_mixtures > 1 || mixtures.tails)) {
    PyErr_SetString(PyExc_ValueError, "Rows are assigned under one mixture at a time, of Gaussian components.");
    return failed(buffers);
  }
  int64_t n = (int64_t)mixtures.n_mixtures * mixtures.n_components;
  Py_buffer *out = buffer_of(buffers, args[13], "stats", 3, "d", WRITE), *sums = NULL;
  if (!out || !has_length(out, "stats", n_parts * n * mixtures.n_stats)) return failed(buffers);
  if (source != GIVEN) {
    sums = buffer_of(buffers, n_args > 14 ? args[14] : Py_None, "log_likelihood", 2, "d", WRITE);
    if (!sums || !has_length(sums, "log_likelihood", n_parts * mixtures.n_mixtures)) return failed(buffers);
  }
  if (mixtures.tails) {
    Py_buffer *of_tails = buffer_of(buffers, n_args > 15 ? args[15] : Py_None, "tail_sums", 3, "d", WRITE);
    if (!of_tails || !has_length(of_tails, "tail_sums", n_parts * 2 * n)) return failed(buffers);
    mixtures.tail_sums = of_tails->buf;
  }
  if (!n_parts) return finished(buffers, 0);
  Py_BEGIN_ALLOW_THREADS;
  status = kernels->e_step(&pass.rows, &mixtures, &pass.parts, out->buf, sums ? sums->buf : NULL);
  Py_END_ALLOW_THREADS;
  return finished(buffers, status);
}

/* rows(values, weights, centre, scale, matrix, natural, kind, tails, part_rows, counter, logits, responsibilities,
   labels, density, sums): write what is asked for of each row, and the sums of parts of rows; None for what is not. */
PyObject *py_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Pass pass;
  Mixtures mixtures;
  Buffers *buffers = &pass.buffers;
  if (!begin(&pass, args, n_args, 15, 0, 8)) return failed(buffers);
  isize kind = number_of(args[6]);
  if (!is_kind(kind) || mixtures_of(buffers, args[5], &pass.rows, (int)kind, 0, 1, &mixtures) ||
      tails_of(buffers, args[7], &mixtures))
    return failed(buffers);
  static const char *const names[] = {"logits", "responsibilities", "labels", "density", "sums"};
  static const int n_dims[] = {2, 2, 1, 1, 2};
  const int64_t n_rows = pass.rows.n_rows, n = mixtures.n_components;
  const int64_t lengths[] = {n * n_rows, n * n_rows, n_rows, n_rows, 3 * pass.parts.n_parts};
  void *memory[5] = {NULL};
  int status;
  for (int i = 0; i < 5; i++) {
    if (args[10 + i] == Py_None) continue;
    Py_buffer *view = buffer_of(buffers, args[10 + i], names[i], n_dims[i], i == 2 ? "ql" : "d", WRITE);
    if (!view || !has_length(view, names[i], lengths[i])) return failed(buffers);
    if (view->itemsize != 8) {
      PyErr_SetString(PyExc_ValueError, "labels must be of int64.");
      return failed(buffers);
    }
    memory[i] = view->buf;
  }
  RowResults results = {memory[0], memory[1], memory[2], memory[3], memory[4]};
  if (!pass.parts.n_parts) return finished(buffers, 0);
  Py_BEGIN_ALLOW_THREADS;
  status = kernels->rows(&pass.rows, &mixtures, &pass.parts, &results);
  Py_END_ALLOW_THREADS;
  return finished(buffers, status);
}

/* third(values, weights, centre, scale, matrix, part_rows, counter, sums): add, of parts of rows x and z = x matrix, the
   sums of |x|^2 x and of z_i z_j z_k, i <= j <= k. */
PyObject *py_third(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Pass pass;
  Buffers *buffers = &pass.buffers;
  if (!begin(&pass, args, n_args, 8, 0, 5)) return failed(buffers);
  if (pass.rows.n_outputs > 1000000) { /* their number would overflow, before any memory ran out */
    PyErr_Format(PyExc_ValueError, "Third moments of %d outputs are too many.", pass.rows.n_outputs);
    return failed(buffers);
  }
  const int64_t dim = pass.rows.n_outputs, n_sums = pass.rows.n_columns + dim * (dim + 1) * (dim + 2) / 6;
  int status;
  Py_buffer *out = buffer_of(buffers, args[7], "sums", 2, "d", WRITE);
  if (!out || !has_length(out, "sums", pass.parts.n_parts * n_sums)) return failed(buffers);
  if (!pass.parts.n_parts) return finished(buffers, 0);
  Py_BEGIN_ALLOW_THREADS;
  status = kernels->third(&pass.rows, &pass.parts, out->buf);
  Py_END_ALLOW_THREADS;
  return finished(buffers, status);
}

PyDoc_STRVAR(targets_doc, "targets()\n--\n\nReturn the names of the kernels that this processor can run, best first.");

static PyObject *targets(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
  PyObject *names = PyList_New(0);
  for (size_t i = 0; names && i < N_KERNELS; i++) {
    if (!all_kernels[i]->is_supported()) continue;
    PyObject *name = PyUnicode_FromString(all_kernels[i]->name);
    if (!name || PyList_Append(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

PyDoc_STRVAR(target_doc, "target()\n--\n\nReturn the name of the kernels that are used.");

static PyObject *target(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
  return PyUnicode_FromString(kernels->name);
}

PyDoc_STRVAR(use_doc, "use(target)\n--\n\nUse the kernels of that name.");

static PyObject *use(PyObject *Py_UNUSED(module), PyObject *arguments) {
  const char *name;
  if (!PyArg_ParseTuple(arguments, "s", &name)) return NULL;
  for (size_t i = 0; i < N_KERNELS; i++) {
    if (!strcmp(all_kernels[i]->name, name) && all_kernels[i]->is_supported()) {
      kernels = all_kernels[i];
      Py_RETURN_NONE;
    }
  }
  PyErr_Format(PyExc_ValueError, "This processor has no kernels named %s.", name);
  return NULL;
}

static PyMethodDef methods[] = {
    {"targets", targets, METH_NOARGS, targets_doc},
    {"target", target, METH_NOARGS, target_doc},
    {"use", use, METH_VARARGS, use_doc},
    {NULL, NULL, 0, NULL},
};

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL},
static PyMethodDef fast_methods[] = {FUNCTIONS(METHOD){NULL, NULL, 0, NULL}};

static int run(PyObject *module) {
  for (size_t i = N_KERNELS; i-- > 0;)
    if (all_kernels[i]->is_supported()) kernels = all_kernels[i];
  return PyModule_AddFunctions(module, fast_methods);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, run},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "apolar._kernels", "Sums over rows, compiled.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
