/* SPDX-License-Identifier: MIT
 *
 * Runs the statements of its argument on a database in memory, and prints what they give.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

static int row(void *unused, int count, char **values, char **names) {
  (void)unused, (void)names;
  for (int i = 0; i < count; i++)
    printf("%s%c", values[i] ? values[i] : "", i + 1 < count ? '|' : '\n');
  return 0;
}

int main(int argc, char **argv) {
  sqlite3 *db;
  char *error = NULL;
  if (argc < 2 || sqlite3_open(":memory:", &db) != SQLITE_OK) return 2;
  int status = sqlite3_exec(db, argv[1], row, NULL, &error);
  if (error) puts(error);
  sqlite3_close(db);
  return status != SQLITE_OK;
}
