/* SPDX-License-Identifier: MIT
 *
 * Healthy: computes.
 */
#include <stdio.h>
#include <stdlib.h>
#define N 500
static double a[N][N], b[N][N], c[N][N];
static void multiply(void) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double s = 0;
      for (int k = 0; k < N; k++)
        s += a[i][k] * b[k][j];
      c[i][j] = s;
    }
}
int main() {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      a[i][j] = i;
      b[i][j] = j;
    }
  for (int r = 0; r < 5; r++)
    multiply();
  printf("%f\n", c[3][4]);
}
