/* SPDX-License-Identifier: MIT */
long fib(long n);
__attribute__((noinline)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
