/* SPDX-License-Identifier: MIT
 *
 * Fault: throws an exception that nothing catches.
 * Expected: crash lookup
 */
#include <stdexcept>
#include <vector>
#include <unistd.h>
__attribute__((noinline)) int lookup(std::vector<int> &v, int i) { return v.at(i); }
int main() {
  std::vector<int> v{1, 2, 3};
  usleep(10000);
  return lookup(v, 10);
}
