/* Eigenvalues and eigenvectors of small symmetric matrices: Householder reflections, then QR steps with shifts. */

#include "sharing.h"

#include <float.h>

/* The most QR steps per column; two or three are usual. */
#define MAX_STEPS 60

/* Turn a into a tridiagonal matrix, of that diagonal and these entries next to it, and write to `vectors`, by rows, the
   orthogonal matrix Q^t with a = Q T Q^t. `work` has room for two vectors. */
static void tridiagonalise(double *restrict a, double *restrict diagonal, double *restrict beside,
                           double *restrict vectors, double *restrict work, isize m) {
  double *restrict product = work, *restrict factors = work + m;
  for (isize k = 0; k + 2 < m; k++) {
    /* The reflector takes the rest of a column to a multiple of its first entry. It is kept in row k. */
    double *restrict v = a + k * m + k + 1, norm = 0.0;
    isize n = m - k - 1;
    for (isize i = 0; i < n; i++) norm += v[i] * v[i];
    norm = sqrt(norm);
    double end = v[0] > 0.0 ? -norm : norm;
    beside[k] = end;
    factors[k] = 0.0;
    if (!(norm > 0.0)) continue;
    v[0] -= end;
    double factor = 1.0 / (norm * fabs(v[0])), along = 0.0;
    factors[k] = factor;
    for (isize i = 0; i < n; i++) {
      product[i] = factor * dot(a + (k + 1 + i) * m + k + 1, v, n);
      along += product[i] * v[i];
    }
    for (isize i = 0; i < n; i++) product[i] -= 0.5 * factor * along * v[i];
    for (isize i = 0; i < n; i++) {
      double *restrict row = a + (k + 1 + i) * m + k + 1, first = v[i], second = product[i];
      for (isize j = 0; j < n; j++) row[j] -= first * product[j] + second * v[j];
    }
  }
  for (isize i = 0; i < m; i++) diagonal[i] = a[i * m + i];
  if (m > 1) beside[m - 2] = a[(m - 2) * m + m - 1];
  memset(vectors, 0, (size_t)(m * m) * sizeof(double));
  for (isize i = 0; i < m; i++) vectors[i * m + i] = 1.0;
  for (isize k = m - 3; k >= 0; k--) {
    const double *restrict v = a + k * m + k + 1;
    for (isize i = k + 1; i < m; i++) {
      double *restrict row = vectors + i * m + k + 1, factor = factors[k] * dot(row, v, m - k - 1);
      for (isize j = 0; j < m - k - 1; j++) row[j] -= factor * v[j];
    }
  }
}

/* Entries are at most one: squares that underflow do not count. */
INLINE double length_of_pair(double x, double y) { return sqrt(x * x + y * y); }

/* One QR step with Wilkinson's shift, on the block from `low` to `high` of a tridiagonal matrix. */
static void qr_step(double *d, double *e, double *restrict vectors, isize low, isize high, isize m) {
  double half = 0.5 * (d[high - 1] - d[high]), last = e[high - 1];
  double shift = d[high] - last * last / (half + copysign(length_of_pair(half, last), half));
  double x = d[low] - shift, z = e[low];
  for (isize k = low; k < high; k++) {
    double r = length_of_pair(x, z), c = r > 0.0 ? x / r : 1.0, s = r > 0.0 ? z / r : 0.0;
    if (k > low) e[k - 1] = r;
    double first = d[k], second = d[k + 1], twice = 2.0 * c * s * e[k];
    d[k] = c * c * first + twice + s * s * second;
    d[k + 1] = s * s * first - twice + c * c * second;
    e[k] = c * s * (second - first) + (c * c - s * s) * e[k];
    if (k + 1 < high) {
      x = e[k];
      z = s * e[k + 1];
      e[k + 1] *= c;
    }
    double *restrict p = vectors + k * m, *restrict q = p + m;
    for (isize j = 0; j < m; j++) {
      double value = p[j];
      p[j] = c * value + s * q[j];
      q[j] = c * q[j] - s * value;
    }
  }
}

/* Sort the rows of a matrix by values, smallest first. */
static void sort_rows(double *values, double *rows, isize m) {
  for (isize i = 1; i < m; i++)
    for (isize j = i; j > 0 && values[j] < values[j - 1]; j--) {
      double value = values[j];
      values[j] = values[j - 1];
      values[j - 1] = value;
      for (isize l = 0; l < m; l++) {
        value = rows[j * m + l];
        rows[j * m + l] = rows[(j - 1) * m + l];
        rows[(j - 1) * m + l] = value;
      }
    }
}

int eigen(double *a, double *values, double *vectors, double *work, isize m) {
  double *beside = work, most = 0.0;
  for (isize i = 0; i < m * m; i++) most = fabs(a[i]) > most ? fabs(a[i]) : most;
  double inverse = most > 0.0 ? 1.0 / most : 1.0;
  for (isize i = 0; i < m * m; i++) a[i] *= inverse;
  tridiagonalise(a, values, beside, vectors, work + m, m);
  isize high = m - 1, n_steps = 0;
  while (high > 0) {
    isize low = high;
    while (low > 0 && !(fabs(beside[low - 1]) <= DBL_EPSILON * (fabs(values[low - 1]) + fabs(values[low])))) low--;
    if (low == high) {
      high--;
      continue;
    }
    if (n_steps++ > MAX_STEPS * m) return 0;
    qr_step(values, beside, vectors, low, high, m);
  }
  for (isize i = 0; i < m; i++) values[i] *= most;
  sort_rows(values, vectors, m);
  return 1;
}

/* Sweeps over all pairs of rows, and the cosine of two rows that counts as zero. */
#define MAX_SWEEPS 30
#define MIN_COSINE 1e-15

int orthogonalise(double *rows, double *squares, isize m) {
  for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    double largest = 0.0;
    for (isize j = 0; j < m; j++) squares[j] = dot(rows + j * m, rows + j * m, m);
    sort_rows(squares, rows, m);
    for (isize p = 0; p < m - 1; p++)
      for (isize q = p + 1; q < m; q++) {
        double *restrict first = rows + p * m, *restrict second = rows + q * m, product = dot(first, second, m);
        double cosine = fabs(product) / sqrt(squares[p] * squares[q]);
        largest = cosine > largest ? cosine : largest;
        if (!(cosine > MIN_COSINE)) continue;
        double ratio = 0.5 * (squares[q] - squares[p]) / product;
        double t = copysign(1.0, ratio) / (fabs(ratio) + sqrt(1.0 + ratio * ratio)), c = 1.0 / sqrt(1.0 + t * t);
        double s = c * t;
        for (isize j = 0; j < m; j++) {
          double value = first[j];
          first[j] = c * value - s * second[j];
          second[j] = s * value + c * second[j];
        }
        squares[p] -= t * product;
        squares[q] += t * product;
      }
    if (!(largest > 1e2 * MIN_COSINE)) break;
  }
  for (isize j = 0; j < m; j++) {
    squares[j] = dot(rows + j * m, rows + j * m, m);
    if (!(squares[j] > 0.0)) return 0;
  }
  sort_rows(squares, rows, m);
  return 1;
}
