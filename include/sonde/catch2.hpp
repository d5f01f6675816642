/* SPDX-License-Identifier: MIT
 *
 * For Catch2, versions 2 and 3: the test fails if the block exceeds a limit, and the finding is the
 * message.
 *
 *   TEST_CASE("the parser frees everything") {
 *     sonde::catch2_watch watch(sonde::test::limits().leaked(0).stall(200));
 *     parse("…");
 *   }
 */
#ifndef SONDE_CATCH2_HPP
#define SONDE_CATCH2_HPP

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_macros.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include "sonde/test.hpp"

namespace sonde {

class catch2_watch {
public:
  explicit catch2_watch(const test::limits &allowed) : watch_(allowed) {}
  ~catch2_watch() {
    std::string found = watch_.finish();
    if (!found.empty()) FAIL_CHECK(found); /* does not throw */
  }

private:
  test::watch watch_;
};

} // namespace sonde

#endif
