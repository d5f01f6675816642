/* SPDX-License-Identifier: MIT
 *
 * Fault: shared pointers in a cycle.
 * Expected: growth open_session
 */
#include <memory>
#include <string>
#include <unistd.h>
#include <unordered_map>
struct Session {
  std::shared_ptr<Session> peer;
  std::string data;
};
__attribute__((noinline)) void open_session(int i) {
  auto a = std::make_shared<Session>();
  auto b = std::make_shared<Session>();
  a->peer = b;
  b->peer = a;
  a->data = std::string(1500, 'x');
  b->data = std::string(500 + i % 7, 'y');
}
int main() {
  for (int i = 0; i < 2000; i++) {
    open_session(i);
    usleep(300);
  }
}
