# SPDX-License-Identifier: MIT
"""Readers of profiles and of the requests that carry them, written from the published definitions: pprof's
profile.proto, OpenTelemetry's profiles.proto (1.10, 1.11), Pyroscope's push.proto and Parca's profilestore.proto."""
import gzip
import struct


# ---- protobuf ------------------------------------------------------------------------------------

def fields(data):
    """(number, value) of a protobuf message; a value is a number or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            at += 8
            yield key >> 3, struct.unpack_from("<Q", data, at - 8)[0]
        else:
            assert key & 7 == 2, key
            size = varint()
            assert at + size <= len(data), "a field ends after the message"
            yield key >> 3, data[at:at + size]
            at += size


def numbers(packed):
    value = shift = 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def all_of(message, number):
    return [value for n, value in fields(message) if n == number]


def one_of(message, number, default=None):
    values = all_of(message, number)
    assert len(values) <= 1, (number, values)
    return values[0] if values else default


# ---- pprof ---------------------------------------------------------------------------------------

def read_pprof(data):
    """The types of a profile's values, and its samples: (names of functions, {type: value})."""
    message = list(fields(gzip.decompress(data)))
    strings = [v.decode() for n, v in message if n == 6]
    types = [strings[dict(fields(v))[1]] for n, v in message if n == 1]
    functions = {f[1]: strings[f[2]] for f in (dict(fields(v)) for n, v in message if n == 5)}
    locations = {}
    for n, v in message:
        if n == 4:
            location = list(fields(v))
            lines = [dict(fields(line)) for k, line in location if k == 4]
            locations[dict(location)[1]] = [functions[line[1]] for line in lines]
    samples = []
    for n, v in message:
        if n == 2:
            sample = dict(fields(v))
            names = [f for i in numbers(sample.get(1, b"")) for f in locations[i]]
            samples.append((names, dict(zip(types, numbers(sample[2])))))
    assert strings[0] == ""
    return types, samples


def read_series(request, is_parca):
    """The labels and the profile of a request with one series and one sample, by Pyroscope's or Parca's definition."""
    series = one_of(request, 2 if is_parca else 1)
    labels = all_of(one_of(series, 1), 1) if is_parca else all_of(series, 1)
    labels = [(one_of(label, 1).decode(), one_of(label, 2, b"").decode()) for label in labels]
    return labels, one_of(one_of(series, 2), 1)


# ---- OpenTelemetry -------------------------------------------------------------------------------

def _any_value(value):
    (kind, content), = fields(value)
    return content.decode() if kind == 1 else content


class Otlp:
    """An ExportProfilesServiceRequest with one resource and one scope. Its dictionary must be as the definition says:
    every table begins with an empty entry, and has neither equal entries nor any that nothing refers to."""

    def __init__(self, request):
        resource_profiles = one_of(request, 1)
        self.resource = {one_of(a, 1).decode(): _any_value(one_of(a, 2)) for a in all_of(one_of(resource_profiles, 1), 1)}
        scope = one_of(resource_profiles, 2)
        self.scope = one_of(one_of(scope, 1), 1).decode()
        dictionary = one_of(request, 2)
        names = "mappings locations functions links strings attributes stacks".split()
        self.tables = {name: all_of(dictionary, number) for number, name in enumerate(names, 1)}
        self.used = {name: {0} for name in names}
        self.read = {}  # locations, by number
        for name, table in self.tables.items():
            assert len(set(table)) == len(table), f"equal entries in {name}"
            assert table[0] == (b"\x0a\x10" + bytes(16) + b"\x12\x08" + bytes(8) if name == "links" else b""), name
        self.profiles = [self._profile(p) for p in all_of(scope, 2)]
        for name, table in self.tables.items():
            assert self.used[name] == set(range(len(table))), f"{name} with no reference, or references beyond it"

    def _get(self, name, number):
        self.used[name].add(number)
        return self.tables[name][number]

    def _string(self, number):
        return self._get("strings", number).decode()

    def _attributes(self, message, number):
        found = {}
        for n in numbers(one_of(message, number, b"")):
            attribute = self._get("attributes", n)
            found[self._string(one_of(attribute, 1))] = _any_value(one_of(attribute, 2))
        return found

    def _type(self, message):
        return self._string(one_of(message, 1, 0)), self._string(one_of(message, 2, 0))

    def _line(self, line):
        function = self._get("functions", one_of(line, 1, 0))
        self._string(one_of(function, 2, 0))
        return self._string(one_of(function, 1, 0)), self._string(one_of(function, 3, 0)), one_of(line, 2, 0)

    def _mapping(self, number):
        mapping = self._get("mappings", number)
        return {"start": one_of(mapping, 1, 0), "limit": one_of(mapping, 2, 0), "file": self._string(one_of(mapping, 4, 0)),
                **self._attributes(mapping, 5)}

    def _location(self, number):
        if number not in self.read:
            location = self._get("locations", number)
            self.read[number] = {
                "lines": [self._line(line) for line in all_of(location, 3)], "address": one_of(location, 2, 0),
                "mapping": self._mapping(one_of(location, 1, 0)), **self._attributes(location, 4)}
        return self.read[number]

    def _sample(self, sample):
        stack = self._get("stacks", one_of(sample, 1, 0))
        value, = numbers(one_of(sample, 4))
        return [self._location(n) for n in numbers(one_of(stack, 1, b""))], value

    def _profile(self, message):
        profile = {"type": self._type(one_of(message, 1)), "samples": [self._sample(s) for s in all_of(message, 2)],
                   "time": one_of(message, 3), "duration": one_of(message, 4, 0), "id": one_of(message, 7),
                   "period": one_of(message, 6, 0)}
        if one_of(message, 5) is not None:
            profile["period_type"] = self._type(one_of(message, 5))
        assert len(profile["id"]) == 16, profile["id"]
        return profile

    def total(self, kind):
        return sum(value for profile in self.profiles if profile["type"][0] == kind for _, value in profile["samples"])
