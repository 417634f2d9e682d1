/* Sums of products of lines. Included by body.h. */

/* Sums over the rows of many blocks are kept in tiles of eight numbers, and put into their places at the end. */

/* Add the products of NA lines with NB lines, NA NB <= 8, summed over rows, to the next tile. */
#define ADD_TILE(NA, NB, FIRST, SECOND)                                                                          \
  {                                                                                                              \
    VEC acc[8];                                                                                                  \
    for (int t = 0; t < 8; t++) acc[t] = SPLAT(0.0);                                                             \
    for (int v = 0; v < length; v += LANES) {                                                                    \
      VEC x[NA];                                                                                                 \
      for (int a = 0; a < NA; a++) x[a] = LOAD((FIRST) + (ptrdiff_t)a * stride + v);                             \
      for (int b = 0; b < NB; b++) {                                                                             \
        VEC y = LOAD((SECOND) + (ptrdiff_t)b * stride + v);                                                      \
        KEEP(y);                                                                                                 \
        for (int a = 0; a < NA; a++) acc[a * NB + b] += x[a] * y;                                                \
      }                                                                                                          \
    }                                                                                                            \
    NAME(add_sums)(acc, tile);                                                                                   \
    tile += 8;                                                                                                   \
  }

/* Put a tile of NA x NB numbers into its places, and empty it. */
#define TAKE_TILE(NA, NB, PLACE, IS_PLACE)                                                                       \
  {                                                                                                              \
    for (int a = 0; a < NA; a++)                                                                                 \
      for (int b = 0; b < NB; b++)                                                                               \
        if (IS_PLACE) out[PLACE] += tile[a * NB + b];                                                            \
    memset(tile, 0, 8 * sizeof(double));                                                                         \
    tile += 8;                                                                                                   \
  }

/* Responsibilities (n lines) times features. Returns the end of the tiles. */
INLINE double *NAME(add_linear)(const double *responsibilities, const double *features, double *tile, int n,
                                int n_lines, int stride, int length) {
  int k = 0;
  for (; k + 2 <= n; k += 2)
    for (int f = 0; f < n_lines; f += 4)
      ADD_TILE(2, 4, responsibilities + (ptrdiff_t)k * stride, features + (ptrdiff_t)f * stride)
  if (k < n)
    for (int f = 0; f < n_lines; f += 4)
      ADD_TILE(1, 4, responsibilities + (ptrdiff_t)k * stride, features + (ptrdiff_t)f * stride)
  return tile;
}

static double *NAME(take_linear)(double *tile, double *out, int n, int n_lines, int n_stats) {
  for (int k = 0; k < n; k += 2)
    for (int f = 0; f < n_lines; f += 4)
      TAKE_TILE(2, 4, (ptrdiff_t)(k + a) * n_stats + f + b, k + a < n && f + b < n_lines)
  return tile;
}

static int64_t NAME(n_linear)(int64_t n, int64_t n_lines) { return (n + 1) / 2 * ((n_lines + 3) / 4) * 8; }

/* The upper triangle of the dim x dim matrix, the sum of weight a a^t, for lines a. */
INLINE double *NAME(add_triangle)(const double *weight, const double *lines, double *weighted, double *tile, int dim,
                                  int stride, int length) {
  for (int i = 0; i < dim; i++)
    for (int v = 0; v < length; v += LANES)
      STORE(weighted + (ptrdiff_t)i * stride + v, LOAD(lines + (ptrdiff_t)i * stride + v) * LOAD(weight + v));
  for (int i = 0; i < dim; i += 2) {
    const double *first = weighted + (ptrdiff_t)i * stride;
    int j = i;
    for (; j + 2 < dim; j += 4) ADD_TILE(2, 4, first, lines + (ptrdiff_t)j * stride)
    if (j < dim) ADD_TILE(2, 2, first, lines + (ptrdiff_t)j * stride)
  }
  return tile;
}

static double *NAME(take_triangle)(double *tile, double *out, int dim) {
#define PLACE_IN_TRIANGLE (ptrdiff_t)(i + a) * dim - (ptrdiff_t)(i + a) * (i + a - 1) / 2 + j + b - i - a
#define IS_IN_TRIANGLE j + b < dim && i + a < dim && j + b >= i + a
  for (int i = 0; i < dim; i += 2) {
    int j = i;
    for (; j + 2 < dim; j += 4) TAKE_TILE(2, 4, PLACE_IN_TRIANGLE, IS_IN_TRIANGLE)
    if (j < dim) TAKE_TILE(2, 2, PLACE_IN_TRIANGLE, IS_IN_TRIANGLE)
  }
#undef PLACE_IN_TRIANGLE
#undef IS_IN_TRIANGLE
  return tile;
}

static int64_t NAME(n_triangle)(int64_t dim) {
  int64_t n = 0;
  for (int64_t i = 0; i < dim; i += 2) n += (dim - i + 3) / 4 * 8;
  return n;
}
