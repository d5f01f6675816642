/* SPDX-License-Identifier: MIT
 *
 * Fault: threads that nobody joins.
 * Expected: leak handle_client
 */
#include <pthread.h>
#include <unistd.h>
static void *w(void *u) {
  char b[100000];
  for (int i = 0; i < 100000; i += 4096)
    b[i] = 1;
  return u + b[5] * 0;
}
__attribute__((noinline)) void handle_client(void) {
  pthread_t t;
  pthread_create(&t, 0, w, 0);
}
int main() {
  for (int i = 0; i < 600; i++) {
    handle_client();
    usleep(1500);
  }
}
