/* SPDX-License-Identifier: MIT
 * docs/crashes.md: a connection is used after it was deleted. With -DFIXED: it is not. */
#include <cstdio>
#include <map>

struct listener {
  virtual ~listener() = default;
  virtual void on_data(int count) { total += count; }
  long total = 0;
};

static std::map<int, listener *> listeners;

static void open_connection(int id) { listeners[id] = new listener; }

static void close_connection(int id) {
  delete listeners[id];
#ifdef FIXED
  listeners.erase(id);
#endif
}

static void deliver(int count) {
  for (auto &[id, each] : listeners)
    each->on_data(count);
}

int main() {
  for (int id = 0; id < 10; id++)
    open_connection(id);
  deliver(100);
  close_connection(7);
  deliver(100);
  std::puts("delivered");
}
