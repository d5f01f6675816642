/* SPDX-License-Identifier: MIT */
#include "store/statistics.h"

#include <math.h>

/* The continued fraction of the incomplete beta function by the modified Lentz method: NIST Digital
 * Library of Mathematical Functions, 8.17.22 and 3.10(iii). Converges fast for x < (a+1)/(a+b+2).
 */
static double beta_fraction(double a, double b, double x) {
  const double tiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1), f;
  d = 1 / (fabs(d) < tiny ? tiny : d);
  f = d;
  for (int m = 1; m < 500; m++) {
    double k = 2.0 * m;
    const double parts[] = {m * (b - m) * x / ((a + k - 1) * (a + k)),
                            -(a + m) * (a + b + m) * x / ((a + k) * (a + k + 1))};
    double before = f;
    for (int i = 0; i < 2; i++) {
      d = 1 + parts[i] * d;
      c = 1 + parts[i] / c;
      d = 1 / (fabs(d) < tiny ? tiny : d);
      if (fabs(c) < tiny) c = tiny;
      f *= c * d;
    }
    if (fabs(f - before) <= 1e-14 * fabs(f)) break;
  }
  return f;
}

/* The regularized incomplete beta function, DLMF 8.17.2. */
static double beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double statistics_student_p(double t, double degrees) {
  return beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

/* The t that is exceeded in either direction with probability P. */
static double student_t(double p, double degrees) {
  double low = 0, high = 1e9;
  for (int i = 0; i < 200; i++) {
    double middle = (low + high) / 2;
    *(statistics_student_p(middle, degrees) > p ? &low : &high) = middle;
  }
  return high;
}

mean_change_t statistics_compare(sample_of_values_t a, sample_of_values_t b, double level) {
  const double missed = 0.2; /* of changes as large as `detectable` */
  double change = b.mean - a.mean;
  double va = a.deviation * a.deviation / a.count, vb = b.deviation * b.deviation / b.count;
  double error = sqrt(va + vb);
  if (!(error > 0)) return (mean_change_t){.change = change, .p = change == 0};
  /* Welch and Satterthwaite */
  double degrees = (va + vb) * (va + vb) / (va * va / (a.count - 1) + vb * vb / (b.count - 1));
  return (mean_change_t){.change = change,
                         .p = statistics_student_p(change / error, degrees),
                         .detectable =
                             error * (student_t(level, degrees) + student_t(2 * missed, degrees))};
}
