# SPDX-License-Identifier: MIT
# Loaded by states.rb.
[1].each do
  rest
end
