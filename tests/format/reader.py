#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A second reader of .sonde recordings, written from docs/format.md and from nothing else.

usage: reader.py FILE            prints every event in order, as `sonde events --stacks` does
       reader.py --calls FILE    prints every call as it ended: thread, depth, pc, start, end
"""
import heapq
import json
import struct
import sys

M64 = (1 << 64) - 1


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


class Recording:
    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        assert data[:8] == b"SONDE\r\n\x1a", "not a recording"
        (self.version, _, size, self.features, order, self.machine, self.clock, self.shift,
         self.start_ticks, self.start_ns, _, self.end_ticks, self.end_ns, self.pid, self.state,
         self.exit_status, self.stop, self.lost, self.lost_stacks, _) = struct.unpack_from(
             "<HHIQIIIIQQQQQIIIIQQQ", data, 8)
        assert self.version == 0 and self.features == 0 and order == 0x01020304
        self.frames, self.nodes, self.threads, self.images = {}, {}, {}, {}
        self.loads = []
        self.arguments, self.chunks, self.stalls = [], {}, {}
        self.find_chunks(data, size)
        last = max((key[0] for key in self.chunks), default=0)
        self.chunks = {k: c for k, c in sorted(self.chunks.items()) if k[0] == last}
        for (_, kind, _, _), chunk in self.chunks.items():
            if kind == 2:
                self.read_tables(Bytes(chunk[64:]))

    def find_chunks(self, data, at):
        while at + 64 <= len(data):
            (magic, kind, _, size, used, stream, sequence, _, _, _, incarnation, _, _, _,
             said) = struct.unpack_from("<IHHIIIIQQQHBBIQ", data, at)
            if magic != 0x4B4E4843 or size % 8 or size < 64 or at + size > len(data):
                at += 8
                continue
            chunk = data[at:at + size]
            if checksum(chunk[:56] + bytes(8) + chunk[64:]) == said:
                key, known = (incarnation, kind, stream, sequence), chunk[:64 + used]
                if len(known) > len(self.chunks.get(key, b"")):
                    self.chunks[key] = known
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

    def stack(self, node):
        pcs = []
        while node:
            node, frame = self.nodes[node]
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
                    if stream:
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
            yield {"event": "mark", "time": time, "name": b.string().decode()}
        elif subtype == 6:
            call, address, size, stack, old, old_size = (b.varint() for _ in range(6))
            region = {"event": "region", "time": time, "address": hex(address), "size": size,
                      "call": ["", "mapped", "unmapped", "moved"][call], "stack": stack}
            if call == 3:
                region.update(old=hex(old), old_size=old_size)
            yield region
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
            event["given_ns"] = int(recording.nanoseconds(event.pop("given")))
            event.pop("time_ns")
        elif "stack" in event:
            event["frames"] = [hex(pc) for pc in recording.stack(event["stack"])]
        print(json.dumps(event))


if __name__ == "__main__":
    main()
