/* Joint diagonalisation of symmetric matrices. */

#include "calls.h"

/* joint_rotation(stack (dim, dim, n), rotation (dim, dim), dim, tol, max_sweeps): Jacobi rotations that make the
   matrices of a stack as diagonal as possible together. The stack is overwritten; both are changed in place. */
PyObject *py_joint_rotation(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 2, 2, 3)) return NULL;
  isize dim = matrix_size_of(args[2]), max_sweeps = number_of(args[4]);
  double tol = PyFloat_AsDouble(args[3]);
  if (PyErr_Occurred() || dim < 1) return mismatch(&b);
  isize n = length_of(&b, 0) / (dim * dim);
  if (length_of(&b, 0) != n * dim * dim || length_of(&b, 1) != dim * dim) return mismatch(&b);
  double *stack = values_of(&b, 0), *rotation = values_of(&b, 1);
  for (isize sweep = 0; sweep < max_sweeps; sweep++) {
    double largest = 0.0;
    for (isize p = 0; p < dim - 1; p++)
      for (isize q = p + 1; q < dim; q++) {
        const double *pp = stack + (p * dim + p) * n, *qq = stack + (q * dim + q) * n;
        const double *pq = stack + (p * dim + q) * n;
        double differences = 0.0, doubles = 0.0, products = 0.0;
        for (isize i = 0; i < n; i++) {
          double difference = pp[i] - qq[i], twice = 2.0 * pq[i];
          differences += difference * difference;
          doubles += twice * twice;
          products += difference * twice;
        }
        double on = differences - doubles, off = 2.0 * products;
        double theta = 0.5 * atan2(off, on + hypot(on, off));
        double sine = sin(theta), cosine = cos(theta);
        if (fabs(sine) > largest)
          largest = fabs(sine);
        if (fabs(sine) <= tol) continue;
        for (isize i = 0; i < dim * n; i++) {
          double x = stack[p * dim * n + i], y = stack[q * dim * n + i];
          stack[p * dim * n + i] = cosine * x + sine * y;
          stack[q * dim * n + i] = cosine * y - sine * x;
        }
        for (isize j = 0; j < dim; j++) {
          double *first = stack + (j * dim + p) * n, *second = stack + (j * dim + q) * n;
          for (isize i = 0; i < n; i++) {
            double x = first[i], y = second[i];
            first[i] = cosine * x + sine * y;
            second[i] = cosine * y - sine * x;
          }
          double x = rotation[j * dim + p], y = rotation[j * dim + q];
          rotation[j * dim + p] = cosine * x + sine * y;
          rotation[j * dim + q] = cosine * y - sine * x;
        }
      }
    if (largest <= tol) break;
  }
  return done(&b, NULL, 1);
}
