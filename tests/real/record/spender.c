/* SPDX-License-Identifier: MIT
 *
 * A program that uses much when it reads "up" and little when it reads "down": memory, descriptors,
 * threads. After each word, and at the end, it prints what it uses as the kernel says.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BYTES = 64 << 20, FILES = 40, THREADS = 5 };

static char *memory;
static int files[FILES];
static pthread_t threads[THREADS];
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *wait_here(void *unused) {
  (void)unused;
  pthread_mutex_lock(&held);
  pthread_mutex_unlock(&held);
  return NULL;
}

static void up(void) {
  memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, 1, BYTES);
  for (int i = 0; i < FILES; i++)
    files[i] = open("/dev/null", O_RDONLY);
  pthread_mutex_lock(&held);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, wait_here, NULL);
}

static void down(void) {
  munmap(memory, BYTES);
  for (int i = 0; i < FILES; i++)
    close(files[i]);
  pthread_mutex_unlock(&held);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static long line(const char *name) {
  char text[256];
  long value = -1;
  FILE *status = fopen("/proc/self/status", "r");
  while (fgets(text, sizeof text, status))
    if (!strncmp(text, name, strlen(name))) value = strtol(text + strlen(name), NULL, 10);
  fclose(status);
  return value;
}

static int descriptors(void) {
  int count = -1; /* the folder's own */
  DIR *folder = opendir("/proc/self/fd");
  for (struct dirent *e; (e = readdir(folder));)
    count += e->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void print(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  printf(
      "{\"rss_bytes\": %ld, \"peak_rss_bytes\": %ld, \"anonymous_bytes\": %ld, \"threads\": %ld, "
      "\"descriptors\": %d, \"minor_faults\": %ld, \"voluntary_switches\": %ld, "
      "\"involuntary_switches\": %ld, \"cpu_ns\": %lld}\n",
      line("VmRSS:") * 1024, line("VmHWM:") * 1024, line("RssAnon:") * 1024, line("Threads:"),
      descriptors(), use.ru_minflt, use.ru_nvcsw, use.ru_nivcsw,
      (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000LL +
          (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000LL);
  fflush(stdout);
}

int main(void) {
  char word[16];
  while (fgets(word, sizeof word, stdin)) {
    if (!strcmp(word, "up\n")) up();
    if (!strcmp(word, "down\n")) down();
    print();
  }
  print();
  return 0;
}
