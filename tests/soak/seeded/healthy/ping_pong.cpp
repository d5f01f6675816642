// SPDX-License-Identifier: MIT
// does: two threads take turns with a condition variable, 100 times a second
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

static std::mutex lock;
static std::condition_variable changed;
static int turn, total;

static void play(int me, int rounds) {
  for (int i = 0; i < rounds; i++) {
    std::unique_lock<std::mutex> hold(lock);
    changed.wait(hold, [me] { return turn == me; });
    total += i;
    turn = 1 - me;
    changed.notify_one();
    hold.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

int main() {
  std::thread a(play, 0, 200), b(play, 1, 200);
  a.join();
  b.join();
  std::printf("%d\n", total);
}
