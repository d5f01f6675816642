// SPDX-License-Identifier: MIT
// fault: a loop reads the link of a list node that it has just freed
// culprit: drop_expired
// kind: use after free, freed, double free
// symptom: crash, abort
// record: --malloc=all
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
  struct entry *next;
  char key[24];
  int expires;
};

struct table {
  struct entry *buckets[64];
  int count;
};

static unsigned hash(const char *key) {
  unsigned h = 5381;
  while (*key)
    h = h * 33 + (unsigned char)*key++;
  return h % 64;
}

static __attribute__((noinline)) void insert(struct table *t, const char *key, int expires) {
  struct entry *e = malloc(sizeof *e);
  snprintf(e->key, sizeof e->key, "%s", key);
  e->expires = expires;
  unsigned bucket = hash(key);
  e->next = t->buckets[bucket];
  t->buckets[bucket] = e;
  t->count++;
}

static __attribute__((noinline)) int lookup(const struct table *t, const char *key) {
  for (const struct entry *e = t->buckets[hash(key)]; e; e = e->next)
    if (strcmp(e->key, key) == 0) return e->expires;
  return -1;
}

static __attribute__((noinline)) void drop_expired(struct table *t, int now) {
  for (int i = 0; i < 64; i++) {
    struct entry **link = &t->buckets[i];
    for (struct entry *e = *link; e; e = e->next) {
      if (e->expires < now) {
        *link = e->next;
        free(e);
        t->count--;
      } else {
        link = &e->next;
      }
    }
  }
}

static void fill(struct table *t, int from, int count) {
  char key[24];
  for (int i = from; i < from + count; i++) {
    snprintf(key, sizeof key, "user:%d", i);
    insert(t, key, i);
  }
}

int main(void) {
  static struct table t;
  fill(&t, 0, 500);
  int found = 0;
  for (int i = 0; i < 500; i++) {
    char key[24];
    snprintf(key, sizeof key, "user:%d", i);
    found += lookup(&t, key) >= 0;
  }
  drop_expired(&t, 250);
  fill(&t, 500, 500);
  drop_expired(&t, 750);
  printf("%d found, %d left\n", found, t.count);
}
