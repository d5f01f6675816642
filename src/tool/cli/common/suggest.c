/* SPDX-License-Identifier: MIT
 *
 * The word that was probably meant. Distance is the least number of letters added, removed, changed
 * or swapped with a neighbour (optimal string alignment).
 */
#include <string.h>

#include "cli/cli.h"

enum { WORD_MAX = 32 };

static int least(int a, int b) { return a < b ? a : b; }

static int distance(const char *a, const char *b) {
  int a_length = (int)strlen(a), b_length = (int)strlen(b);
  int cost[WORD_MAX + 1][WORD_MAX + 1];
  if (a_length > WORD_MAX || b_length > WORD_MAX) return WORD_MAX;
  for (int i = 0; i <= a_length; i++)
    for (int j = 0; j <= b_length; j++) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      int changed = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = least(changed, 1 + least(cost[i - 1][j], cost[i][j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = least(cost[i][j], 1 + cost[i - 2][j - 2]);
    }
  return cost[a_length][b_length];
}

const char *suggest_nearest(const char *word, const char *const *words, int count) {
  size_t length = strlen(word);
  const char *best = NULL;
  /* A third of the letters may be wrong: more is another word. */
  int best_distance = (int)(length < 4 ? 1 : length / 3) + 1;
  for (int i = 0; i < count; i++) {
    int d = length >= 2 && strncmp(word, words[i], length) == 0 ? 0 : distance(word, words[i]);
    if (d < best_distance) {
      best_distance = d;
      best = words[i];
    }
  }
  return best;
}
