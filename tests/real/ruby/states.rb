# SPDX-License-Identifier: MIT
# A program whose threads wait in many kinds of Ruby frames. It prints what Ruby itself says of each thread, and
# waits: a JSON object from native thread ids to frames [function, file, line], innermost first. Further threads
# are made of random nested calls; the argument is the seed, the second one their number.
require "json"
require "set"

$gate = Queue.new
$ready = Queue.new

def rest = ($ready << 1; $gate.pop)

def deep(n)
  return rest if n == 0
  deep(n - 1)
end

class Thing
  include Comparable
  attr_reader :size
  def initialize(method) = (@size = 1; method == :new ? rest : nil)
  def method_missing(name, *arguments)
    return rest if name == :absent
    super
  end
  def respond_to_missing?(*) = true
  define_method(:defined) { |x| x.then { |y| rest } }
  def <=>(other) = rest
  def to_s
    rest
    "thing"
  end
  def each
    yield 1
    yield 2
  end
  def self.late
    begin
      raise ArgumentError, "x"
    rescue ArgumentError => e
      begin
        raise
      rescue
        rest
      end
    ensure
      rest
    end
  end
  def ensured
    return 1
  ensure
    rest
  end
  private def hidden(a, *b, c: 1, **d, &e) = e.call(c)
end

module Mixed
  def each
    super { |x| rest }
  end
end

class Prepended < Thing
  prepend Mixed
end

ALL = [
  -> { rest },
  -> { deep(300) },
  -> { [1, 2].each { |x| { a: x }.each_pair { |k, v| 3.times { rest } } } },
  -> { Thing.new(:new) },
  -> { Thing.new(nil).absent },
  -> { Thing.new(nil).defined(1) },
  -> { [Thing.new(nil), Thing.new(nil)].sort },
  -> { Thing.new(nil) > Thing.new(nil) },
  -> { "#{Thing.new(nil)}" },
  -> { Thing.late },
  -> { Thing.new(nil).ensured },
  -> { Prepended.new(nil).each },
  -> { Thing.new(nil).send(:hidden, 1, 2, c: 3) { |x| rest } },
  -> { eval("1.then {\n\n rest }", binding, "an évalué file", 70) },
  -> { Thing.class_eval { rest } },
  -> { Object.new.instance_exec(1) { |x| rest } },
  -> { Fiber.new { rest }.resume },
  -> { Fiber.new { Fiber.new { [1].map { rest } }.resume }.resume },
  -> { Enumerator.new { |y| y << 1; rest }.then { |e| e.next; e.next } },
  -> { [4, 5].each.with_index(1).map { |x, i| rest } },
  -> { (1..3).lazy.map { |x| rest }.first(1) },
  -> { [:rest].each(&method(:send)) },
  -> { %w[rest].map(&:to_sym).each { |name| method(name).to_proc.call } },
  -> { catch(:done) { rest; throw :done } },
  -> { [3, 1, 2].sort_by { |x| rest } },
  -> { [1, 2, 3].inject { |a, b| rest } },
  -> { "abc".gsub(/b/) { |m| rest } },
  -> { Hash.new { |h, k| rest }[:x] },
  -> { Struct.new(:a) { def go = rest }.new(1).go },
  -> { Module.new { rest } },
  -> { Mutex.new.synchronize { rest } },
  -> { loop { rest } },
  -> { 1.step(3) { |i| rest } },
  -> { ObjectSpace.each_object(Class) { |c| rest } },
  -> { at = TracePoint.new(:raise) { |t| rest }; at.enable { raise "x" rescue nil } },
  -> { Proc.new { |x| rest }.curry[1] },
  -> { (method(:deep) >> method(:p)).call(2) },
  -> { while true do rest end },
  -> { case 1 when ->(x) { rest } then 1 end },
  -> { Set.new([1]).each { |x| rest } },
  -> { Comparable.instance_method(:clamp).bind_call(Thing.new(nil), 1, 2) },
  -> { JSON.generate([Class.new { define_method(:to_json) { |*a| rest } }.new]) },
  -> { Kernel.load(File.expand_path("waiting.rb", __dir__)) },
  -> { Class.new { define_singleton_method(:inherited) { |c| rest; super(c) } }.then { |c| Class.new(c) } },
  -> { Thing.new(nil).public_send(:tap) { rest } },
  -> { Array.new(3) { rest } },
  -> { [1, [2]].flatten.each_slice(1).each_with_object([]) { |a, b| rest } },
  -> { `true`; at = 1
       rest if
         at == 1 },
]

# Random nests: each step calls the next one in another way.
STEPS = [
  ->(r, n) { go(r, n) },
  ->(r, n) { [1].each { go(r, n) } },
  ->(r, n) {
    begin
      raise "x"
    rescue
      go(r, n)
    end
  },
  ->(r, n) { Fiber.new { go(r, n) }.resume },
  ->(r, n) { { a: 1 }.map { |k, v| go(r, n) } },
  ->(r, n) { 1.then { go(r, n) } },
  ->(r, n) { send(:go, r, n) },
  ->(r, n) { eval("\n" * (n % 9) + "go(r, n)") },
  ->(r, n) { [2, 1].sort { |a, b| go(r, n) } },
  ->(r, n) { begin; 1; ensure; go(r, n); end },
  ->(r, n) { catch { |tag| go(r, n) } },
  ->(r, n) { method(:go).call(r, n) },
  ->(r, n) { Enumerator.new { |y| go(r, n) }.next },
  ->(r, n) { Thing.new(nil).instance_eval { Thing.new(nil).each { |x| Object.send(:go, r, n) } } },
  ->(r, n) { [[r, n]].each(&method(:spread)) },
  ->(r, n) { r.rand(3).times { 1 + 1 }; "x".sub(/x/) { go(r, n); "y" } },
]

def spread(pair) = go(*pair)

def go(r, n) = n == 0 ? rest : STEPS[r.rand(STEPS.size)].call(r, n - 1)

random = Random.new((ARGV[0] || 1).to_i)
nests = Array.new((ARGV[1] || 20).to_i) { |i| own = Random.new(random.rand(1 << 30)); -> { go(own, own.rand(1..25)) } }

threads = (ALL + nests).map { |body| Thread.new(&body) }
threads.each { $ready.pop }
until threads.all? { |t| t.status == "sleep" && t.stop? } do Thread.pass end

def frames(locations) = locations.map { |l| [l.label, l.path, l.lineno] }

told = threads.to_h { |t| [t.native_thread_id, frames(t.backtrace_locations)] }
told[Process.pid] = nil # its own frames differ by the time that it is read
puts JSON.generate(told)
$stdout.flush
$stdin.read
exit! # an "ensure" of a thread may wait
