-- SPDX-License-Identifier: MIT
-- A file that states.lua runs.
local n = ...
return deeper(n)
