/* SPDX-License-Identifier: MIT
 *
 * Ends by an exception that nothing catches, in the way that its argument names.
 */
#include <stdexcept>
#include <string>

namespace shop {
struct Empty {};
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
} // namespace shop

[[gnu::noinline]] static void order(const std::string &how) {
  if (how == "text") throw shop::Refused("no such article: 17");
  if (how == "plain") throw shop::Empty();
  if (how == "number") throw 42;
}

int main(int count, char **words) {
  const std::string how = count > 1 ? words[1] : "";
  if (how == "handled") {
    try {
      order("text");
    } catch (const std::exception &) {
      __builtin_abort();
    }
  }
  order(how);
  return 1;
}
