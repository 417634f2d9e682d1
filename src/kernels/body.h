/* Sums over rows for one instruction set. TARGET names it, LANES is the length of its vectors, and GROUP the
   number of vectors that a loop holds in registers.

   Rows are read in blocks and turned to columns: a feature is one line of BLOCK numbers, one per row, so that
   all arithmetic is on vectors of rows, and a block stays in the first cache. A block of fewer rows is padded by
   rows of zeros with weight zero. */

#include "vector.h"

/* Lines are longer than a block by a cache line: with a power of two they would compete for the same places. */
#define PADDING 8
/* A logit is raised to this much below the largest of its row: exp(-100) is 4e-44. */
#define LEAST_LOGIT -100.0
/* The rows of a block: a multiple of the least number, which is one of all vectors of a loop. */
#define MOST_ROWS 256
#define LEAST_ROWS 32
/* The memory of the lines of a block, in numbers: half of a second cache. */
#define BLOCK_NUMBERS 65536

typedef struct {
  int length, stride; /* rows of a block, and numbers from one line to the next */
  int n_lines; /* of features: 1, z, and quadratics of z that are lines */
  double *features, *centred, *logits, *weighted, *weights, *tiles;
  void *memory;
} NAME(Block);

static int NAME(block_of)(NAME(Block) *block, const Rows *rows, int n_lines, int n_logits, int64_t n_tiled) {
  int n_centred = rows->matrix ? rows->n_columns : 0;
  /* Tiles may read up to three lines more than there are. */
  int64_t n_all = (int64_t)(n_lines + 3) + n_centred + (n_lines + 1) + 1 + n_logits + 1;
  int length = MOST_ROWS;
  while (length > LEAST_ROWS && length * n_all > BLOCK_NUMBERS) length /= 2;
  if (rows->n_rows <= 4 * length) {
    /* Few rows: blocks of equal length, so that the last is not mostly padding. */
    int n_blocks = (int)((rows->n_rows + length - 1) / length);
    int even = n_blocks ? (int)((rows->n_rows + n_blocks - 1) / n_blocks) : LEAST_ROWS;
    length = (even + LEAST_ROWS - 1) / LEAST_ROWS * LEAST_ROWS;
  }
  block->length = length;
  block->stride = length + PADDING;
  block->n_lines = n_lines;
  size_t size = (size_t)(n_all * block->stride + n_tiled) * sizeof(double) + 64;
  block->memory = calloc(size, 1);
  if (!block->memory) return -1;
  double *next = (double *)(((uintptr_t)block->memory + 63) & ~(uintptr_t)63);
  block->features = next, next += (ptrdiff_t)(n_lines + 3) * block->stride;
  block->centred = next, next += (ptrdiff_t)n_centred * block->stride;
  block->weighted = next, next += (ptrdiff_t)(n_lines + 1) * block->stride;
  block->weights = next, next += block->stride;
  block->logits = next, next += (ptrdiff_t)(n_logits + 1) * block->stride;
  block->tiles = next;
  for (int i = 0; i < block->stride; i++) block->features[i] = 1.0;
  return 0;
}

/* --- rows to lines ----------------------------------------------------------------------------------------- */

/* Columns of any strides, one by one. */
#define READ_COLUMNS(TYPE)                                                                                       \
  for (int j = 0; j < m; j++) {                                                                                  \
    const char *column = first + j * rows->column_stride;                                                        \
    double *line = out + (ptrdiff_t)j * stride;                                                                  \
    double centre = rows->centre[j], scale = rows->scale[j];                                                     \
    for (int i = 0; i < n; i++) line[i] = (*(const TYPE *)(column + i * rows->row_stride) - centre) * scale;     \
  }

#if LANES > 1
/* Rows whose columns are next to each other, in squares. The last square overlaps the one before. */
#define READ_SQUARES(TYPE, LOAD_ROW)                                                                             \
  for (int j = 0; j < m; j += LANES) {                                                                           \
    if (j > m - LANES) j = m - LANES;                                                                            \
    const char *square = first + j * (ptrdiff_t)sizeof(TYPE);                                                    \
    int i = 0;                                                                                                   \
    for (; i + LANES <= n; i += LANES) {                                                                         \
      VEC v[LANES];                                                                                              \
      for (int a = 0; a < LANES; a++) v[a] = LOAD_ROW((const TYPE *)(square + (i + a) * rows->row_stride));      \
      NAME(transpose)(v);                                                                                        \
      for (int b = 0; b < LANES; b++)                                                                            \
        STORE(out + (ptrdiff_t)(j + b) * stride + i, (v[b] - SPLAT(rows->centre[j + b])) * SPLAT(rows->scale[j + b])); \
    }                                                                                                            \
    for (; i < n; i++)                                                                                           \
      for (int b = 0; b < LANES; b++)                                                                            \
        out[(ptrdiff_t)(j + b) * stride + i] =                                                                   \
            (((const TYPE *)(square + i * rows->row_stride))[b] - rows->centre[j + b]) * rows->scale[j + b];     \
  }
#endif

/* Write n rows from a position on, minus the centre and scaled, to m lines. */
INLINE void NAME(read_block)(const Rows *rows, int64_t start, int n, double *restrict out, int stride, int length) {
  int m = rows->n_columns;
  const char *first = rows->values + start * rows->row_stride;
#if LANES > 1
  int is_square = m >= LANES && rows->column_stride == (rows->is_single ? 4 : 8);
  if (is_square && rows->is_single) {
    READ_SQUARES(float, LOAD_SINGLES)
  } else if (is_square) {
    READ_SQUARES(double, LOAD_UNALIGNED)
  } else
#endif
      if (rows->is_single) {
    READ_COLUMNS(float)
  } else {
    READ_COLUMNS(double)
  }
  for (int j = 0; n < length && j < m; j++)
    memset(out + (ptrdiff_t)j * stride + n, 0, (size_t)(length - n) * sizeof(double));
}

/* out = matrix^t in, line by line. */
INLINE void NAME(transform)(const double *restrict in, double *restrict out, const double *matrix, int m, int n_out,
                            int stride, int length) {
  for (int j = 0; j < n_out; j += 4) {
    int n = n_out - j < 4 ? n_out - j : 4;
    for (int v = 0; v < length; v += 2 * LANES) {
      VEC acc[4][2];
      for (int a = 0; a < 4; a++) acc[a][0] = acc[a][1] = SPLAT(0.0);
      if (n == 4) {
        for (int i = 0; i < m; i++) {
          const double *line = in + (ptrdiff_t)i * stride + v, *entry = matrix + (ptrdiff_t)i * n_out + j;
          VEC x = LOAD(line), y = LOAD(line + LANES);
          for (int a = 0; a < 4; a++) {
            acc[a][0] += SPLAT(entry[a]) * x;
            acc[a][1] += SPLAT(entry[a]) * y;
          }
        }
      } else {
        for (int i = 0; i < m; i++) {
          const double *line = in + (ptrdiff_t)i * stride + v, *entry = matrix + (ptrdiff_t)i * n_out + j;
          VEC x = LOAD(line), y = LOAD(line + LANES);
          for (int a = 0; a < n; a++) {
            acc[a][0] += SPLAT(entry[a]) * x;
            acc[a][1] += SPLAT(entry[a]) * y;
          }
        }
      }
      for (int a = 0; a < n; a++) {
        double *line = out + (ptrdiff_t)(j + a) * stride + v;
        STORE(line, acc[a][0]);
        STORE(line + LANES, acc[a][1]);
      }
    }
  }
}

/* Write the features of n rows: z, and |z|^2 or the squares of z; and their weights, zero in the padding. */
INLINE void NAME(write_features)(const Rows *rows, int kind, NAME(Block) *block, int64_t start, int n) {
  int m = rows->n_outputs, stride = block->stride, length = block->length;
  double *z = block->features + stride;
  if (rows->matrix) {
    NAME(read_block)(rows, start, n, block->centred, stride, length);
    NAME(transform)(block->centred, z, rows->matrix, rows->n_columns, m, stride, length);
  } else {
    NAME(read_block)(rows, start, n, z, stride, length);
  }
  double *quadratics = z + (ptrdiff_t)m * stride;
  if (kind == SPHERICAL) {
    for (int v = 0; v < length; v += LANES) {
      VEC sum = SPLAT(0.0);
      for (int j = 0; j < m; j++) {
        VEC x = LOAD(z + (ptrdiff_t)j * stride + v);
        sum += x * x;
      }
      STORE(quadratics + v, sum);
    }
  } else if (kind == DIAGONAL) {
    for (int j = 0; j < m; j++) {
      for (int v = 0; v < length; v += LANES) {
        VEC x = LOAD(z + (ptrdiff_t)j * stride + v);
        STORE(quadratics + (ptrdiff_t)j * stride + v, x * x);
      }
    }
  }
  for (int i = 0; i < n; i++)
    block->weights[i] = rows->weights ? *(const double *)(rows->weights + (start + i) * rows->weight_stride) : 1.0;
  for (int i = n; i < length; i++) block->weights[i] = 0.0;
}

/* --- logits ------------------------------------------------------------------------------------------------ */

/* n lines of logits, from as many lines of natural parameters: products with lines of features. */
#define LINEAR_TILE(N)                                                                                           \
  for (int v = 0; v < length; v += 2 * LANES) {                                                                  \
    VEC acc[N][2];                                                                                               \
    for (int a = 0; a < N; a++) acc[a][0] = acc[a][1] = SPLAT(natural[(ptrdiff_t)a * n_stats]);                  \
    for (int f = 1; f < n_used; f++) {                                                                           \
      const double *line = features + (ptrdiff_t)f * stride + v;                                                 \
      VEC x = LOAD(line), y = LOAD(line + LANES);                                                                \
      KEEP(x);                                                                                                   \
      KEEP(y);                                                                                                   \
      for (int a = 0; a < N; a++) {                                                                              \
        VEC c = SPLAT(natural[(ptrdiff_t)a * n_stats + f]);                                                      \
        acc[a][0] += c * x;                                                                                      \
        acc[a][1] += c * y;                                                                                      \
      }                                                                                                          \
    }                                                                                                            \
    for (int a = 0; a < N; a++) {                                                                                \
      STORE(logits + (ptrdiff_t)a * stride + v, acc[a][0]);                                                      \
      STORE(logits + (ptrdiff_t)a * stride + v + LANES, acc[a][1]);                                              \
    }                                                                                                            \
  }

INLINE void NAME(linear_logits)(const double *features, const double *natural, double *logits, int n, int n_used,
                                int n_stats, int stride, int length) {
  while (n >= 4) {
    LINEAR_TILE(4)
    n -= 4, natural += 4 * (ptrdiff_t)n_stats, logits += 4 * (ptrdiff_t)stride;
  }
  if (n >= 2) {
    LINEAR_TILE(2)
    n -= 2, natural += 2 * (ptrdiff_t)n_stats, logits += 2 * (ptrdiff_t)stride;
  }
  if (n) {
    LINEAR_TILE(1)
  }
}

/* The same for all products of two features: sum_i a_i sum_j>=i natural_ij a_j, with a_0 = 1. */
#define FULL_TILE(N)                                                                                             \
  for (int v = 0; v < length; v += GROUP * LANES) {                                                              \
    VEC acc[N][GROUP], sum[N][GROUP];                                                                            \
    const double *p = natural;                                                                                   \
    for (int a = 0; a < N; a++)                                                                                  \
      for (int g = 0; g < GROUP; g++) acc[a][g] = SPLAT(p[(ptrdiff_t)a * n_stats]);                              \
    p++;                                                                                                         \
    for (int j = 1; j < dim; j++, p++) {                                                                         \
      const double *line = features + (ptrdiff_t)j * stride + v;                                                 \
      for (int a = 0; a < N; a++) {                                                                              \
        VEC c = SPLAT(p[(ptrdiff_t)a * n_stats]);                                                                \
        for (int g = 0; g < GROUP; g++) acc[a][g] += c * LOAD(line + g * LANES);                                 \
      }                                                                                                          \
    }                                                                                                            \
    for (int i = 1; i < dim; i++) {                                                                              \
      for (int a = 0; a < N; a++)                                                                                \
        for (int g = 0; g < GROUP; g++) sum[a][g] = SPLAT(0.0);                                                  \
      for (int j = i; j < dim; j++, p++) {                                                                       \
        const double *line = features + (ptrdiff_t)j * stride + v;                                               \
        VEC x[GROUP];                                                                                            \
        for (int g = 0; g < GROUP; g++) {                                                                        \
          x[g] = LOAD(line + g * LANES);                                                                         \
          KEEP(x[g]);                                                                                            \
        }                                                                                                        \
        for (int a = 0; a < N; a++) {                                                                            \
          VEC c = SPLAT(p[(ptrdiff_t)a * n_stats]);                                                              \
          for (int g = 0; g < GROUP; g++) sum[a][g] += c * x[g];                                                 \
        }                                                                                                        \
      }                                                                                                          \
      const double *line = features + (ptrdiff_t)i * stride + v;                                                 \
      for (int a = 0; a < N; a++)                                                                                \
        for (int g = 0; g < GROUP; g++) acc[a][g] += sum[a][g] * LOAD(line + g * LANES);                         \
    }                                                                                                            \
    for (int a = 0; a < N; a++)                                                                                  \
      for (int g = 0; g < GROUP; g++) STORE(logits + (ptrdiff_t)a * stride + v + g * LANES, acc[a][g]);          \
  }

INLINE void NAME(full_logits)(const double *features, const double *natural, double *logits, int n, int dim,
                              int n_stats, int stride, int length) {
  for (; n >= 2; n -= 2, natural += 2 * (ptrdiff_t)n_stats, logits += 2 * (ptrdiff_t)stride) {
    FULL_TILE(2)
  }
  if (n) {
    FULL_TILE(1)
  }
}

INLINE void NAME(write_logits)(const Mixtures *mixtures, NAME(Block) *block, int m) {
  int n = mixtures->n_mixtures * mixtures->n_components;
  if (mixtures->kind == FULL && !mixtures->is_linear) {
    NAME(full_logits)(block->features, mixtures->natural, block->logits, n, 1 + m, mixtures->n_stats, block->stride,
                      block->length);
  } else {
    int n_used = mixtures->is_linear ? 1 + m : mixtures->n_stats;
    NAME(linear_logits)(block->features, mixtures->natural, block->logits, n, n_used, mixtures->n_stats,
                        block->stride, block->length);
  }
}

/* --- responsibilities -------------------------------------------------------------------------------------- */

/* Replace the logits of one mixture by responsibilities times weights; return the sum of log-densities. */
INLINE double NAME(soft)(double *logits, int n_components, const double *weights, int is_weighted, int stride,
                         int length) {
  VEC total = SPLAT(0.0), product = SPLAT(1.0);
  for (int v = 0; v < length; v += LANES) {
    double *l = logits + v;
    VEC largest = LOAD(l), sum = SPLAT(0.0), weight = LOAD(weights + v);
    for (int k = 1; k < n_components; k++) {
      VEC x = LOAD(l + (ptrdiff_t)k * stride);
      largest = MAXIMUM(x, largest);
    }
    for (int k = 0; k < n_components; k++) {
      VEC x = LOAD(l + (ptrdiff_t)k * stride) - largest;
      VEC e = NAME(exponential)(MAXIMUM(x, SPLAT(LEAST_LOGIT)));
      STORE(l + (ptrdiff_t)k * stride, e);
      sum += e;
    }
    VEC factor = weight / sum;
    for (int k = 0; k < n_components; k++) {
      double *entry = l + (ptrdiff_t)k * stride;
      STORE(entry, LOAD(entry) * factor);
    }
    total += weight * largest;
    if (is_weighted) {
      total += weight * NAME(logarithm)(sum);
    } else {
      /* One logarithm of a product is cheaper than many. Sums are from 1 to n_components; there are at most 256
         of them, or 32 in each lane: no overflow. In the padding the factor is 1. */
      product *= sum * weight + (SPLAT(1.0) - weight);
      if (LANES == 1 || v % (32 * LANES) == 31 * LANES) {
        total += NAME(logarithm)(product);
        product = SPLAT(1.0);
      }
    }
  }
  if (!is_weighted) total += NAME(logarithm)(product);
  return NAME(sum_of)(total);
}

/* Replace the logits of one mixture by the weight at the first of the largest, and zero elsewhere. */
INLINE void NAME(hard)(double *logits, int n_components, const double *weights, int stride, int length) {
  for (int v = 0; v < length; v += LANES) {
    double *l = logits + v;
    VEC largest = LOAD(l), weight = LOAD(weights + v);
    for (int k = 1; k < n_components; k++) {
      VEC x = LOAD(l + (ptrdiff_t)k * stride);
      largest = MAXIMUM(x, largest);
    }
    for (int k = 0; k < n_components; k++) {
      double *entry = l + (ptrdiff_t)k * stride;
      VEC part = SELECT(LOAD(entry) == largest, weight, SPLAT(0.0));
      STORE(entry, part);
      weight -= part;
    }
  }
}

/* --- sums under responsibilities --------------------------------------------------------------------------- */

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

/* --- the kernels ------------------------------------------------------------------------------------------- */

static int NAME(n_lines)(int kind, int m) {
  return kind == SPHERICAL ? m + 2 : kind == DIAGONAL ? 2 * m + 1 : m + 1;
}

static int NAME(e_step)(const Rows *rows, const Mixtures *mixtures, const Parts *parts, double *stats,
                        double *log_likelihood) {
  int n_mixtures = mixtures->n_mixtures, n_components = mixtures->n_components, n_stats = mixtures->n_stats;
  int n = n_mixtures * n_components, m = rows->n_outputs, n_lines = NAME(n_lines)(mixtures->kind, m);
  /* The lines (1, z) are even in number, for tiles of two, or those of z are. */
  int is_full = mixtures->kind == FULL, is_apart = is_full && m % 2 == 0;
  int64_t n_tiled = is_full ? n * NAME(n_triangle)(is_apart ? m : m + 1) : 0;
  if (!is_full || is_apart) n_tiled += NAME(n_linear)(n, n_lines);
  NAME(Block) block;
  if (NAME(block_of)(&block, rows, n_lines, n, n_tiled)) return -1;
  int length = block.length, stride = block.stride;
  for (int64_t part; (part = next_part(parts->counter)) < parts->n_parts;) {
    double *out = stats + part * n * n_stats, *likelihood = log_likelihood + part * n_mixtures;
    int64_t stop = (part + 1) * parts->part_rows;
    if (stop > rows->n_rows) stop = rows->n_rows;
    for (int64_t start = part * parts->part_rows; start < stop; start += length) {
      int n_rows = stop - start < length ? (int)(stop - start) : length;
      NAME(write_features)(rows, mixtures->kind, &block, start, n_rows);
      if (mixtures->source == SOFT || mixtures->source == HARD) NAME(write_logits)(mixtures, &block, m);
      if (mixtures->source == SOFT) {
        for (int h = 0; h < n_mixtures; h++) {
          double *logits = block.logits + (ptrdiff_t)h * n_components * stride;
          likelihood[h] += NAME(soft)(logits, n_components, block.weights, rows->weights != NULL, stride, length);
        }
      } else if (mixtures->source == HARD) {
        NAME(hard)(block.logits, n, block.weights, stride, length);
      } else if (mixtures->source == GIVEN) {
        for (int k = 0; k < n; k++) {
          const double *given = mixtures->responsibilities + k * mixtures->component_stride;
          double *line = block.logits + (ptrdiff_t)k * stride;
          for (int i = 0; i < n_rows; i++)
            line[i] = given[(start + i) * mixtures->responsibility_stride] * block.weights[i];
          for (int i = n_rows; i < length; i++) line[i] = 0.0;
        }
      } else {
        memcpy(block.logits, block.weights, (size_t)length * sizeof(double));
      }
      double *tile = block.tiles;
      if (!is_full || is_apart)
        tile = NAME(add_linear)(block.logits, block.features, tile, n, n_lines, stride, length);
      for (int k = 0; is_full && k < n; k++)
        tile = NAME(add_triangle)(block.logits + (ptrdiff_t)k * stride, block.features + (is_apart ? stride : 0),
                                  block.weighted, tile, is_apart ? m : m + 1, stride, length);
    }
    double *tile = block.tiles;
    if (!is_full || is_apart) tile = NAME(take_linear)(tile, out, n, n_lines, n_stats);
    for (int k = 0; is_full && k < n; k++)
      tile = NAME(take_triangle)(tile, out + (ptrdiff_t)k * n_stats + (is_apart ? 1 + m : 0), is_apart ? m : m + 1);
  }
  free(block.memory);
  return 0;
}

static int NAME(rows)(const Rows *rows, const Mixtures *mixtures, const Parts *parts, const RowResults *results) {
  int n = mixtures->n_components, m = rows->n_outputs;
  NAME(Block) block;
  if (NAME(block_of)(&block, rows, NAME(n_lines)(mixtures->kind, m), n, 0)) return -1;
  int length = block.length, stride = block.stride;
  for (int64_t part; (part = next_part(parts->counter)) < parts->n_parts;) {
    int64_t stop = (part + 1) * parts->part_rows;
    if (stop > rows->n_rows) stop = rows->n_rows;
    for (int64_t start = part * parts->part_rows; start < stop; start += length) {
      int n_rows = stop - start < length ? (int)(stop - start) : length;
      NAME(write_features)(rows, mixtures->kind, &block, start, n_rows);
      NAME(write_logits)(mixtures, &block, m);
      if (results->logits) {
        for (int k = 0; k < n; k++)
          memcpy(results->logits + k * rows->n_rows + start, block.logits + (ptrdiff_t)k * stride,
                 (size_t)n_rows * sizeof(double));
        continue;
      }
      /* Here a line of working memory holds logarithms of sums, another the largest logits. */
      double *largest_of = block.weighted, *log_sums = block.weighted + stride;
      for (int v = 0; v < length; v += LANES) {
        double *l = block.logits + v;
        VEC largest = LOAD(l), sum = SPLAT(0.0);
        for (int k = 1; k < n; k++) {
          VEC x = LOAD(l + (ptrdiff_t)k * stride);
          largest = MAXIMUM(x, largest);
        }
        for (int k = 0; k < n; k++) {
          VEC x = LOAD(l + (ptrdiff_t)k * stride) - largest;
          VEC e = NAME(exponential)(MAXIMUM(x, SPLAT(LEAST_LOGIT)));
          STORE(l + (ptrdiff_t)k * stride, e);
          sum += e;
        }
        if (results->responsibilities) {
          VEC factor = SPLAT(1.0) / sum;
          for (int k = 0; k < n; k++) {
            double *entry = l + (ptrdiff_t)k * stride;
            STORE(entry, LOAD(entry) * factor);
          }
        }
        STORE(largest_of + v, largest);
        STORE(log_sums + v, NAME(logarithm)(sum));
      }
      if (results->responsibilities) {
        double *out = results->responsibilities + start * n;
        for (int i = 0; i < n_rows; i++)
          for (int k = 0; k < n; k++) out[(ptrdiff_t)i * n + k] = block.logits[(ptrdiff_t)k * stride + i];
      }
      if (results->labels) {
        for (int i = 0; i < n_rows; i++) {
          int best = 0;
          for (int k = 1; k < n; k++)
            if (block.logits[(ptrdiff_t)k * stride + i] > block.logits[(ptrdiff_t)best * stride + i]) best = k;
          results->labels[start + i] = best;
        }
      }
      if (results->density)
        for (int i = 0; i < n_rows; i++) results->density[start + i] = largest_of[i] + log_sums[i] + results->offset;
      if (results->sums) {
        VEC density = SPLAT(0.0), certainty = SPLAT(0.0), weight = SPLAT(0.0);
        for (int v = 0; v < length; v += LANES) {
          VEC w = LOAD(block.weights + v), log_sum = LOAD(log_sums + v);
          density += w * (LOAD(largest_of + v) + log_sum);
          certainty -= w * log_sum;
          weight += w;
        }
        double *sums = results->sums + 3 * part;
        sums[0] += NAME(sum_of)(density), sums[1] += NAME(sum_of)(certainty), sums[2] += NAME(sum_of)(weight);
      }
    }
  }
  free(block.memory);
  return 0;
}

/* sums of each part: of |x|^2 x, with x = (x - centre) scale, then of z_i z_j z_k for i <= j <= k, weighted. */
static int NAME(third)(const Rows *rows, const Parts *parts, double *all_sums) {
  int m = rows->n_columns, dim = rows->n_outputs;
  int64_t n_sums = m + (int64_t)dim * (dim + 1) * (dim + 2) / 6;
  NAME(Block) block;
  int64_t n_tiled = NAME(n_linear)(1, m);
  for (int i = 0; i < dim; i++) n_tiled += NAME(n_triangle)(dim - i);
  if (NAME(block_of)(&block, rows, dim + 1, 2, n_tiled)) return -1;
  int length = block.length, stride = block.stride;
  double *z = block.features + stride, *squares = block.logits, *weight = block.logits + stride;
  const double *x = rows->matrix ? block.centred : z;
  for (int64_t part; (part = next_part(parts->counter)) < parts->n_parts;) {
    double *sums = all_sums + part * n_sums;
    int64_t stop = (part + 1) * parts->part_rows;
    if (stop > rows->n_rows) stop = rows->n_rows;
    for (int64_t start = part * parts->part_rows; start < stop; start += length) {
      int n_rows = stop - start < length ? (int)(stop - start) : length;
      NAME(write_features)(rows, FULL, &block, start, n_rows);
      for (int v = 0; v < length; v += LANES) {
        VEC sum = SPLAT(0.0);
        for (int j = 0; j < m; j++) {
          VEC value = LOAD(x + (ptrdiff_t)j * stride + v);
          sum += value * value;
        }
        STORE(squares + v, sum * LOAD(block.weights + v));
      }
      double *tile = NAME(add_linear)(squares, x, block.tiles, 1, m, stride, length);
      for (int i = 0; i < dim; i++) {
        const double *line = z + (ptrdiff_t)i * stride;
        for (int v = 0; v < length; v += LANES) STORE(weight + v, LOAD(line + v) * LOAD(block.weights + v));
        tile = NAME(add_triangle)(weight, line, block.weighted, tile, dim - i, stride, length);
      }
    }
    double *tile = NAME(take_linear)(block.tiles, sums, 1, m, m), *out = sums + m;
    for (int i = 0; i < dim; i++) {
      tile = NAME(take_triangle)(tile, out, dim - i);
      out += (ptrdiff_t)(dim - i) * (dim - i + 1) / 2;
    }
  }
  free(block.memory);
  return 0;
}
