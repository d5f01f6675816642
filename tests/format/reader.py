#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A second reader of .sonde recordings, written from docs/format.md and from nothing else.

usage: reader.py FILE            prints every event in order, as `sonde events --stacks` does
       reader.py --calls FILE    prints every call as it ended: thread, depth, pc, start, end
"""
import ctypes
import heapq
import json
import struct
import sys

M64 = (1 << 64) - 1
USAGE = [
    "", "rss_bytes", "peak_rss_bytes", "anonymous_bytes", "swap_bytes", "minor_faults", "major_faults",
    "descriptors", "threads", "user_ns", "system_ns", "voluntary_switches", "involuntary_switches",
    "cgroup_memory_bytes", "cgroup_memory_limit_bytes", "cgroup_oom_events", "cgroup_oom_kills",
    "cgroup_cpu_limit_permille", "cgroup_throttled_ns", "sonde_ns",
    "descriptors_files_read", "descriptors_files_written", "descriptors_sockets", "descriptors_pipes",
    "descriptors_epoll", "descriptors_timers", "descriptors_eventfd", "descriptors_other", "machine_memory_bytes"]

CAUSES = [
    "before", "off", "last_interval", "signal_blocked", "handler_replaced", "seccomp", "no_timer", "no_agent",
    "kernel_thread", "lost", "unseen"]


def mix(x, w):
    x = ((x ^ w) * 0x9E3779B97F4A7C15) & M64
    return x ^ (x >> 32)


def checksum(data):
    lanes = [1, 2, 3, 4]
    for i, (w,) in enumerate(struct.iter_unpack("<Q", data)):
        lanes[i % 4] = mix(lanes[i % 4], w)
    total = len(data)
    for lane in lanes:
        total = mix(total, lane)
    return total


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def more(self):
        return self.at < len(self.data)

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        first = self.data[self.at]
        if first == 0:
            value = struct.unpack_from("<Q", self.data, self.at + 1)[0]
            self.at += 9
            return value
        n = (first & -first).bit_length()
        value = int.from_bytes(self.data[self.at:self.at + n], "little") >> n
        self.at += n
        return value

    def signed(self):
        v = self.varint()
        return v >> 1 if v % 2 == 0 else -(v + 1 >> 1)

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def string(self):
        return self.take(self.varint())


def place(number):
    return (number & M64) * 0x9E3779B97F4A7C15 % 2**64 >> 48


class Model:
    """What packed events are coded against."""

    def __init__(self):
        self.last, self.follow, self.sizes = [0, 0, 0], {}, {}
        self.live, self.holes = {}, {}          # address: (class, owner); class: addresses
        self.order, self.of_owner = {}, {}      # live addresses in the order of allocation
        self.source, self.after = {}, {}
        self.freed_by, self.step, self.from_any = {}, {}, {}
        self.freed = self.end = self.fresh = 0
        self.neighbours = (0, 0)

    def contexts(self):
        a, b, c = self.last
        two = 3 * a + 0xD6E8FEB86659FD93 * b
        return (3, place(two + 0xA0761D6478BD642F * c)), (2, place(two)), (1, place(a))

    def symbols(self):
        three, two, one = self.contexts()
        return [self.follow.get(three, 0), self.follow.get(two, 0), *self.follow.get(one, [0] * 4)]

    @staticmethod
    def to_front(items, item):
        items = list(items)
        del items[items.index(item) if item in items else -1]
        return [item, *items]

    def symbol_was(self, symbol):
        three, two, one = self.contexts()
        self.follow[three] = self.follow[two] = symbol
        self.follow[one] = self.to_front(self.follow.get(one, [0] * 4), symbol)
        self.last = [symbol, *self.last[:2]]

    def size_was(self, symbol, size):
        self.sizes[place(symbol)] = self.to_front(self.sizes.get(place(symbol), [0] * 3), size)

    @staticmethod
    def takes(size):
        return max(32, size + 23 & ~15)

    def list_of(self, size):
        return self.holes.setdefault(min(self.takes(size) // 16, 4095), [])

    def hole(self, size, rank):
        holes = self.list_of(size)
        return holes[-1 - rank] if rank < len(holes) else 0

    def new_addresses(self, size):
        return [self.hole(size, 0), self.fresh, self.hole(size, 1), self.end, self.freed,
                self.hole(size, 2)]

    def forget(self, address):
        owner = self.live.pop(address)[1]
        del self.order[address], self.of_owner[owner][address]

    def new_was(self, symbol, size, shift, address):
        end, holes = address + (self.takes(size) >> shift), self.list_of(size)
        near = holes[-64:]
        if address in near:
            del holes[len(holes) - 1 - near[::-1].index(address)]
        else:
            self.fresh = end
        self.end = end
        if address in self.live:
            self.forget(address)
        self.live[address] = (min(self.takes(size) // 16, 4095), place(symbol))
        self.order[address] = self.of_owner.setdefault(place(symbol), {})[address] = True

    def alive(self, block):
        """The address of a block, if it is still live."""
        return block[0] if block and block[0] in self.live else 0

    def freed_addresses(self, symbol):
        own = place(symbol)
        blocks = self.of_owner.get(self.source.get(own, 0), {})
        after, before = self.neighbours
        return [next(reversed(blocks), 0), self.alive(self.after.get(own)),
                self.freed + self.from_any.get(own, 0), self.alive(after), self.alive(before),
                next(iter(blocks), 0), self.freed_by.get(own, 0) + self.step.get(own, 0)]

    def freed_was(self, symbol, address):
        own = place(symbol)
        self.step[own] = address - self.freed_by.get(own, 0)
        self.from_any[own] = address - self.freed
        self.freed_by[own] = self.freed = address
        if address not in self.live:
            self.after[own], self.neighbours = None, (None, None)
            return
        order = list(self.order)  # slow, and plain
        at = order.index(address)
        after = (order[at + 1],) if at + 1 < len(order) else None
        self.after[own] = after
        self.neighbours = after, (order[at - 1],) if at else None
        size_class, self.source[own] = self.live[address]
        self.forget(address)
        self.holes.setdefault(size_class, []).append(address)


class Columns:
    """Chunks of events out of their columns."""

    def __init__(self, b):
        self.columns = []
        for _ in range(20):
            size, packed = b.varint(), b.varint()
            self.columns.append(Bytes(zstd(b.take(packed), size)))
        self.model, self.literal, self.out = Model(), 0, b""
        while self.columns[0].more():
            self.chunk()

    def planes(self, first, count):
        return sum(self.columns[first + i].byte() << 8 * i for i in range(count))

    @staticmethod
    def unzigzag(v):
        return v >> 1 if v % 2 == 0 else -(v + 1 >> 1)

    def symbol(self, code):
        if code < 6:
            symbol = self.model.symbols()[code]
        else:
            kind = self.columns[4].byte()
            self.literal = self.literal + self.unzigzag(self.planes(5, 4)) & 0xFFFFFFFF
            symbol = 8 * self.literal + kind
        self.model.symbol_was(symbol)
        return symbol

    def size(self, symbol, code):
        known = self.model.sizes.get(place(symbol), [0] * 3)
        size = known[code] if code < 3 else self.columns[9].varint()
        self.model.size_was(symbol, size)
        return size

    def literal_address(self, base):
        v = self.planes(10, 5)
        return base + self.unzigzag(self.columns[15].varint() if v >> 32 == 255 else v) & M64

    def new(self, symbol, size, code):
        if code < 6:
            address = self.model.new_addresses(size)[code]
        elif code == 6:
            address = self.model.hole(size, self.columns[16].byte())
        else:
            address = self.literal_address(self.model.fresh)
        self.model.new_was(symbol, size, self.shift, address)
        return address

    def free(self, symbol, code):
        address = (self.model.freed_addresses(symbol)[code] if code < 7
                   else self.literal_address(self.model.freed)) & M64
        self.model.freed_was(symbol, address)
        return address

    def put(self, value):
        if value >= 1 << 56:
            return b"\0" + struct.pack("<Q", value)
        size = max(1, -(-value.bit_length() // 7))
        return ((value << 1 | 1) << size - 1).to_bytes(size, "little")

    def put_address(self, address):
        step = address - self.address & M64
        step -= step >> 63 << 64
        self.address = address
        return self.put((step << 1 ^ step >> 63) & M64)

    def chunk(self):
        header = bytearray(self.columns[0].take(64))
        self.address, self.shift = struct.unpack_from("<Q", header, 32)[0], header[50]
        self.stack, self.guesses = 0, [0] * 256
        payload = b"".join(self.record() for _ in range(self.columns[0].varint()))
        padding = bytes(-len(payload) % 8)
        struct.pack_into("<II", header, 8, 64 + len(payload + padding), len(payload))
        self.out += header + payload + padding

    def record(self):
        control, ticks = self.columns[1].byte(), self.columns[2].byte()
        symbol = self.symbol(control & 7)
        kind, code = symbol & 7, control >> 3 & 7
        ticks = self.columns[3].varint() if ticks == 255 else ticks
        head, out = kind | min(ticks, 15) << 4, self.put(ticks - 15) if ticks >= 15 else b""
        if kind == 6:
            body = self.columns[19]
            begin = body.at
            body.byte()
            body.take(body.varint())
            return bytes([head]) + out + body.data[begin:body.at]
        if kind in (3, 7):
            out += self.put(self.columns[18].varint())
        size = None if kind in (2, 7) else self.size(symbol, control >> 6)
        if kind in (2, 3):
            out += self.put_address(self.free(symbol, code))
        if kind in (1, 3, 4, 5):
            code = self.columns[17].byte() if kind == 3 else code
            out += self.put_address(self.new(symbol, size, code)) + self.put(size)
        stack, guess = symbol >> 3, (self.stack * 2654435761 & 0xFFFFFFFF) >> 24
        self.stack = stack
        if self.guesses[guess] == stack:
            return bytes([head | 8]) + out
        self.guesses[guess] = stack
        return bytes([head]) + out + self.put(stack)


def zstd(frame, size):
    if not size:
        return b""
    library, out = ctypes.CDLL("libzstd.so.1"), ctypes.create_string_buffer(size)
    library.ZSTD_decompress.restype = ctypes.c_size_t
    args = [out, ctypes.c_size_t(size), bytes(frame), ctypes.c_size_t(len(frame))]
    assert library.ZSTD_decompress(*args) == size, "no zstd frame"
    return out.raw


def unpack(payload):
    """The chunks of a packed chunk, as (header, used payload) together."""
    b = Bytes(payload)
    mode, size = b.byte(), b.varint()
    chunks = zstd(b.take(len(payload) - b.at), size) if mode == 0 else bytes(Columns(b).out)
    assert len(chunks) == size
    at = 0
    while at < len(chunks):
        whole, used = struct.unpack_from("<II", chunks, at + 8)
        yield chunks[at:at + 64 + used]
        at += whole


class Recording:
    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        assert data[:8] == b"SONDE\r\n\x1a", "not a recording"
        (self.version, _, size, self.features, order, self.machine, self.clock, self.shift,
         self.start_ticks, self.start_ns, _, self.end_ticks, self.end_ns, self.pid, self.state,
         self.exit_status, self.stop, self.lost, self.lost_stacks, _) = struct.unpack_from(
             "<HHIQIIIIQQQQQIIIIQQQ", data, 8)
        assert self.version == 0 and self.features & ~1 == 0 and order == 0x01020304
        self.frames, self.nodes, self.threads, self.images = {}, {}, {}, {}
        self.chains, self.merged, self.frames_of_calls = {}, {}, set()
        self.loads = []
        self.arguments, self.chunks, self.stalls = [], {}, {}
        self.walls, self.waits, self.wall_sums = [], [], {}
        self.find_chunks(data, size)
        last = max((key[0] for key in self.chunks), default=0)
        self.chunks = {k: c for k, c in sorted(self.chunks.items()) if k[0] == last}
        for (_, kind, _, _), chunk in self.chunks.items():
            if kind == 2:
                self.read_tables(Bytes(chunk[64:]))

    def find_chunks(self, data, at):
        while at + 64 <= len(data):
            (magic, kind, flags, size, used, stream, sequence, _, _, _, exec_index, _, _, _,
             said) = struct.unpack_from("<IHHIIIIQQQHBBIQ", data, at)
            if magic != 0x4B4E4843 or size % 8 or size < 64 or at + size > len(data):
                at += 8
                continue
            chunk = data[at:at + size]
            if checksum(chunk[:56] + bytes(8) + chunk[64:]) == said:
                inner = unpack(chunk[64:64 + used]) if flags & 4 else [chunk[:64 + used]]
                for known in inner:
                    key = (exec_index, kind, stream, sequence)
                    if len(known) > len(self.chunks.get(key, b"")):
                        self.chunks[key] = known
                    sequence += 1
            at += size

    def read_tables(self, b):
        while b.more():
            kind = b.byte()
            if kind == 0:
                return
            body = Bytes(b.take(b.varint()))
            if kind == 1:
                body.varint()
                while body.more():
                    self.arguments.append(body.string())
            elif kind == 2:
                number, _, start, end, slide = (body.varint() for _ in range(5))
                self.images[number] = (start, end, slide, body.string(), body.string())
                self.loads.append(("loaded", number))
            elif kind == 3:
                self.loads.append(("unloaded", body.varint()))
            elif kind == 4:
                stream, tid = body.varint(), body.varint()
                self.threads[stream] = tid
            elif kind == 5:
                number = body.varint()
                self.frames[number] = (body.varint(), body.varint(), body.varint())
            elif kind == 6:
                number = body.varint()
                self.nodes[number] = (body.varint(), body.varint())
            elif kind in (7, 8):
                number, *rest = (body.varint() for _ in range(4 if kind == 7 else 3))
                (self.chains if kind == 7 else self.merged)[number] = rest
            elif kind == 9:
                self.frames_of_calls.add(body.varint())

    def stack(self, node):
        pcs, (node, chain) = [], self.merged.get(node, (node, 0))
        while node:
            node, frame = self.nodes[node]
            ends = frame not in self.frames_of_calls or not chain
            while not ends:
                chain, python, ends = self.chains[chain]
                if python:
                    pcs.append(self.frames[python][0])
            pcs.append(self.frames[frame][0])
        return pcs

    def nanoseconds(self, ticks):
        rate = (self.end_ns - self.start_ns) / (self.end_ticks - self.start_ticks)
        return ((ticks << self.shift) - self.start_ticks) * rate

    def events_of_chunk(self, chunk):
        stream, _, time, address = struct.unpack_from("<IIQQ", chunk, 16)
        shift, last, guesses = chunk[50], 0, [0] * 256
        names = {1: "malloc", 2: "free", 3: "realloc", 4: "calloc", 5: "aligned", 7: "sample"}
        b = Bytes(chunk[64:])
        while b.more():
            head = b.byte()
            kind = head & 7
            if head == 0:
                return
            time += head >> 4
            if head >> 4 == 15:
                time += b.varint()
            if kind == 6:
                subtype = b.byte()
                for event in self.extended(subtype, Bytes(b.take(b.varint())), time):
                    if stream in self.threads:
                        event["tid"] = self.threads[stream]
                    yield event
                continue
            event = {"event": names[kind], "began": time}
            if kind == 7:
                event["missed"] = b.varint()
            elif kind == 3:
                time += b.varint()
                address += b.signed()
                event["old"] = hex(address << shift)
            event["time"] = time
            if kind != 7:
                address += b.signed()
                event["address"] = hex(address << shift)
            if kind not in (2, 7):
                event["size"] = b.varint()
            guess = (last * 2654435761 & 0xFFFFFFFF) >> 24
            last = guesses[guess] if head & 8 else b.varint()
            guesses[guess] = event["stack"] = last
            event["tid"] = self.threads[stream]
            yield event

    def stall(self, subtype, b, time):
        if subtype == 32:
            number, tid, began, threshold = (b.varint() for _ in range(4))
            self.stalls[number] = {"tid": tid, "began": began, "noticed": time,
                                   "threshold_ns": threshold, "thread": b.string().decode(),
                                   "samples": []}
        elif subtype == 33:
            number, when, stack, state = (b.varint() for _ in range(4))
            self.stalls[number]["samples"].append((when, stack, chr(state & 255)))
        elif subtype == 35:
            stall = self.stalls[b.varint()]
            stall["end"], stall["ending"] = b.varint(), b.varint()
            stall["excused_ns"] = sum(b.varint() for _ in range(3))
        elif subtype == 46:
            tid, ns, looks, stack, state, _ = (b.varint() for _ in range(6))
            self.walls.append((tid, ns, looks, stack, chr(state), b.string().decode()))
            fd, address, mutex, owner = (b.varint() for _ in range(4))
            self.waits.append((tid, ns, fd - 1, address, mutex, owner, b.string().decode()))
        elif subtype == 47:
            tid, *sums = (b.varint() for _ in range(4))
            self.wall_sums[tid] = [a + s for a, s in zip(self.wall_sums.get(tid, [0] * 3), sums)]

    def calls_of_stream(self, chunks):
        """(depth, pc, start, end or None) of each call of a stream, as they end."""
        stack, expected, time = [], 0, 0
        for chunk in chunks:
            sequence, time = struct.unpack_from("<IQ", chunk, 20)
            shift, data, at = chunk[50], chunk[64:] + bytes(8), 0
            if sequence != expected:
                stack = []
            expected = sequence + 1

            def end(when):
                pc, start = stack.pop()
                if pc is not None:
                    calls.append((len(stack), pc, start << shift, when))

            calls = []
            while at + 8 < len(data) and data[at]:
                low = data[at] & 3
                size = 2 if low == 1 else 4 if low == 2 or not data[at] & 4 else 8
                word = int.from_bytes(data[at:at + size], "little")
                what, at = word >> 3 & 7, at + size
                if low == 1:
                    time += word >> 2
                    end(time << shift)
                elif low == 2:
                    time += word >> 18
                    stack.append((self.frames[word >> 2 & 0xFFFF][0], time))
                elif size == 4:
                    time += word >> 6 if what in (0, 2) else 0
                    for _ in range(1 if what == 0 else word >> 6 if what == 1 else 0):
                        end(time << shift if what == 0 else None)
                elif what == 0:
                    time += word >> 28
                    stack.append((self.frames[word >> 6 & 0x3FFFFF][0], time))
                elif what == 1:
                    time += word >> 6
                else:
                    depth = word >> 6 if what == 3 else 0
                    while len(stack) > depth:
                        end(None)
                    stack += [(None, time)] * (depth - len(stack))
            yield from calls
        while stack:
            pc, start = stack.pop()
            yield len(stack), pc, start << shift, None

    def calls(self):
        streams = {}
        for (_, kind, stream, _), chunk in self.chunks.items():
            if kind == 3:
                streams.setdefault(stream, []).append(chunk)
        for stream, chunks in streams.items():
            for call in self.calls_of_stream(chunks):
                yield (self.threads[stream], *call)

    def extended(self, subtype, b, time):
        if subtype == 2:
            yield {"event": "mode", "time": time, "mode": b.varint(), "sample_bytes": b.varint()}
        elif subtype == 3:
            yield {"event": "snapshot", "time": time, "reason": b.varint(),
                   "unknown_frees": b.varint()}
        elif subtype == 4:
            address = 0
            while b.more():
                address += b.signed()
                size, stack, stream = b.varint(), b.varint(), b.varint()
                yield {"event": "block", "time": time, "given": time - b.signed(), "stack": stack,
                       "address": hex(address), "size": size, "tid": self.threads[stream]}
        elif subtype == 5:
            marker = {"event": "marker", "time": time, "name": b.string().decode()}
            stack = b.varint() if b.more() else 0
            yield {**marker, "stack": stack} if stack else marker
        elif subtype == 6:
            call, address, size, stack, old, old_size = (b.varint() for _ in range(6))
            region = {"event": "mapping", "time": time, "address": hex(address), "size": size,
                      "call": ["", "mapped", "unmapped", "moved"][call], "stack": stack,
                      **{key: b.varint() for key in ("protection", "flags", "offset")}}
            name = b.string().decode()
            if name:
                region["name"] = name
            if call == 3:
                region.update(old=hex(old), old_size=old_size)
            yield region
        elif subtype == 8:
            call, address, size, stack = (b.varint() for _ in range(4))
            yield {"event": "pool" if call == 1 else "pool_free", "time": time,
                   "address": hex(address), "size": size, "stack": stack}
        elif subtype == 7:
            yield {"event": "maps", "time": time, "first": b.varint(), "lines": b.string().decode()}
        elif subtype == 43:
            keys = "number", "tid", "cpu_ns", "sampled_ns", "period_ns"
            event = {"event": "thread_time", "time": time, **{key: b.varint() for key in keys}}
            event["name"], event["without_samples_ns"] = b.string().decode(), {}
            while b.more():
                cause = CAUSES[b.varint()]
                event["without_samples_ns"][cause] = b.varint()
            yield event
        elif subtype == 44:
            keys = "cpu_ns", "threads", "unknown_ns", "waited_for_cpu_ns"
            yield {"event": "process_time", "time": time, **{key: b.varint() for key in keys}}
        elif subtype == 9:
            numbers = [b.varint() for _ in range(5)]
            texts = [b.string().decode() for _ in range(3)]
            keys = "pid", "parent", "start_ns", "end_ns", "cpu_ns", "command", "file", "why"
            yield {"event": "process", "time": time, **dict(zip(keys, numbers + texts))}
        elif subtype == 45:
            event = {"event": "usage", "time": time}
            while b.more():
                number = b.varint()
                event[USAGE[number]] = b.varint()
            yield event
        elif 32 <= subtype <= 47:
            self.stall(subtype, b, time)

    def events(self):
        streams = {}
        for (_, kind, stream, _), chunk in self.chunks.items():
            if kind == 1:
                streams.setdefault(stream, []).append(chunk)

        def one(stream):
            for chunk in streams[stream]:
                for number, event in enumerate(self.events_of_chunk(chunk)):
                    yield event["time"], stream, number, event

        for _, _, _, event in heapq.merge(*(one(s) for s in streams), key=lambda e: e[0]):
            yield event


def main():
    recording = Recording(sys.argv[-1])
    if sys.argv[1] == "--calls":
        for call in recording.calls():
            print(json.dumps(call))
        return
    for event in recording.events():
        event["time_ns"] = int(recording.nanoseconds(event.pop("time")))
        event.pop("began", None)
        if "given" in event:
            event["allocated_ns"] = int(recording.nanoseconds(event.pop("given")))
            event.pop("time_ns")
        elif "stack" in event:
            event["frames"] = [hex(pc) for pc in recording.stack(event["stack"])]
        print(json.dumps(event))


if __name__ == "__main__":
    main()
