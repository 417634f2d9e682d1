/* Functions of Python on small matrices: arrays of doubles, contiguous, by the buffer protocol.

   A call of LAPACK through NumPy takes ten microseconds or more for a few matrices of five columns, and a fit of
   a small table makes thousands. Here one call does all that a step of EM needs between two passes over the rows.
   A function returns False where a matrix is not positive definite, or below the floor of variances: its caller
   then computes the same with NumPy, which treats such cases. */

#ifndef APOLAR_CALLS_H
#define APOLAR_CALLS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sharing.h"

/* The arrays of a call. */
#define MAX_BUFFERS 16
typedef struct {
  Py_buffer views[MAX_BUFFERS];
  int n;
} Buffers;

INLINE void release(Buffers *buffers) {
  while (buffers->n) PyBuffer_Release(&buffers->views[--buffers->n]);
}

INLINE PyObject *failed(Buffers *buffers) {
  release(buffers);
  return NULL;
}

/* None, or an error if memory ran out. */
INLINE PyObject *finished(Buffers *buffers, int status) {
  release(buffers);
  if (status) return PyErr_NoMemory();
  Py_RETURN_NONE;
}

/* Whether the items of an array are doubles or int64, as the processor stores them. */
INLINE int has_numbers(const Py_buffer *view) {
  const char *format = view->format ? view->format : "B";
  if (*format && strchr("@=<", *format)) format++;
  return view->itemsize == 8 && *format && strchr("dlq", *format) && !format[1];
}

/* Take the first n arguments as contiguous numbers, the last n_written of them writable. */
INLINE int take(Buffers *buffers, PyObject *const *args, Py_ssize_t n_args, int n, int n_written, int n_more) {
  buffers->n = 0;
  if (n_args != n + n_more) {
    PyErr_Format(PyExc_TypeError, "%d arguments are needed, not %zd.", n + n_more, n_args);
    return 0;
  }
  for (int i = 0; i < n; i++) {
    int flags = PyBUF_ND | PyBUF_FORMAT | (i >= n - n_written ? PyBUF_WRITABLE : 0);
    int is_taken = PyObject_GetBuffer(args[i], &buffers->views[i], flags) == 0;
    buffers->n += is_taken;
    if (is_taken && has_numbers(&buffers->views[i])) continue;
    if (is_taken) PyErr_Format(PyExc_TypeError, "Argument %d must be an array of float64 or int64.", i + 1);
    release(buffers);
    return 0;
  }
  return 1;
}

INLINE double *values_of(Buffers *buffers, int i) {
  return (double *)buffers->views[i].buf;
}

INLINE isize length_of(Buffers *buffers, int i) {
  return buffers->views[i].len / (isize)sizeof(double);
}

/* A number from a call, of Python or of NumPy; one so large that products of sizes would overflow is an error. */
INLINE isize number_below(PyObject *number, isize bound) {
  isize value = PyNumber_AsSsize_t(number, PyExc_OverflowError);
  if (value < bound) return value;
  PyErr_SetString(PyExc_ValueError, "A size is too large.");
  return -1;
}

/* A number of columns, components or steps; and the columns of matrices. */
INLINE isize number_of(PyObject *number) { return number_below(number, INT32_MAX); }
INLINE isize matrix_size_of(PyObject *number) { return number_below(number, 1 << 15); }

/* The form of covariances, from the arguments (m, kind); 0 if these, or other numbers before, cannot be read. */
INLINE int is_form(PyObject *const *args, Form *form) {
  isize kind = number_of(args[1]), m = kind == FULL ? matrix_size_of(args[0]) : number_of(args[0]);
  if (PyErr_Occurred() || m < 1 || kind < SPHERICAL || kind > FULL) return 0;
  *form = form_of((int)kind, m);
  return 1;
}

INLINE PyObject *mismatch(Buffers *buffers) {
  /* A number that could not be read has an error of its own. */
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "The arrays have the wrong sizes.");
  return failed(buffers);
}

INLINE PyObject *done(Buffers *buffers, double *work, int is_positive) {
  free(work);
  release(buffers);
  return PyBool_FromLong(is_positive);
}

INLINE double *workspace(Buffers *buffers, isize n) {
  double *work = malloc((size_t)(n > 0 ? n : 1) * sizeof(double));
  if (work == NULL) {
    release(buffers);
    PyErr_NoMemory();
  }
  return work;
}

/* The functions: passes over rows, and one step of EM each. */
#define FUNCTIONS(X) \
  X(e_step) X(rows) X(third) X(inverses) X(natural) X(merging_terms) X(left_out) X(gradient) \
  X(joint_rotation) X(merge_costs) X(merge_tree) X(family_m_step) X(plain_run)

#define DECLARED(name) PyObject *py_##name(PyObject *, PyObject *const *, Py_ssize_t);
FUNCTIONS(DECLARED)
#undef DECLARED

/* A covariance family, from the four arguments (code, m, r, least) of a call, and the buffers of the frame and its
   inverse, of that number and the next; 0, with an exception, if there is none. */
int family_of(Buffers *buffers, PyObject *const *args, int frame, Sharing *sharing);

/* What a prior adds to n mixtures, from the buffers of scatters and divisors, of that number and the next, or nothing;
   0 if these have the wrong sizes. */
int are_prior_sums(Buffers *buffers, int scatter, isize n, const Sharing *sharing, PriorSums *prior);

#endif
