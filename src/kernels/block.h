/* Blocks of rows turned to lines: the features of rows, one line each. Included by body.h. */

/* Lines are longer than a block by a cache line: with a power of two they would compete for the same places. */
#define PADDING 8
/* The rows of a block: a multiple of the least number, which is one of all vectors of a loop. */
#define MAX_ROWS 256
#define MIN_ROWS 32
/* The memory of the lines of a block, in numbers: half of a second cache. */
#define BLOCK_NUMBERS 65536

typedef struct {
  int length, stride; /* rows of a block, and numbers from one line to the next */
  double *features, *centred, *logits, *weighted, *weights, *tiles;
  void *memory;
  const char *next_rows; /* what is asked for from memory while this block is worked on, or NULL */
} NAME(Block);

static int NAME(block_of)(NAME(Block) *block, const Rows *rows, int n_lines, int n_logits, int64_t n_tiled) {
  int n_centred = rows->matrix ? rows->n_columns : 0;
  /* Tiles may read up to three lines more than there are. */
  int64_t n_all = (int64_t)(n_lines + 3) + n_centred + (n_lines + 1) + 1 + n_logits + 1;
  int length = MAX_ROWS;
  while (length > MIN_ROWS && length * n_all > BLOCK_NUMBERS) length /= 2;
  if (rows->n_rows <= 4 * length) {
    /* Few rows: blocks of equal length, so that the last is not mostly padding. */
    int n_blocks = (int)((rows->n_rows + length - 1) / length);
    int even = n_blocks ? (int)((rows->n_rows + n_blocks - 1) / n_blocks) : MIN_ROWS;
    length = (even + MIN_ROWS - 1) / MIN_ROWS * MIN_ROWS;
  }
  block->length = length;
  block->stride = length + PADDING;
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

/* Ask for the rows of the next block that correspond to one vector of this one. A few lines at a time, between other
   work: more than the processor has room for would make it wait. */
INLINE void NAME(prefetch)(const char *next_rows, ptrdiff_t row_stride, int first) {
  if (!next_rows) return;
  for (ptrdiff_t p = first * row_stride; p < (first + LANES) * row_stride; p += 64) PREFETCH(next_rows + p);
}

/* The rows of the next block, if they are whole, and stored next to each other, or nearly so. */
INLINE const char *NAME(next_rows)(const Rows *rows, int64_t start, int length) {
  ptrdiff_t item = rows->is_single ? 4 : 8, row = rows->n_columns * item;
  int is_near = rows->column_stride == item && rows->row_stride >= row && rows->row_stride <= 2 * row;
  return is_near && start + 2 * (int64_t)length <= rows->n_rows ? rows->values + (start + length) * rows->row_stride : NULL;
}

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
      if (j == 0) NAME(prefetch)(next_rows, rows->row_stride, i);                                                \
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
INLINE void NAME(read_block)(const Rows *rows, int64_t start, int n, double *restrict out, int stride, int length,
                             const char *next_rows) {
  int m = rows->n_columns;
  const char *first = rows->values + start * rows->row_stride;
  (void)next_rows;
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
INLINE void NAME(write_features)(const Rows *rows, int kind, NAME(Block) *block, int64_t start, int n, int is_later) {
  int m = rows->n_outputs, stride = block->stride, length = block->length;
  const char *next_rows = NAME(next_rows)(rows, start, length);
  /* The next block is asked for while this one is read, or later, where there is more to do meanwhile. */
  block->next_rows = is_later ? next_rows : NULL;
  if (is_later) next_rows = NULL;
  double *z = block->features + stride;
  if (rows->matrix) {
    NAME(read_block)(rows, start, n, block->centred, stride, length, next_rows);
    NAME(transform)(block->centred, z, rows->matrix, rows->n_columns, m, stride, length);
  } else {
    NAME(read_block)(rows, start, n, z, stride, length, next_rows);
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
