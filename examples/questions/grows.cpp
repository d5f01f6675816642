/* SPDX-License-Identifier: MIT
 * docs/grows.md: a server that never forgets a session. With -DFIXED: it forgets those that ended. */
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <unordered_map>

struct session {
  std::string user, page;
};

static std::unordered_map<int, session> sessions;

static void open_session(int id) {
  sessions[id] = {"user " + std::to_string(id), std::string(2000, '.')};
}

static void close_session(int id) {
#ifdef FIXED
  sessions.erase(id);
#else
  sessions[id].page.clear(); // keeps the capacity of the string, and the session
#endif
}

static std::string render(const session &one) { return "<h1>" + one.user + "</h1>" + one.page; }

int main() {
  std::size_t sent = 0;
  for (int id = 0; id < 4000; id++) {
    open_session(id);
    sent += render(sessions[id]).size();
    close_session(id);
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  std::printf("%zu bytes sent, %zu sessions open\n", sent, sessions.size());
}
