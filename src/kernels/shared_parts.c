/* Covariances that share a part: the M-step of the families, given scatters and divisors. */

#include "sharing.h"

/* The least pivot of a scatter, relative to its diagonal, whose factor is used. */
#define MIN_PIVOT 1e-12

int sharing_of(Sharing *sharing, const char *code, isize m, isize n_components) {
  static const char *const codes[] = {"EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE",
                                      "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"};
  memset(sharing, 0, sizeof *sharing);
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
    if (!strcmp(codes[i], code)) sharing->code = codes[i];
  if (!sharing->code) return 0;
  sharing->form = form_of(code[2] != 'I' ? FULL : code[1] != 'I' ? DIAGONAL : SPHERICAL, m);
  sharing->is_tied = !strcmp(code, "EII") || !strcmp(code, "EEI") || !strcmp(code, "EEE");
  sharing->n_components = n_components;
  sharing->n_covariances = sharing->is_tied ? 1 : n_components;
  return 1;
}

isize working_memory(const Sharing *sharing) {
  isize m = sharing->form.m, r = sharing->n_components, v = sharing->form.v;
  /* Scatters and divisors of the M-step; and of matrices what the axes that all share take, which is most. */
  return r * v + 4 * r + 2 * m + (sharing->form.kind == FULL ? (3 * v + 2 * m) * r + 5 * v + 8 * m : 0);
}

/* Volumes v_k, and one shape a, for variances v_k a, by alternation; both up to a factor. It converges to the only
   maximum. The scatters (n_components, m) are raised above zero. */
static void volumes_and_shape(const Sharing *sharing, double *scatter, const double *divisors, double *volumes,
                              double *shape) {
  isize m = sharing->form.m, r = sharing->n_components;
  double total = 0.0;
  raise_above_zero(scatter, r * m);
  for (isize k = 0; k < r; k++) {
    volumes[k] = exp(mean_log(scatter + k * m, m)) / divisors[k];
    total += divisors[k];
  }
  for (int round = 0; round < VOLUME_ROUNDS; round++) {
    int has_changed = 0;
    memset(shape, 0, (size_t)m * sizeof(double));
    for (isize k = 0; k < r; k++) {
      double factor = 1.0 / volumes[k];
      for (isize j = 0; j < m; j++) shape[j] += scatter[k * m + j] * factor;
    }
    /* Inverses, for the sums that follow. With this factor volumes do not grow or shrink from round to round. */
    for (isize j = 0; j < m; j++) shape[j] = total / shape[j];
    for (isize k = 0; k < r; k++) {
      double before = volumes[k];
      volumes[k] = dot(scatter + k * m, shape, m) / ((double)m * divisors[k]);
      has_changed |= !(fabs(volumes[k] - before) <= VOLUME_TOLERANCE * volumes[k]);
    }
    if (!has_changed) break;
  }
  for (isize j = 0; j < m; j++) shape[j] = 1.0 / shape[j];
}

/* Write axes, the rows of a matrix, in the coordinates of the mixture. */
static void in_coordinates(const Sharing *sharing, double *axes, double *work) {
  isize m = sharing->form.m;
  if (!sharing->inverse_frame) return;
  for (isize j = 0; j < m; j++) {
    memset(work, 0, (size_t)m * sizeof(double));
    for (isize l = 0; l < m; l++)
      for (isize i = 0; i < m; i++) work[i] += sharing->inverse_frame[l * m + i] * axes[j * m + l];
    memcpy(axes + j * m, work, (size_t)m * sizeof(double));
  }
}

/* Write the covariance with variances along axes, the rows of a matrix, in the coordinates of the mixture. */
static void write_along(const double *axes, const double *variances, double *covariance, isize m) {
  memset(covariance, 0, (size_t)(m * m) * sizeof(double));
  for (isize j = 0; j < m; j++) add_outer(covariance, axes + j * m, variances[j], m);
}

/* Put the axes of a scatter, in the coordinates of the mixture, into its place, and write its values along them, in the
   units of the data. `work` has room for two matrices and three vectors. */
static int own_axes(const Sharing *sharing, double *scatter, double *values, double *work) {
  isize m = sharing->form.m, mm = m * m;
  const double *frame = sharing->frame;
  double *u = work, *rows = work + mm, most = 0.0;
  for (isize j = 0; j < m; j++) most = scatter[j * m + j] > most ? scatter[j * m + j] : most;
  if (!frame || !(factorise(scatter, u, m) > MIN_PIVOT * most)) {
    in_units(sharing, scatter, rows, u);
    if (!eigen(rows, values, scatter, m)) return 0;
    in_coordinates(sharing, scatter, u);
    return 1;
  }
  /* Columns may have units that differ by many orders of magnitude, and eigenvalues are only as accurate as rounding
     relative to the largest. With scatter L L^t, the axes V are those for which L^t frame V has orthogonal columns. If
     these are U times lengths, the axes are L U divided by the lengths in these coordinates, without the frame. */
  for (isize j = 0; j < m; j++)
    for (isize i = 0; i < m; i++) {
      double sum = 0.0;
      for (isize l = i; l < m; l++) sum += u[i * m + l] * frame[l * m + j];
      rows[j * m + i] = sum;
    }
  if (!orthogonalise(rows, values, m)) return 0;
  memset(scatter, 0, (size_t)mm * sizeof(double));
  for (isize j = 0; j < m; j++)
    for (isize l = 0; l < m; l++) {
      double factor = rows[j * m + l] / values[j];
      for (isize i = l; i < m; i++) scatter[j * m + i] += factor * u[l * m + i];
    }
  return 1;
}

/* VEE: one matrix, with a volume per component. */
static int of_one_form(const Sharing *sharing, const double *scatter, const double *divisors, const double *near,
                       double *covariances, double *work) {
  isize m = sharing->form.m, r = sharing->n_components, mm = m * m;
  double *common = work, *inverse = common + mm, *u = inverse + mm, *volumes = u + 2 * mm, log_of_det = 0.0;
  for (isize k = 0; k < r; k++) {
    volumes[k] = 1.0;
    if (!near) continue;
    if (!(factorise(near + k * mm, u, m) > 0.0)) return 0;
    volumes[k] = exp(log_det(u, m) / (double)m);
  }
  double scale = 1.0;
  for (int round = 0; round < (near ? NEAR_ROUNDS : VOLUME_ROUNDS); round++) {
    memset(common, 0, (size_t)mm * sizeof(double));
    for (isize k = 0; k < r; k++) {
      double factor = 1.0 / volumes[k];
      for (isize j = 0; j < mm; j++) common[j] += factor * scatter[k * mm + j];
    }
    /* The floor is relative to its size, which is arbitrary. */
    double size = 0.0;
    for (isize j = 0; j < m; j++) size += common[j * m + j] / (double)m;
    size = size < MIN_WEIGHT ? MIN_WEIGHT : size;
    for (isize j = 0; j < mm; j++) common[j] /= size;
    if (!(invert(common, u, inverse, &log_of_det, m) > sharing->least)) return 0;
    scale = exp(log_of_det / (double)m);
    double most = 0.0;
    int has_changed = 0;
    for (isize k = 0; k < r; k++) {
      double volume = scale * dot(inverse, scatter + k * mm, mm) / ((double)m * divisors[k]);
      has_changed |= !(fabs(volume - volumes[k]) <= VOLUME_TOLERANCE * volume);
      volumes[k] = volume;
      most = volume > most ? volume : most;
    }
    double least = MIN_VOLUME * most > MIN_WEIGHT ? MIN_VOLUME * most : MIN_WEIGHT;
    for (isize k = 0; k < r; k++) volumes[k] = volumes[k] < least ? least : volumes[k];
    if (!has_changed) break;
  }
  for (isize k = 0; k < r; k++)
    for (isize j = 0; j < mm; j++) covariances[k * mm + j] = volumes[k] / scale * common[j];
  return 1;
}

/* EVV: matrices of one volume. */
static int of_one_determinant(const Sharing *sharing, const double *scatter, const double *divisors,
                              double *covariances, double *work) {
  isize m = sharing->form.m, r = sharing->n_components, mm = m * m;
  double *u = work, *roots = work + mm, sum = 0.0, total = 0.0;
  for (isize k = 0; k < r; k++) {
    if (!(factorise(scatter + k * mm, u, m) > sharing->least * divisors[k])) return 0;
    roots[k] = exp(log_det(u, m) / (double)m);
    sum += roots[k];
    total += divisors[k];
  }
  for (isize k = 0; k < r; k++)
    for (isize j = 0; j < mm; j++) covariances[k * mm + j] = scatter[k * mm + j] * (sum / total / roots[k]);
  return 1;
}

/* EEV and VEV: variances in common, along axes of each component's own. */
static int of_own_axes(const Sharing *sharing, double *scatter, const double *divisors, double *covariances,
                       double *work) {
  isize m = sharing->form.m, r = sharing->n_components, mm = m * m;
  double *values = work, *shape = values + r * m, *volumes = shape + m, *rest = volumes + r;
  for (isize k = 0; k < r; k++)
    if (!own_axes(sharing, scatter + k * mm, values + k * m, rest)) return 0;
  if (sharing->code[0] == 'V') {
    volumes_and_shape(sharing, values, divisors, volumes, shape);
  } else {
    double total = 0.0;
    memset(shape, 0, (size_t)m * sizeof(double));
    for (isize k = 0; k < r; k++) {
      volumes[k] = 1.0;
      total += divisors[k];
      for (isize j = 0; j < m; j++) shape[j] += values[k * m + j];
    }
    raise_above_zero(shape, m);
    for (isize j = 0; j < m; j++) shape[j] /= total;
  }
  for (isize k = 0; k < r; k++) {
    for (isize j = 0; j < m; j++) values[j] = volumes[k] * shape[j];
    write_along(scatter + k * mm, values, covariances + k * mm, m);
  }
  return 1;
}

/* EVE and VVE: axes in common. */
static int of_common_axes(const Sharing *sharing, double *scatter, const double *divisors, Near *near,
                          double *covariances, double *work) {
  isize m = sharing->form.m, r = sharing->n_components, mm = m * m;
  double *variances = work, *axes = variances + r * m, *rest = axes + mm;
  if (sharing->frame)
    for (isize k = 0; k < r; k++) {
      in_units(sharing, scatter + k * mm, rest, rest + mm);
      memcpy(scatter + k * mm, rest, (size_t)mm * sizeof(double));
    }
  Near from = *near;
  if (!from.axes) from.axes = axes;
  if (!common_axes(sharing, scatter, divisors, &from, variances, rest)) return 0;
  memcpy(rest, from.axes, (size_t)mm * sizeof(double));
  in_coordinates(sharing, rest, rest + mm);
  for (isize k = 0; k < r; k++) write_along(rest, variances + k * m, covariances + k * mm, m);
  return 1;
}

int maximise(const Sharing *sharing, double *scatter, double *divisors, Near *near, double *covariances,
             double *work) {
  const char *code = sharing->code;
  isize m = sharing->form.m, r = sharing->n_components, n = sharing->form.v;
  if (sharing->is_tied || !strcmp(code, "VII") || !strcmp(code, "VVI") || !strcmp(code, "VVV")) {
    for (isize k = 0; k < sharing->n_covariances; k++)
      for (isize j = 0; j < n; j++) covariances[k * n + j] = scatter[k * n + j] / divisors[k];
    return 1;
  }
  /* An empty component must not have any influence on the others. */
  double total = 0.0;
  for (isize k = 0; k < r; k++) total += divisors[k];
  for (isize k = 0; k < r; k++) divisors[k] = divisors[k] < MIN_PART * total ? MIN_PART * total : divisors[k];
  if (!strcmp(code, "VEI")) {
    double *shape = work, *volumes = work + m;
    volumes_and_shape(sharing, scatter, divisors, volumes, shape);
    for (isize k = 0; k < r; k++)
      for (isize j = 0; j < m; j++) covariances[k * m + j] = volumes[k] * shape[j];
    return 1;
  }
  if (!strcmp(code, "EVI")) {
    raise_above_zero(scatter, r * m);
    of_one_volume(scatter, divisors, covariances, work, r, m);
    return 1;
  }
  if (!strcmp(code, "VEE"))
    return of_one_form(sharing, scatter, divisors, near->start == COLD ? NULL : near->covariances, covariances, work);
  if (!strcmp(code, "EVV")) return of_one_determinant(sharing, scatter, divisors, covariances, work);
  if (code[2] == 'V' && code[1] == 'E') return of_own_axes(sharing, scatter, divisors, covariances, work);
  return of_common_axes(sharing, scatter, divisors, near, covariances, work);
}

/* Add what a component has to the scatter and the divisor of its covariance. */
static void add_component(const Form *form, const double *stats, const PriorSums *prior, double *mean, double *scatter,
                          double *divisor, double *work) {
  double shrinkage = prior->shrinkage, weight = stats[0] > MIN_WEIGHT ? stats[0] : MIN_WEIGHT;
  double *own = work + form->m;
  for (isize j = 0; j < form->m; j++) {
    work[j] = stats[1 + j] / weight;
    mean[j] = stats[1 + j] / (weight + shrinkage);
  }
  write_scatter(form, stats, own);
  /* The scatter between the mean of the rows and that of the prior, which is zero. */
  if (shrinkage > 0.0) add_square(form, own, work, weight * shrinkage / (weight + shrinkage));
  for (isize j = 0; j < form->v; j++) scatter[j] += own[j];
  *divisor += weight * form->unit + prior->mean_divisor;
}

/* Raise the eigenvalues of a covariance to the floor, or to the rounding of the largest; 0 if they are not found. */
static int raise_to_floor(double *covariance, double least, double *work, isize m) {
  double *copy = work, *vectors = copy + m * m, *values = vectors + m * m;
  memcpy(copy, covariance, (size_t)(m * m) * sizeof(double));
  if (!eigen(copy, values, vectors, m)) return 0;
  double rounding = PRODUCT_ROUNDING * (double)m * values[m - 1];
  least = rounding > least ? rounding : least;
  for (isize j = 0; j < m; j++) values[j] = values[j] < least ? least : values[j];
  write_along(vectors, values, covariance, m);
  return 1;
}

int m_step_of(const Sharing *sharing, const double *stats, const PriorSums *prior, Near *near, double *means,
              double *covariances, double *work) {
  isize m = sharing->form.m, n = sharing->form.v, n_covariances = sharing->n_covariances;
  double *scatter = work, *divisors = scatter + n_covariances * n, *rest = divisors + n_covariances;
  memset(scatter, 0, (size_t)(n_covariances * n) * sizeof(double));
  memset(divisors, 0, (size_t)n_covariances * sizeof(double));
  for (isize k = 0; k < sharing->n_components; k++) {
    isize own = sharing->is_tied ? 0 : k;
    add_component(&sharing->form, stats + k * sharing->form.n_stats, prior, means + k * m, scatter + own * n, divisors + own, rest);
  }
  for (isize k = 0; k < n_covariances && prior->scatter; k++) {
    for (isize j = 0; j < n; j++) scatter[k * n + j] += prior->scatter[k * n + j];
    divisors[k] += prior->divisors[k];
  }
  if (!maximise(sharing, scatter, divisors, near, covariances, rest)) return NOT_POSITIVE;
  int status = ABOVE_FLOOR;
  if (sharing->form.kind == FULL) {
    for (isize k = 0; k < n_covariances; k++) {
      if (factorise(covariances + k * n, rest, m) > sharing->least) continue;
      if (!raise_to_floor(covariances + k * n, sharing->least, rest, m)) return NOT_POSITIVE;
      status = RAISED_TO_FLOOR;
    }
    return status;
  }
  for (isize j = 0; j < n_covariances * n; j++) {
    if (covariances[j] > sharing->least) continue;
    status = RAISED_TO_FLOOR;
    if (covariances[j] < sharing->least) covariances[j] = sharing->least;
  }
  return status;
}
