// SPDX-License-Identifier: MIT
// fault: three stages of a pipeline each hold their own lock and wait for the next one's
// culprit: pass_on, stage
// kind: deadlock
// why: 1.5
// build: gcc -O1 -g -pthread
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct stage {
  pthread_mutex_t lock;
  pthread_t thread;
  struct stage *next;
  long items;
};

static struct stage stages[3];

static __attribute__((noinline)) long process(struct stage *s, int item) {
  usleep(3000);
  return s->items * 3 + item;
}

static __attribute__((noinline)) void pass_on(struct stage *s, long value) {
  pthread_mutex_lock(&s->next->lock);
  s->next->items += value & 7;
  pthread_mutex_unlock(&s->next->lock);
}

static void *run_stage(void *argument) {
  struct stage *s = argument;
  for (int item = 0; item < 1000; item++) {
    pthread_mutex_lock(&s->lock);
    pass_on(s, process(s, item));
    pthread_mutex_unlock(&s->lock);
  }
  return NULL;
}

static void *progress(void *argument) {
  for (int i = 0; i < 1000; i++) {
    usleep(200000);
    fprintf(stderr, "%ld\n", ((struct stage *)argument)->items);
  }
  return NULL;
}

int main(void) {
  pthread_t reporter;
  for (int i = 0; i < 3; i++) {
    pthread_mutex_init(&stages[i].lock, NULL);
    stages[i].next = &stages[(i + 1) % 3];
  }
  pthread_create(&reporter, NULL, progress, stages);
  for (int i = 0; i < 3; i++)
    pthread_create(&stages[i].thread, NULL, run_stage, &stages[i]);
  for (int i = 0; i < 3; i++)
    pthread_join(stages[i].thread, NULL);
  printf("%ld\n", stages[0].items);
}
