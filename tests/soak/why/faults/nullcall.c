/* SPDX-License-Identifier: MIT
 *
 * Fault: calls a null function pointer.
 * Expected: crash close_device
 */
#include <unistd.h>
struct ops {
  void (*open)(int);
  void (*close)(int);
};
static void o(int x) { (void)x; }
static struct ops table[2] = {{o, o}, {o, 0}};
__attribute__((noinline)) int close_device(int i) {
  table[i].close(i);
  return i + 1;
}
int main() {
  usleep(20000);
  close_device(0);
  return close_device(1);
}
