/* Vectors of LANES doubles, for one instruction set: included by body.h.

   GCC and Clang have vectors as types, with arithmetic by operators. Other compilers get vectors of one lane,
   which are plain numbers: the same code, slower. */

#if LANES > 1

typedef double VEC __attribute__((vector_size(8 * LANES)));
typedef int64_t IVEC __attribute__((vector_size(8 * LANES)));
/* The same, at addresses that are multiples of 8 only. */
typedef double UVEC __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

#define LOAD(p) (*(const VEC *)(p))
#define STORE(p, v) (*(VEC *)(p) = (v))
#define LOAD_UNALIGNED(p) (*(const UVEC *)(p))
typedef float SINGLES __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define LOAD_SINGLES(p) __builtin_convertvector(*(const SINGLES *)(p), VEC)
#if LANES == 8
#define SPLAT(x) NAME(splat)(x)
INLINE VEC NAME(splat)(double x) { return (VEC){x, x, x, x, x, x, x, x}; }
#elif LANES == 4
#define SPLAT(x) NAME(splat)(x)
INLINE VEC NAME(splat)(double x) { return (VEC){x, x, x, x}; }
#else
#define SPLAT(x) NAME(splat)(x)
INLINE VEC NAME(splat)(double x) { return (VEC){x, x}; }
#endif
/* Keep a value in a register: compilers would read it again from memory for each use. */
#if defined(__x86_64__)
#define KEEP(v) __asm__("" : "+v"(v))
#elif defined(__aarch64__)
#define KEEP(v) __asm__("" : "+w"(v))
#else
#define KEEP(v) ((void)0)
#endif
#define BITS(v) ((IVEC)(v))
#define FROM_BITS(b) ((VEC)(b))
#define TO_EXPONENT(b) ((b) << 52)
#define SELECT(mask, a, b) FROM_BITS((BITS(a) & (mask)) | (BITS(b) & ~(mask)))

/* Lanes of two vectors, by constant numbers: those of the second follow those of the first. */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (IVEC){__VA_ARGS__})
#endif

/* Turn LANES rows of LANES columns to columns. */
INLINE void NAME(transpose)(VEC v[LANES]) {
  VEC u[LANES];
#if LANES == 8
  for (int i = 0; i < 8; i += 2) {
    u[i] = SHUFFLE(v[i], v[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    u[i + 1] = SHUFFLE(v[i], v[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  VEC w[8];
  for (int i = 0; i < 8; i += 4) {
    for (int j = i; j < i + 2; j++) {
      w[j] = SHUFFLE(u[j], u[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      w[j + 2] = SHUFFLE(u[j], u[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int j = 0; j < 4; j++) {
    v[j] = SHUFFLE(w[j], w[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    v[j + 4] = SHUFFLE(w[j], w[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#elif LANES == 4
  for (int i = 0; i < 4; i += 2) {
    u[i] = SHUFFLE(v[i], v[i + 1], 0, 4, 2, 6);
    u[i + 1] = SHUFFLE(v[i], v[i + 1], 1, 5, 3, 7);
  }
  for (int j = 0; j < 2; j++) {
    v[j] = SHUFFLE(u[j], u[j + 2], 0, 1, 4, 5);
    v[j + 2] = SHUFFLE(u[j], u[j + 2], 2, 3, 6, 7);
  }
#else
  u[0] = SHUFFLE(v[0], v[1], 0, 2);
  u[1] = SHUFFLE(v[0], v[1], 1, 3);
  v[0] = u[0];
  v[1] = u[1];
#endif
}

/* out[0..7] += the sums of eight vectors: pairs of lanes are added, of two vectors at a time. */
INLINE void NAME(add_sums)(const VEC v[8], double *out) {
#if LANES == 8
#define HALVED(a, b) (SHUFFLE(a, b, 0, 8, 2, 10, 4, 12, 6, 14) + SHUFFLE(a, b, 1, 9, 3, 11, 5, 13, 7, 15))
#define QUARTERED(a, b) (SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15))
  VEC first = QUARTERED(HALVED(v[0], v[1]), HALVED(v[2], v[3]));
  VEC second = QUARTERED(HALVED(v[4], v[5]), HALVED(v[6], v[7]));
  VEC sums = SHUFFLE(first, second, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(first, second, 4, 5, 6, 7, 12, 13, 14, 15);
  *(UVEC *)out = *(UVEC *)out + sums;
#elif LANES == 4
#define HALVED(a, b) (SHUFFLE(a, b, 0, 4, 2, 6) + SHUFFLE(a, b, 1, 5, 3, 7))
#define QUARTERED(a, b) (SHUFFLE(a, b, 0, 1, 4, 5) + SHUFFLE(a, b, 2, 3, 6, 7))
  for (int i = 0; i < 8; i += 4) {
    VEC sums = QUARTERED(HALVED(v[i], v[i + 1]), HALVED(v[i + 2], v[i + 3]));
    *(UVEC *)(out + i) = *(UVEC *)(out + i) + sums;
  }
#else
  for (int i = 0; i < 8; i += 2) {
    VEC sums = SHUFFLE(v[i], v[i + 1], 0, 2) + SHUFFLE(v[i], v[i + 1], 1, 3);
    *(UVEC *)(out + i) = *(UVEC *)(out + i) + sums;
  }
#endif
#undef HALVED
#undef QUARTERED
}

INLINE double NAME(sum_of)(VEC v) {
  double sum = v[0];
  for (int i = 1; i < LANES; i++) sum += v[i];
  return sum;
}

#else

typedef double VEC;
typedef int64_t IVEC;

#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SPLAT(x) ((double)(x))
#define KEEP(v) ((void)0)
#define SELECT(mask, a, b) ((mask) ? (a) : (b))

INLINE IVEC NAME(bits)(VEC v) { IVEC b; memcpy(&b, &v, 8); return b; }
INLINE VEC NAME(from_bits)(IVEC b) { VEC v; memcpy(&v, &b, 8); return v; }
#define BITS(v) NAME(bits)(v)
#define FROM_BITS(b) NAME(from_bits)(b)
/* Without a sign, as bits that a shift of a signed number drops are not defined in C. */
#define TO_EXPONENT(b) ((int64_t)((uint64_t)(b) << 52))
INLINE double NAME(sum_of)(VEC v) { return v; }
INLINE void NAME(add_sums)(const VEC v[8], double *out) {
  for (int i = 0; i < 8; i++) out[i] += v[i];
}

#endif

#define MAXIMUM(a, b) SELECT((a) > (b), a, b)

/* Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits. */
#define ROUNDER 6755399441055744.0

/* exp(x) for -700 < x < 700: 2^k exp(f), |f| <= log(2) / 2, by Taylor's series, whose remainder is below 2e-16. */
INLINE VEC NAME(exponential)(VEC x) {
  VEC shifted = x * SPLAT(1.4426950408889634074) + SPLAT(ROUNDER);
  VEC k = shifted - SPLAT(ROUNDER);
  VEC f = x - k * SPLAT(6.93147180369123816490e-01);
  f = f - k * SPLAT(1.90821492927058770002e-10);
  VEC p = SPLAT(1.0 / 479001600);
  p = p * f + SPLAT(1.0 / 39916800);
  p = p * f + SPLAT(1.0 / 3628800);
  p = p * f + SPLAT(1.0 / 362880);
  p = p * f + SPLAT(1.0 / 40320);
  p = p * f + SPLAT(1.0 / 5040);
  p = p * f + SPLAT(1.0 / 720);
  p = p * f + SPLAT(1.0 / 120);
  p = p * f + SPLAT(1.0 / 24);
  p = p * f + SPLAT(1.0 / 6);
  p = p * f + SPLAT(0.5);
  p = p * f + SPLAT(1.0);
  p = p * f + SPLAT(1.0);
  return FROM_BITS(BITS(p) + TO_EXPONENT(BITS(shifted)));
}

/* log(x) for normal x > 0: x = 2^e g with sqrt(1/2) < g < sqrt(2), and log(g) = 2 artanh((g - 1) / (g + 1)). */
INLINE VEC NAME(logarithm)(VEC x) {
  /* The bits of sqrt(1/2) are subtracted, so that the exponent of what is left is e. */
  IVEC bits = BITS(x) - INT64_C(0x3FE6A09E667F3BCD);
  IVEC fraction = (bits & INT64_C(0x000FFFFFFFFFFFFF)) + INT64_C(0x3FE6A09E667F3BCD);
  /* e as a number, from its bits: 2^52 + 2^51 + e. */
  VEC e = FROM_BITS((bits >> 52) + INT64_C(0x4338000000000000)) - SPLAT(ROUNDER);
  VEC g = FROM_BITS(fraction);
  VEC s = (g - SPLAT(1.0)) / (g + SPLAT(1.0));
  VEC q = s * s;
  VEC p = SPLAT(1.0 / 23);
  p = p * q + SPLAT(1.0 / 21);
  p = p * q + SPLAT(1.0 / 19);
  p = p * q + SPLAT(1.0 / 17);
  p = p * q + SPLAT(1.0 / 15);
  p = p * q + SPLAT(1.0 / 13);
  p = p * q + SPLAT(1.0 / 11);
  p = p * q + SPLAT(1.0 / 9);
  p = p * q + SPLAT(1.0 / 7);
  p = p * q + SPLAT(1.0 / 5);
  p = p * q + SPLAT(1.0 / 3);
  VEC twice = s + s;
  VEC small = twice + twice * q * p + e * SPLAT(1.90821492927058770002e-10);
  return e * SPLAT(6.93147180369123816490e-01) + small;
}
