// SPDX-License-Identifier: MIT
#include <sonde/catch2.hpp>

#include "faults.hpp"

using sonde::test::limits;

TEST_CASE("healthy") {
  sonde::catch2_watch watch(
      limits().leaked(0).budget(1000).stall(5000).calls(std::getenv("KNOWN")));
  CHECK(make_words(10) == 10u);
}
TEST_CASE("leak") {
  sonde::catch2_watch watch(limits().leaked(0));
  lose_block();
}
TEST_CASE("budget") {
  sonde::catch2_watch watch(limits().budget(100));
  make_words(200);
}
TEST_CASE("stall") {
  sonde::catch2_watch watch(limits().stall(50));
  be_late();
}
TEST_CASE("call") {
  sonde::catch2_watch watch(limits().calls(std::getenv("KNOWN")));
  dial();
}
