// SPDX-License-Identifier: MIT
#include <sonde/gtest.hpp>

#include "faults.hpp"

using sonde::test::limits;

TEST(Healthy, AllLimits) {
  sonde::gtest_watch watch(limits().leaked(0).budget(1000).stall(5000).calls(std::getenv("KNOWN")));
  EXPECT_EQ(make_words(10), 10u);
}
TEST(Faulty, Leak) {
  sonde::gtest_watch watch(limits().leaked(0));
  lose_block();
}
TEST(Faulty, Budget) {
  sonde::gtest_watch watch(limits().budget(100));
  make_words(200);
}
TEST(Faulty, Stall) {
  sonde::gtest_watch watch(limits().stall(50));
  be_late();
}
TEST(Faulty, Call) {
  sonde::gtest_watch watch(limits().calls(std::getenv("KNOWN")));
  dial();
}
TEST(Healthy, Again) {
  sonde::gtest_watch watch(limits().leaked(0).budget(1000));
  EXPECT_EQ(make_words(10), 10u);
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
