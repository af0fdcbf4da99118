# SPDX-License-Identifier: GPL-2.0
"""Encodes Protocol Buffers, as far as profiles and traces need this."""

SHORT = [bytes([n]) for n in range(128)]


def varint(n):
    if n < 0:
        raise ValueError(f"{n} is negative")
    if n < 128:
        return SHORT[n]
    result = bytearray()
    while n > 127:
        result.append(n & 127 | 128)
        n >>= 7
    result.append(n)
    return bytes(result)


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, *parts):
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def string(field, text):
    return message(field, text.encode("utf-8", "replace"))
