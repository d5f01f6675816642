// SPDX-License-Identifier: MIT
// fault: a configuration reader returns early without closing its file
// culprit: read_setting, load_all
// kind: descriptor, file
// record:
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/settingsXXXXXX";

static void make_settings(void) {
  FILE *f = fdopen(mkstemp(path), "w");
  for (int i = 0; i < 50; i++)
    fprintf(f, "key%d=value%d\n", i, i);
  fclose(f);
}

static __attribute__((noinline)) int read_setting(const char *key, char *value, size_t room) {
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  char line[128];
  while (fgets(line, sizeof line, f)) {
    char *equals = strchr(line, '=');
    if (!equals) continue;
    *equals = 0;
    if (strcmp(line, key) == 0) {
      snprintf(value, room, "%s", equals + 1);
      return 0; /* f stays open */
    }
  }
  fclose(f);
  return -1;
}

static __attribute__((noinline)) int load_all(int round) {
  char key[16], value[64];
  int found = 0;
  for (int i = 0; i < 2; i++) {
    snprintf(key, sizeof key, "key%d", round + i * 40);
    found += read_setting(key, value, sizeof value) == 0;
  }
  return found;
}

int main(void) {
  make_settings();
  int found = 0, rounds = 0;
  for (; rounds < 500; rounds++) {
    found += load_all(rounds % 60);
    usleep(5000);
  }
  unlink(path);
  printf("%d in %d rounds\n", found, rounds);
}
