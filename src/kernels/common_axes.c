/* Axes that all components share [flury1986]: rotations in planes that bring the scatters of all components nearest to
   diagonal. Scatters are held with the components last, as a rotation changes two rows and two columns of all. */

#include "sharing.h"

typedef struct {
  const Sharing *sharing;
  const double *scatter, *divisors;
  double *stack; /* (m, m, n_components): the scatters along the axes */
  double *along, *variances; /* (n_components, m) */
  double *factors; /* n_components: what the inverses of scatters along axes are multiplied by, in sums over components */
  double least; /* scatters along axes are raised to this */
} Rotation;

INLINE double raised(double value, double least) { return value < least ? least : value; }

/* Write the scatters along the axes, and the factors: the variances are scatters divided by them, up to one number. */
static void write_factors(Rotation *of) {
  isize m = of->sharing->form.m, r = of->sharing->n_components;
  for (isize k = 0; k < r; k++) {
    for (isize j = 0; j < m; j++) of->along[k * m + j] = raised(of->stack[(j * m + j) * r + k], of->least);
    of->factors[k] = of->sharing->code[0] == 'E' ? exp(mean_log(of->along + k * m, m)) : of->divisors[k];
  }
}

/* Write the variances along the axes. */
static void write_variances(Rotation *of) {
  isize m = of->sharing->form.m, r = of->sharing->n_components;
  write_factors(of);
  double volume = 1.0;
  if (of->sharing->code[0] == 'E') {
    double sum = 0.0, total = 0.0;
    for (isize k = 0; k < r; k++) sum += of->factors[k], total += of->divisors[k];
    volume = sum / total;
  }
  for (isize k = 0; k < r; k++)
    for (isize j = 0; j < m; j++) of->variances[k * m + j] = of->along[k * m + j] / of->factors[k] * volume;
}

/* Write the scatters along axes. */
static void set_axes(Rotation *of, const double *axes, double *work) {
  isize m = of->sharing->form.m, r = of->sharing->n_components;
  double most = 0.0;
  for (isize k = 0; k < r; k++) {
    const double *scatter = of->scatter + k * m * m;
    for (isize i = 0; i < m; i++)
      for (isize j = 0; j < m; j++) work[i * m + j] = dot(axes + i * m, scatter + j * m, m);
    for (isize i = 0; i < m; i++)
      for (isize j = 0; j <= i; j++) {
        double value = dot(work + i * m, axes + j * m, m);
        of->stack[(i * m + j) * r + k] = of->stack[(j * m + i) * r + k] = value;
        most = i == j && value > most ? value : most;
      }
  }
  of->least = min_scatter(most);
}

/* The rotation in a plane that is best for the variances as they are: its sine, and its cosine. */
INLINE double rotation_in(const Rotation *of, isize p, isize q, double *cosine) {
  isize m = of->sharing->form.m, r = of->sharing->n_components;
  const double *pp = of->stack + (p * m + p) * r, *qq = of->stack + (q * m + q) * r;
  const double *pq = of->stack + (p * m + q) * r;
  double on = 0.0, off = 0.0, size = 0.0;
  for (isize k = 0; k < r; k++) {
    double first = of->factors[k] / raised(pp[k], of->least), second = of->factors[k] / raised(qq[k], of->least);
    on += (first - second) * (pp[k] - qq[k]);
    off += (first - second) * pq[k];
    size += (first + second) * (fabs(pp[k]) + fabs(qq[k]));
  }
  off *= 2.0;
  double length = hypot(on, off);
  /* All directions of the plane are alike, up to rounding. */
  if (!(length > MIN_CONTRAST * size)) return 0.0;
  /* Twice the angle has cosine -on / length and sine -off / length. */
  if (on <= 0.0) {
    *cosine = sqrt(0.5 * (1.0 - on / length));
    return -off / (2.0 * length * *cosine);
  }
  double sine = sqrt(0.5 * (1.0 + on / length));
  *cosine = fabs(off) / (2.0 * length * sine);
  return off > 0.0 ? -sine : sine;
}

/* Rotate in a plane: two rows of each matrix, then two columns, which are the same but where they meet. */
INLINE void rotate_plane(Rotation *of, double *axes, isize p, isize q, double c, double s) {
  isize m = of->sharing->form.m, r = of->sharing->n_components;
  double *first = of->stack + p * m * r, *second = of->stack + q * m * r;
  int is_one_volume = of->sharing->code[0] == 'E';
  for (isize k = 0; k < r; k++) {
    double *pp = first + p * r + k, *qq = second + q * r + k, *pq = first + q * r + k;
    double a = *pp, b = *qq, twice = 2.0 * c * s * *pq;
    double to_a = c * c * a + s * s * b + twice, to_b = s * s * a + c * c * b - twice;
    double to_pq = (c * c - s * s) * *pq + c * s * (b - a);
    if (is_one_volume) {
      /* The geometric mean follows the product of the two variances. */
      double ratio = raised(to_a, of->least) / raised(a, of->least) * (raised(to_b, of->least) / raised(b, of->least));
      of->factors[k] *= exp(log(ratio) / (double)m);
    }
    *pp = to_a, *qq = to_b, *pq = second[p * r + k] = to_pq;
  }
  for (isize j = 0; j < m; j++) {
    double x = axes[p * m + j], y = axes[q * m + j];
    axes[p * m + j] = c * x + s * y;
    axes[q * m + j] = c * y - s * x;
    if (j == p || j == q) continue;
    double *of_p = first + j * r, *of_q = second + j * r;
    double *to_p = of->stack + (j * m + p) * r, *to_q = of->stack + (j * m + q) * r;
    for (isize k = 0; k < r; k++) {
      x = of_p[k], y = of_q[k];
      to_p[k] = of_p[k] = c * x + s * y;
      to_q[k] = of_q[k] = c * y - s * x;
    }
  }
}

/* Rotate the axes until they hardly change, or for n_sweeps sweeps; variances follow each rotation. */
static void rotate(Rotation *of, double *axes, isize n_sweeps) {
  isize m = of->sharing->form.m;
  for (isize sweep = 0; sweep < n_sweeps; sweep++) {
    double largest = 0.0;
    write_factors(of);
    for (isize p = 0; p < m - 1; p++)
      for (isize q = p + 1; q < m; q++) {
        double c = 1.0, s = rotation_in(of, p, q, &c);
        largest = fabs(s) > largest ? fabs(s) : largest;
        if (fabs(s) > MIN_SINE) rotate_plane(of, axes, p, q, c, s);
      }
    if (!(largest > MIN_SINE)) break;
  }
  write_variances(of);
}

/* What is smallest at the best axes, if the variances are the best for the axes. */
static double cost_of(const Rotation *of) {
  isize m = of->sharing->form.m;
  double cost = 0.0;
  for (isize k = 0; k < of->sharing->n_components; k++)
    cost += of->divisors[k] * (double)m * mean_log(of->variances + k * m, m);
  return cost;
}

/* The better of two starts: the axes of all rows of the components together, and of the mean covariance. */
static int cold_start(Rotation *of, double *axes, double *work) {
  isize m = of->sharing->form.m, r = of->sharing->n_components, mm = m * m;
  double *mean = work, *other = work + mm, *values = work + 2 * mm, least = INFINITY;
  for (int start = 0; start < 2; start++) {
    memset(mean, 0, (size_t)mm * sizeof(double));
    for (isize k = 0; k < r; k++) {
      const double *scatter = of->scatter + k * mm;
      double trace = 0.0;
      for (isize j = 0; j < m; j++) trace += scatter[j * m + j];
      double factor = start == 0 ? 1.0 : trace > 0.0 ? 1.0 / trace : 0.0;
      for (isize j = 0; j < mm; j++) mean[j] += factor * scatter[j];
    }
    if (!eigen(mean, values, other, m)) return 0;
    set_axes(of, other, mean);
    rotate(of, other, FIRST_SWEEPS);
    double cost = cost_of(of);
    if (!(cost < least)) continue;
    least = cost;
    memcpy(axes, other, (size_t)mm * sizeof(double));
  }
  if (!(least < INFINITY)) return 0;
  set_axes(of, axes, mean);
  rotate(of, axes, SWEEPS - FIRST_SWEEPS);
  return 1;
}

/* Sort the axes by the mean logarithm of the variances along them, so that their order does not depend on the way. */
static void sort_axes(const Sharing *sharing, double *axes, double *variances, double *work) {
  isize m = sharing->form.m, r = sharing->n_components;
  for (isize j = 0; j < m; j++) {
    work[j] = 0.0;
    for (isize k = 0; k < r; k++) work[j] += log(variances[k * m + j]);
  }
  for (isize i = 1; i < m; i++)
    for (isize j = i; j > 0 && work[j] < work[j - 1]; j--) {
#define SWAP(a, b) { double value = a; a = b; b = value; }
      SWAP(work[j], work[j - 1])
      for (isize l = 0; l < m; l++) SWAP(axes[j * m + l], axes[(j - 1) * m + l])
      for (isize k = 0; k < r; k++) SWAP(variances[k * m + j], variances[k * m + j - 1])
#undef SWAP
    }
}

int common_axes(const Sharing *sharing, const double *scatter, const double *divisors, Near *near, double *variances,
                double *work) {
  isize m = sharing->form.m, r = sharing->n_components, mm = m * m;
  Rotation of = {.sharing = sharing, .scatter = scatter, .divisors = divisors, .variances = variances};
  of.stack = work, of.along = of.stack + mm * r, of.factors = of.along + m * r;
  double *units = of.factors + r, *ones = units + mm * r, *rest = ones + r;
  if (near->start == NEAR_COVARIANCES) {
    /* Covariances of the family are diagonal along their axes, where the objective is largest. */
    for (isize k = 0; k < r; k++) {
      in_units(sharing, near->covariances + k * mm, units + k * mm, rest);
      ones[k] = 1.0;
    }
    of.scatter = units, of.divisors = ones;
    if (!cold_start(&of, near->axes, rest)) return 0;
    sort_axes(sharing, near->axes, variances, rest);
    of.scatter = scatter, of.divisors = divisors;
  }
  if (near->start == COLD) {
    if (!cold_start(&of, near->axes, rest)) return 0;
  } else {
    set_axes(&of, near->axes, rest);
    rotate(&of, near->axes, NEAR_SWEEPS);
  }
  sort_axes(sharing, near->axes, variances, rest);
  return 1;
}
