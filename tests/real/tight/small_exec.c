/* SPDX-License-Identifier: MIT
 *
 * A thread with the least stack there may be, and nothing mapped below it, runs a program by execl
 * in a child of vfork. Ends with that program's status.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK 16384 /* PTHREAD_STACK_MIN of x86_64 */
#define GUARD 65536

static int status = -1;

static void *run(void *context) {
  pid_t child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    _exit(99);
  }
  waitpid(child, &status, 0);
  return context;
}

int main(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  char *memory =
      mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0) return 97;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstack(&attributes, memory + GUARD, STACK) != 0) return 97;
  if (pthread_create(&thread, &attributes, run, NULL) != 0) return 97;
  pthread_join(thread, NULL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}
