/* SPDX-License-Identifier: MIT
 *
 * For GoogleTest: the test fails if the block exceeds a limit, and the finding is the message.
 *
 *   TEST(Parser, FreesEverything) {
 *     sonde::gtest_watch watch(sonde::test::limits().leaked(0).stall(200));
 *     parse("…");
 *   }
 */
#ifndef SONDE_GTEST_HPP
#define SONDE_GTEST_HPP

#include <gtest/gtest.h>

#include "sonde/test.hpp"

namespace sonde {

class gtest_watch {
public:
  explicit gtest_watch(const test::limits &allowed) : watch_(allowed) {}
  ~gtest_watch() {
    std::string found = watch_.finish();
    if (!found.empty()) ADD_FAILURE() << found;
  }

private:
  test::watch watch_;
};

} // namespace sonde

#endif
