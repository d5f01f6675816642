/* SPDX-License-Identifier: MIT
 *
 * Ordinary life at once: threads that allocate, throw, load and unload libraries, end and begin, fork,
 * and are hit by signals whose handler allocates. With a PAUSE each thread sleeps for so many us after
 * a stretch of work, as threads of real programs do. usage: stress SECONDS THREADS [PAUSE]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

static std::atomic<bool> stop;
static unsigned pause_us;
static thread_local volatile bool handler_may_allocate;

static void rest() {
  if (pause_us) usleep(pause_us);
}

static void on_signal(int) {
  if (handler_may_allocate) free(malloc(77));
}

static void *allocate(void *) {
  std::vector<std::string> v;
  for (unsigned i = 0; !stop; i++) {
    v.push_back(std::string(i % 300, 'x'));
    if (v.size() > 100) v.clear();
    if (i % 64) continue;
    try {
      throw std::runtime_error("number " + std::to_string(i));
    } catch (const std::exception &) {
    }
    if (i % 1024 == 0) rest();
  }
  return nullptr;
}

static void *load(void *) {
  static const char *const libraries[] = {"libz.so.1", "libxml2.so.2", "liblzma.so.5",
                                          "libsqlite3.so.0"};
  typedef void *(*allocate_t)(int);
  typedef void (*free_t)(void *);
  for (unsigned i = 0; !stop; i++) {
    void *library = dlopen(libraries[i % 4], RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    auto give = (allocate_t)dlsym(library, "sqlite3_malloc");
    auto take = (free_t)dlsym(library, "sqlite3_free");
    for (int k = 0; give && take && k < 50; k++)
      take(give(100));
    dlclose(library);
    rest();
  }
  return nullptr;
}

static void *leaf(void *) {
  free(malloc(10));
  return strdup("the end");
}

static void *begin_and_end(void *) {
  while (!stop) {
    pthread_t t;
    void *result;
    if (pthread_create(&t, nullptr, leaf, nullptr)) continue;
    pthread_join(t, &result);
    free(result);
    rest();
  }
  return nullptr;
}

static void *fork_children(void *) {
  while (!stop) {
    pid_t pid = fork();
    if (pid == 0) {
      free(malloc(100));
      _exit(0);
    }
    int status = 0;
    if (pid > 0 && (waitpid(pid, &status, 0) < 0 || status)) abort();
    usleep(3000);
    rest();
  }
  return nullptr;
}

static void *be_interrupted(void *) {
  handler_may_allocate = true;
  while (!stop)
    usleep(200);
  return nullptr;
}

int main(int argc, char **argv) {
  void *(*const work[])(void *) = {allocate, load, begin_and_end, fork_children, be_interrupted,
                                   allocate, allocate, allocate};
  int seconds = atoi(argv[1]), count = atoi(argv[2]);
  if (argc > 3) pause_us = (unsigned)atoi(argv[3]);
  signal(SIGUSR1, on_signal);
  std::vector<pthread_t> threads((size_t)count);
  for (int i = 0; i < count; i++)
    pthread_create(&threads[(size_t)i], nullptr, work[i % 8], nullptr);
  for (time_t end = time(nullptr) + seconds; time(nullptr) < end;) {
    usleep(1000);
    for (int k = 4; k < count; k += 8)
      pthread_kill(threads[(size_t)k], SIGUSR1);
  }
  stop = true;
  for (pthread_t t : threads)
    pthread_join(t, nullptr);
  puts("done");
}
