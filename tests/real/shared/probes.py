# SPDX-License-Identifier: MIT
"""The static probes (USDT) of a file, as readelf prints them."""
import re

from helpers import output_of


def notes(path):
    """{name: (location, semaphore, arguments)} of the provider."""
    text = output_of("readelf", "-n", path)
    found = re.findall(r"Provider: otel_memory\s+Name: (\w+)\s+Location: 0x(\w+), Base: 0x\w+, Semaphore: 0x(\w+)\s+"
                       r"Arguments: (.*)", text)
    return {name: (int(location, 16), int(semaphore, 16), arguments.split())
            for name, location, semaphore, arguments in found}


def offset_of(path, address):
    """The place in the file of an ADDRESS."""
    for line in output_of("readelf", "-lW", path).splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            offset, start, size = (int(words[i], 16) for i in (1, 2, 4))
            if start <= address < start + size:
                return offset + address - start
    raise AssertionError(address)
