// SPDX-License-Identifier: MIT
// fault: a lookup that finds nothing returns null, and its caller does not check it
// culprit: charge, find_account
// kind: null pointer, null
// symptom: crash, abort
// record:
// build: g++ -O2 -g
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct account {
  std::string owner;
  long cents = 0;
  std::vector<long> history;
};

class bank {
public:
  void open(const std::string &owner) {
    auto a = std::make_unique<account>();
    a->owner = owner;
    accounts_[owner] = std::move(a);
  }
  __attribute__((noinline)) account *find_account(const std::string &owner) const {
    auto it = accounts_.find(owner);
    return it == accounts_.end() ? nullptr : it->second.get();
  }
  __attribute__((noinline)) void charge(const std::string &owner, long cents) {
    account *a = find_account(owner);
    a->cents -= cents;
    a->history.push_back(-cents);
  }
  __attribute__((noinline)) void transfer(const std::string &from, const std::string &to,
                                          long cents) {
    charge(from, cents);
    charge(to, -cents);
  }

private:
  std::map<std::string, std::unique_ptr<account>> accounts_;
};

static __attribute__((noinline)) void run_orders(bank &b, int count) {
  for (int i = 0; i < count; i++)
    b.transfer("customer" + std::to_string(i % 100), "customer" + std::to_string(i % 37), i);
}

int main() {
  bank b;
  for (int i = 0; i < 100; i++)
    b.open("customer" + std::to_string(i));
  run_orders(b, 20000);
  b.transfer("customer12", "customer100", 5);
  std::puts("done");
}
