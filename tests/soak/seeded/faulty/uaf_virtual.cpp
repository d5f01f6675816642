// SPDX-License-Identifier: MIT
// fault: the hub calls a listener that its owner has deleted
// culprit: close_session, publish
// kind: use after free, freed
// symptom: crash, abort
// record: --malloc=all
// build: g++ -O1 -g
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

struct listener {
  virtual ~listener() = default;
  virtual void on_price(const std::string &symbol, double price) = 0;
};

class session : public listener {
public:
  explicit session(int number) : number_(number) {}
  void on_price(const std::string &symbol, double price) override {
    total_ += price + static_cast<double>(symbol.size()) + number_;
  }
  double total() const { return total_; }

private:
  int number_;
  double total_ = 0;
};

class hub {
public:
  void subscribe(listener *l) { listeners_.push_back(l); }
  __attribute__((noinline)) void publish(const std::string &symbol, double price) {
    for (listener *l : listeners_)
      l->on_price(symbol, price);
  }

private:
  std::vector<listener *> listeners_;
};

static __attribute__((noinline)) void open_sessions(hub &h, std::vector<session *> &sessions) {
  for (int i = 0; i < 20; i++) {
    sessions.push_back(new session(i));
    h.subscribe(sessions.back());
  }
}

static __attribute__((noinline)) double close_session(std::vector<session *> &sessions, size_t i) {
  double total = sessions[i]->total();
  delete sessions[i]; // still subscribed
  sessions.erase(sessions.begin() + static_cast<long>(i));
  return total;
}

static __attribute__((noinline)) double tick(hub &h, int round) {
  static const char *symbols[] = {"AAA", "BBBB", "CCCCC"};
  double price = 10 + round % 7;
  h.publish(symbols[round % 3], price);
  return price;
}

int main() {
  hub h;
  std::vector<session *> sessions;
  open_sessions(h, sessions);
  double sum = 0;
  for (int round = 0; round < 1000; round++) {
    if (round == 500) sum += close_session(sessions, 7);
    sum += tick(h, round);
  }
  std::printf("%f\n", sum);
}
