// SPDX-License-Identifier: MIT
// fault: a supervisor starts a child for each job and waits for none of them
// culprit: start_job, run_jobs
// kind: zombie, child
// why: 2.5
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
  int number;
  pid_t child;
};

static __attribute__((noinline)) int work(int number) {
  unsigned sum = 0;
  for (int i = 0; i < 1000; i++)
    sum = sum * 31 + (unsigned)(number ^ i);
  return (int)(sum & 1);
}

static __attribute__((noinline)) void start_job(struct job *j) {
  j->child = fork();
  if (j->child == 0) _exit(work(j->number));
}

static __attribute__((noinline)) int run_jobs(struct job *jobs, int count) {
  int started = 0;
  for (int i = 0; i < count; i++) {
    jobs[i].number = i;
    start_job(&jobs[i]);
    started += jobs[i].child > 0;
    usleep(10000);
  }
  return started;
}

int main(void) {
  enum { JOBS = 200 };
  struct job *jobs = calloc(JOBS, sizeof *jobs);
  printf("%d started\n", run_jobs(jobs, JOBS));
  fflush(stdout);
  sleep(20);
  free(jobs);
}
