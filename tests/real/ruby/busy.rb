# SPDX-License-Identifier: MIT
# Computes for ever, always the same. With the argument "told" it runs once under a TracePoint and prints all stacks that
# it can have, as lines of JSON: the list of [function, file, line], innermost first. Else it prints a line and computes.
require "json"

class Point
  attr_reader :x
  def initialize(x)
    @x = x
  end

  def +(other)
    Point.new(@x + other.x)
  end
end

def fib(n)
  if n < 2
    n
  else
    fib(n - 1) +
      fib(n - 2)
  end
end

def sums
  total = Point.new(0)
  [1, 2, 3].each do |i|
    2.times { |k|
      total = total + Point.new(i * k)
    }
  end
  total
end

def strings
  words = %w[a b c].map { |w| w.upcase }
  words.sort_by { |w| w.hash }.each_slice(2).map { |a, b| "#{a}#{b}" }
end

def raising
  begin
    raise ArgumentError, "x"
  rescue ArgumentError
    1
  ensure
    2
  end
end

def work
  fib(6)
  sums
  strings
  raising
  Fiber.new { fib(3) }.resume
end

def run
  work
end

if ARGV[0] == "told"
  seen = {}
  probe = TracePoint.new(:line, :call, :return, :c_call, :c_return, :b_call, :b_return, :raise) do |at|
    stack = caller_locations(1).map { |l| [l.label, l.path, l.lineno] }
    seen[stack] = true
    # A method in C has no frame yet.
    seen[[[at.method_id.to_s, *stack[0][1..]]] + stack] = true if at.event == :c_call
  end
  probe.enable { run }
  seen.each_key { |stack| puts JSON.generate(stack) }
else
  puts "computes"
  $stdout.flush
  loop { run }
end
