/* SPDX-License-Identifier: MIT
 *
 * Comparison of two means by Welch's t-test. Pure functions.
 */
#ifndef SONDE_STORE_STATISTICS_H
#define SONDE_STORE_STATISTICS_H

/* A sample: COUNT values with this mean and standard deviation. */
typedef struct sample_of_values {
  double count, mean, deviation;
} sample_of_values_t;

typedef struct mean_change {
  double change;     /* of the mean, B - A */
  double p;          /* probability of such a change, or a larger one, if nothing changed; 0 to 1 */
  double detectable; /* the change of the mean that the test finds in 80 of 100 cases */
} mean_change_t;

/* Compares A with B, with at least two values each. LEVEL is the p below which a change counts, in
 * 0 to 1. Without any deviation every change is certain. */
mean_change_t statistics_compare(sample_of_values_t a, sample_of_values_t b, double level);

/* The probability that |t| of Student's distribution with this many degrees of freedom is larger.
 */
double statistics_student_p(double t, double degrees);

#endif
