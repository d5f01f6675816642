-- SPDX-License-Identifier: MIT
-- Calls a known chain of functions for ever, through a coroutine and through functions in C.
local function leaf(n) local x = 0 for i = 1, n do x = x + i % 7 end return x end
local function inner(n) return leaf(n) + leaf(n) end
local n = 20
local function replace() inner(n) end
local function callback() return (string.gsub("ab", "a", replace)) end
local function outer() callback() return inner(n) + 0 end
local thread = coroutine.create(function() while true do outer() coroutine.yield() end end)
print("ready")
io.flush()
while true do coroutine.resume(thread) end
