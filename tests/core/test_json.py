#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random JSON texts and random changes of them: core/source/json.c accepts those that Python's json accepts, with the
same values. Usage: test_json.py <core_json> [<texts>]; TRYST_TEST_SEED=<number> replays a run.

Left out where the two differ on purpose: NaN and Infinity, numbers beyond 64 bits or beyond a double, NUL and halves of
surrogate pairs in strings, names that an object has twice, and nesting of more than 100."""
import json
import os
import random
import struct
import subprocess
import sys
import time


class Differs(Exception):
    """The text is one that json.c refuses on purpose."""


def no_constant(_):
    raise ValueError("no JSON")


def whole(digits):
    if not -2**63 <= int(digits) < 2**63:
        raise Differs
    return int(digits)


def real(digits):
    if float(digits) in (float("inf"), float("-inf")):
        raise Differs
    return float(digits)


def members(pairs):
    if len({name for name, _ in pairs}) < len(pairs):
        raise Differs
    return dict(pairs)


def printed(value):
    """What core_json prints for a value."""
    if value is None or value is True or value is False:
        return {None: "n", True: "t", False: "f"}[value]
    if isinstance(value, str):
        if "\0" in value or any(0xd800 <= ord(c) < 0xe000 for c in value):
            raise Differs
        return '"' + value.encode().hex()
    if isinstance(value, int):
        return "i%d" % value
    if isinstance(value, float):
        return "r" + struct.pack(">d", value).hex()
    if isinstance(value, list):
        return "[" + "".join(" " + printed(item) for item in value) + "]"
    return "{" + "".join(printed(name) + " " + printed(item) for name, item in value.items()) + "]"


def expected(text):
    """Return what core_json must print; None: either answer is right."""
    try:
        value = json.loads(text.decode(), parse_constant=no_constant, parse_int=whole, parse_float=real,
                           object_pairs_hook=members)
        return printed(value)
    except (Differs, RecursionError):
        return None
    except ValueError:
        return "refused"


def string_make(draw):
    characters = ['"', "\\", "/", "a", "u", "\b", "\n", "\x7f", "\u00e9", "\u20ac", "\U0001d11e", " ", "0"]
    return "".join(draw.choice(characters) for _ in range(draw.randrange(6)))


def value_make(draw, depth):
    kind = draw.randrange(8 if depth < 6 else 6)
    if kind == 0:
        return draw.choice([None, True, False])
    if kind == 1:
        return draw.choice([0, -1, 7, 10, 2**63 - 1, -2**63, draw.getrandbits(60)])
    if kind == 2:
        return draw.choice([0.5, -1e-7, 1e300, 5e-324, draw.random(), draw.uniform(-1e20, 1e20)])
    if kind < 6:
        return string_make(draw)
    if kind == 6:
        return [value_make(draw, depth + 1) for _ in range(draw.randrange(5))]
    return {string_make(draw): value_make(draw, depth + 1) for _ in range(draw.randrange(5))}


def text_make(draw):
    return json.dumps(value_make(draw, 0), ensure_ascii=draw.random() < 0.5,
                      indent=draw.choice([None, None, 1, "\t"])).encode()


PIECES = [b'"', b"\\", b"\\u", b"\\ud834", b"\\udd1e", b"[", b"]", b"{", b"}", b",", b":", b"-", b"+", b".", b"e", b"E",
          b"0", b"01", b"1", b"9" * 19, b"null", b"tru", b" ", b"\n", b"\0", b"\x1f", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"NaN"]


def text_change(draw, text):
    for _ in range(draw.randrange(1, 4)):
        at, end = draw.randrange(len(text) + 1), draw.choice([0, 0, 1, 1, 3])
        piece = draw.choice([b"", draw.choice(PIECES), draw.choice(PIECES), bytes([draw.randrange(256)])])
        text = text[:at] + piece + text[at + end:]
    return text


def main():
    seed = int(os.environ.get("TRYST_TEST_SEED") or time.time())
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    print("TRYST_TEST_SEED=%d" % seed)
    draw = random.Random(seed)
    texts = [text_make(draw) for _ in range(count)]
    texts += [text_change(draw, text) for text in texts for _ in range(4)]
    given = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    lines = subprocess.run([sys.argv[1], "answer"], input=given, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    assert len(lines) == len(texts), "%d answers to %d texts" % (len(lines), len(texts))
    counts = {"accepted": 0, "refused": 0, "left out": 0}
    for text, line in zip(texts, lines):
        right = expected(text)
        counts["left out" if right is None else "refused" if right == "refused" else "accepted"] += 1
        if right is not None and line != right:
            sys.exit("%r\n  json.c: %s\n  Python: %s" % (text, line, right))
    print(counts)
    assert counts["refused"] > count and counts["accepted"] > count, "the texts have too few of a kind"


main()
