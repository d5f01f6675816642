/* SPDX-License-Identifier: MIT
 *
 * The program of `./run demo`: reads orders, sums them by customer, and forgets to free one thing.
 *
 *   c++ -g -O1 orders.cpp && sonde record -- ./a.out
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

struct order {
  std::string customer;
  double price;
};

static std::vector<std::string> history; /* only grows */

[[gnu::noinline]] static order parse_order(const std::string &line) {
  std::size_t comma = line.find(',');
  return {line.substr(0, comma), std::stod(line.substr(comma + 1))};
}

[[gnu::noinline]] static void remember(const std::string &line) {
  history.push_back("parsed: " + line + ", a copy that nobody reads again");
}

[[gnu::noinline]] static std::vector<order> read_orders(int round) {
  std::vector<order> orders;
  for (int i = 0; i < 4000; i++) {
    std::string line = "customer " + std::to_string(i * 7919 % 997) + "," + std::to_string((i + round) % 450);
    orders.push_back(parse_order(line));
    if (i % 8 == 0) remember(line);
  }
  return orders;
}

[[gnu::noinline]] static void sort_by_price(std::vector<order> &orders) {
  std::sort(orders.begin(), orders.end(), [](const order &a, const order &b) { return a.price < b.price; });
}

[[gnu::noinline]] static double sum_by_customer(const std::vector<order> &orders) {
  std::map<std::string, double> sums;
  for (const order &each : orders)
    sums[each.customer] += each.price;
  double most = 0;
  for (const auto &[customer, sum] : sums)
    most = std::max(most, sum);
  return most;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 600;
  double most = 0;
  for (int round = 0; round < rounds; round++) {
    std::vector<order> orders = read_orders(round);
    sort_by_price(orders);
    most += sum_by_customer(orders);
  }
  std::printf("best customers: %.0f\n", most);
}
