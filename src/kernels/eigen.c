/* Eigenvalues and eigenvectors of small symmetric matrices, and axes of a factor, by rotations in planes. */

#include "sharing.h"

#include <float.h>

/* Sweeps over all planes, and the cosine of two rows that counts as zero. */
#define MAX_SWEEPS 30
#define MIN_COSINE 1e-15

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

/* The tangent of the smaller angle that makes the product of two directions zero, from it and their squares. */
INLINE double tangent_of(double first, double second, double product) {
  double ratio = 0.5 * (second - first) / product;
  return copysign(1.0, ratio) / (fabs(ratio) + sqrt(1.0 + ratio * ratio));
}

/* Rotate two vectors of m numbers, `step` apart. */
INLINE void turn(double *first, double *second, double t, isize step, isize m) {
  double c = 1.0 / sqrt(1.0 + t * t), s = c * t;
  for (isize j = 0; j < m * step; j += step) {
    double value = first[j];
    first[j] = c * value - s * second[j];
    second[j] = s * value + c * second[j];
  }
}

int eigen(double *a, double *values, double *vectors, isize m) {
  double most = 0.0;
  memset(vectors, 0, (size_t)(m * m) * sizeof(double));
  for (isize i = 0; i < m; i++) {
    vectors[i * m + i] = 1.0;
    most = fabs(a[i * m + i]) > most ? fabs(a[i * m + i]) : most;
  }
  int is_rotated = 1;
  for (int sweep = 0; sweep < MAX_SWEEPS && is_rotated; sweep++) {
    is_rotated = 0;
    for (isize p = 0; p < m - 1; p++)
      for (isize q = p + 1; q < m; q++) {
        double product = a[p * m + q];
        if (!(fabs(product) > DBL_EPSILON * most)) continue;
        double t = tangent_of(a[p * m + p], a[q * m + q], product);
        turn(a + p * m, a + q * m, t, 1, m);
        turn(a + p, a + q, t, m, m);
        turn(vectors + p * m, vectors + q * m, t, 1, m);
        is_rotated = 1;
      }
  }
  for (isize i = 0; i < m; i++) {
    values[i] = a[i * m + i];
    if (!(fabs(values[i]) < INFINITY)) return 0;
  }
  sort_rows(values, vectors, m);
  return 1;
}

int orthogonalise(double *rows, double *squares, isize m) {
  for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    double largest = 0.0;
    for (isize j = 0; j < m; j++) squares[j] = dot(rows + j * m, rows + j * m, m);
    sort_rows(squares, rows, m);
    for (isize p = 0; p < m - 1; p++)
      for (isize q = p + 1; q < m; q++) {
        double product = dot(rows + p * m, rows + q * m, m), cosine = fabs(product) / sqrt(squares[p] * squares[q]);
        largest = cosine > largest ? cosine : largest;
        if (!(cosine > MIN_COSINE)) continue;
        double t = tangent_of(squares[p], squares[q], product);
        turn(rows + p * m, rows + q * m, t, 1, m);
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
