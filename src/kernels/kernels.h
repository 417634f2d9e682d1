/* What the kernels are given, and their table of functions, one table per instruction set.

   Numbers that NumPy needs too, such as MIN_WEIGHT, are those of apolar/_core/constants.py: setup.py defines them. */

#ifndef APOLAR_KERNELS_H
#define APOLAR_KERNELS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The quadratics of a row: |z|^2, the squares of its columns, or all products of two columns. */
enum { SPHERICAL, DIAGONAL, FULL };

/* Where responsibilities come from: exponentials of logits, the largest logit, an array, or the weights alone. */
enum { SOFT, HARD, GIVEN, ALL };

/* Rows as they are stored, and the map z = (x - centre) scale, or z = (x - centre) matrix. */
typedef struct {
  const char *values;
  int64_t n_rows;
  int n_columns;
  ptrdiff_t row_stride, column_stride;
  int is_single;
  const char *weights; /* doubles, or NULL */
  ptrdiff_t weight_stride;
  const double *centre, *scale; /* n_columns each */
  const double *matrix; /* n_columns x n_outputs, or NULL */
  int n_outputs; /* the length of z */
} Rows;

/* A batch of mixtures, by natural parameters: log(weight) + log-density is natural . (1, z, quadratics of z). */
typedef struct {
  int kind, source;
  int n_mixtures, n_components, n_stats;
  const double *natural; /* (n_mixtures * n_components) x n_stats */
  int is_linear; /* whether the natural parameters of all quadratics are zero */
  const double *responsibilities; /* for GIVEN: n_components x n_rows, by strides in doubles */
  ptrdiff_t component_stride, responsibility_stride;
  const double *tails; /* see `Tails.numbers` in apolar/mixture/tails.py, 4 per component; NULL if they are Gaussian */
  double *tail_sums; /* n_parts x 2 x components: of responsibilities, and of these times log(1 + D / dof) */
} Mixtures;

/* Rows in parts of equal length: threads take the next part from a counter, and write the sums of each part to
   its own place, so that the sums do not depend on which thread took it. */
typedef struct {
  int64_t n_parts, part_rows;
  int64_t *counter;
} Parts;

typedef struct {
  double *logits; /* n_components x n_rows, or NULL */
  double *responsibilities; /* n_rows x n_components, or NULL */
  int64_t *labels; /* or NULL */
  double *density; /* or NULL */
  double *sums; /* n_parts x 3: of log-densities, logarithms of largest responsibilities, weights; or NULL */
} RowResults;

/* Rows on which mixtures are compared: their statistics, by lines, for a multiple of ROWS_TOGETHER rows. */
typedef struct {
  const double *row_stats; /* n_stats x n_rows */
  const double *weights; /* n_rows, or NULL if they are all one */
  int64_t n_rows, n_stats;
} ComparedRows;

/* Pairs of components that may be merged; densities are relative to the largest one of each row. */
typedef struct {
  const double *natural; /* of the mergers, n_pairs x n_stats */
  int64_t n_pairs;
  const int64_t *first, *second; /* the components of each pair */
  const double *largest; /* logarithms, n_rows */
  const double *total, *parts; /* n_rows, and of each component n_components x n_rows */
} Mergers;

typedef struct {
  const char *name;
  int (*is_supported)(void);
  /* Each returns 0, or -1 if memory ran out. */
  int (*e_step)(const Rows *, const Mixtures *, const Parts *, double *stats, double *log_likelihood);
  int (*rows)(const Rows *, const Mixtures *, const Parts *, const RowResults *);
  int (*third)(const Rows *, const Parts *, double *sums);
  /* The sums of logarithms of the densities after each merger. */
  int (*merge_costs)(const ComparedRows *, const Mergers *, double *sums);
} Kernels;

const Kernels *kernels_in_use(void);

int64_t next_part(int64_t *counter);

extern const Kernels baseline_kernels;
#if (defined(__x86_64__) || defined(_M_X64)) && (defined(__GNUC__) || defined(__clang__)) && !defined(APOLAR_PLAIN_C)
#define HAS_X86_TARGETS 1
extern const Kernels avx2_kernels, avx512_kernels;
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#define INLINE static __forceinline
#define restrict __restrict
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* Ask for the cache line at an address. */
#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(p) __builtin_prefetch(p, 0, 2)
#else
#define PREFETCH(p) ((void)0)
#endif

#define JOINED(a, b) a##_##b
#define JOINED_VALUE(a, b) JOINED(a, b)
#define NAME(name) JOINED_VALUE(name, TARGET)

#endif
