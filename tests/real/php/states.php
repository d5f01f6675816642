<?php
// SPDX-License-Identifier: MIT
// Stacks of all kinds, at random: says its process id and its stack, as debug_backtrace has it, in a line of JSON, and
// waits for a line; again and again.
//
// usage: states.php SEED ROUNDS

mt_srand((int)$argv[1]);

/** [function, file, line] of all frames of the fiber that runs, innermost first. A frame executes the line where the next
 * inner one was called; one in C has the place from which it was called. */
function told(array $trace, int $line): array {
    $frames = [];
    $place = [__FILE__, $line];
    foreach ($trace as $k => $call) {
        if (!$place) // the frame is in C: of the first PHP code outside
            for ($i = $k; !$place; $i++)
                $place = isset($trace[$i]['file']) ? [$trace[$i]['file'], $trace[$i]['line']] : null;
        if (($call['class'] ?? '') === 'Fiber') return $frames;
        $frames[] = [(isset($call['class']) ? $call['class'] . '::' : '') . $call['function'], ...$place];
        $place = isset($call['file']) ? [$call['file'], $call['line']] : null;
    }
    $frames[] = ['{main}', ...$place];
    return $frames;
}

function wait(): void {
    $line = __LINE__ + 2;
    echo json_encode([getmypid() => [['fgets', __FILE__, $line], ...told(debug_backtrace(), $line)]]), "\n";
    if (fgets(STDIN) === false) exit(0);
}

trait Loud {
    public function shout(int $n) { return deeper($n); }
    public static function whisper(int $n) { return deeper($n); }
}

class Base implements IteratorAggregate, ArrayAccess, Countable, JsonSerializable {
    use Loud;
    public static int $left = 0;
    public function method(int $n) { return deeper($n); }
    public static function fixed(int $n) { return deeper($n); }
    public function __call($name, $arguments) { return deeper($arguments[0]); }
    public static function __callStatic($name, $arguments) { return deeper($arguments[0]); }
    public function __get($name) { return deeper(self::$left); }
    public function __toString(): string { deeper(self::$left); return 'text'; }
    public function __invoke(int $n) { return deeper($n); }
    public function getIterator(): Iterator { deeper(self::$left); return new ArrayIterator([1]); }
    public function offsetExists(mixed $o): bool { return (bool)deeper(self::$left); }
    public function offsetGet(mixed $o): mixed { return deeper(self::$left); }
    public function offsetSet(mixed $o, mixed $v): void { deeper(self::$left); }
    public function offsetUnset(mixed $o): void { deeper(self::$left); }
    public function count(): int { return (int)deeper(self::$left); }
    public function jsonSerialize(): mixed { return deeper(self::$left); }
    public function closure(int $n) { return (function () use ($n) { return deeper($n); })(); }
}

class Derived extends Base {
    public function method(int $n) { return parent::method($n); }
}

class Dying {
    public function __construct(private int $n) {}
    public function __destruct() { deeper($this->n); }
}

class Made {
    public function __construct(int $n) { deeper($n); }
}

function recursion(int $k, int $n) { return $k ? recursion($k - 1, $n) : deeper($n); }
function numbers(int $n) { yield 1; yield deeper($n); yield 3; }
function delegates(int $n) { yield 0; yield from numbers($n); }
function delegates_twice(int $n) { yield from delegates($n); }

/** PHP starts no fiber inside of a destructor or of an autoloader. */
function in_fiber(int $n) {
    $f = new Fiber(function ($n) { Fiber::suspend(); array_map('deeper', [$n]); });
    try { $f->start($n); } catch (FiberError $e) { return deeper($n); }
    $f->resume();
}

class Loader {
    public static function load(string $name) { deeper(Base::$left); eval("class $name {}"); }
}
spl_autoload_register(['Loader', 'load']);

$ways = [
    fn($n) => deeper($n),
    function ($n) { return (new Base)->method($n); },
    function ($n) { return (new Derived)->method($n); },
    function ($n) { return Base::fixed($n); },
    function ($n) { return (new Base)->unknown($n); },
    function ($n) { return Base::unknown($n); },
    function ($n) { Base::$left = $n; return (new Base)->missing; },
    function ($n) { Base::$left = $n; return strlen(new Base); },
    function ($n) { return (new Base)($n); },
    function ($n) { return array_map(new Base, [$n]); },
    function ($n) { return array_map('deeper', [$n]); },
    function ($n) { return call_user_func_array(['Base', 'fixed'], [$n]); },
    function ($n) { return call_user_func([new Derived, 'method'], $n); },
    function ($n) { $a = [2, 1]; $once = true; usort($a, function ($x, $y) use ($n, &$once) { if ($once) { $once = false; deeper($n); } return $x - $y; }); },
    function ($n) { foreach (numbers($n) as $x); },
    function ($n) { foreach (delegates($n) as $x); },
    function ($n) { foreach (delegates_twice($n) as $x); },
    function ($n) { return iterator_to_array(delegates_twice($n), false); },
    function ($n) { Base::$left = $n; foreach (new Base as $x); },
    function ($n) { Base::$left = $n; $b = new Base; return isset($b[1]); },
    function ($n) { Base::$left = $n; $b = new Base; return $b[1]; },
    function ($n) { Base::$left = $n; $b = new Base; $b[1] = 2; },
    function ($n) { Base::$left = $n; $b = new Base; unset($b[1]); },
    function ($n) { Base::$left = $n; return count(new Base); },
    function ($n) { Base::$left = $n; return json_encode(new Base); },
    function ($n) { return (new Base)->closure($n); },
    function ($n) { return (new Base)->shout($n) . Derived::whisper($n - 1); },
    function ($n) { $d = new Dying($n); unset($d); },
    function ($n) { try { $d = new Dying($n); throw new Exception; } catch (Exception $e) { unset($d); } },
    function ($n) { try { throw new Exception; } catch (Exception $e) { return deeper($n); } finally { $n--; } },
    function ($n) { try { return 1; } finally { deeper($n); } },
    function ($n) { return new Made($n); },
    function ($n) { return (new ReflectionMethod('Base', 'method'))->invoke(new Base, $n); },
    function ($n) { return recursion(mt_rand(1, 40), $n); },
    function ($n) { return eval('return deeper($n);'); },
    function ($n) { return include __DIR__ . '/included.php'; },
    function ($n) { return require __DIR__ . '/included.php'; },
    function ($n) { Base::$left = $n; return class_exists('C' . mt_rand()); },
    function ($n) { return preg_replace_callback('/b/', function ($m) use ($n) { deeper($n); return 'x'; }, 'abc'); },
    function ($n) { return deeper(...)($n); },
    function ($n) { set_error_handler(function () use ($n) { restore_error_handler(); deeper($n); return true; }); return [][1]; },
    function ($n) { return in_fiber($n); },
    function ($n) { return array_reduce([1], function ($sum, $x) use ($n) { return array_filter([$n], 'deeper'); }); },
];

function deeper(int $n) {
    global $ways;
    if ($n <= 0) wait();
    else $ways[mt_rand(0, count($ways) - 1)]($n - 1);
    return 0;
}

for ($round = 0; $round < (int)$argv[2]; $round++)
    deeper(mt_rand(0, 8));
