"""Spark's `xxhash64` for DuckDB, so that both engines have the same keys, and one continues the work of the other.

Each column is hashed by XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), seeded with the hash of
the columns before it; a null changes nothing. The rows of a batch are computed together, by numpy.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SEED = 42
"""Spark's seed of the first column."""

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(each)
    for each in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE = 32
"""Bytes that four accumulators take at a time."""


def xxhash64(*columns: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the hash of each row of these columns: texts, integers or booleans."""
    hashes = np.full(len(columns[0]), SEED, np.uint64)
    for column in columns:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        hashes = _seeded(array, hashes)
    return pa.array(hashes.view(np.int64))


def _seeded(column: pa.Array, seeds: np.ndarray) -> np.ndarray:
    """Return the hash of each value, from its seed."""
    if pa.types.is_null(column.type):
        return seeds
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        hashes = _of_texts(column.cast(pa.large_binary()), seeds)
    else:
        values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
        hashes = _of_longs(values, seeds) if pa.types.is_int64(column.type) else _of_integers(values, seeds)
    return np.where(np.asarray(column.is_null()), seeds, hashes) if column.null_count else hashes


def _of_longs(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return the hashes of values of 8 bytes."""
    return _mixed(_with_word(seeds + _P5 + np.uint64(8), values))


def _of_integers(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return the hashes of values of up to 4 bytes, in 4 bytes."""
    return _mixed(_with_half(seeds + _P5 + np.uint64(4), values & np.uint64(0xFFFFFFFF)))


def _of_texts(texts: pa.Array, seeds: np.ndarray) -> np.ndarray:
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    places, lengths = ends[:-1].copy(), np.diff(ends)
    data = np.frombuffer(b"" if content is None else content, np.uint8)
    words, halves = _everywhere(data, np.uint64), _everywhere(data, np.uint32)
    hashes = seeds + _P5
    long = np.flatnonzero(lengths >= _STRIPE)
    if long.size:
        stripes = lengths[long] // _STRIPE
        hashes[long] = _of_stripes(words, places[long], stripes, seeds[long])
        places[long] += stripes * _STRIPE
    hashes += lengths.astype(np.uint64)
    left = lengths % _STRIPE
    for number in range(3):
        rows = np.flatnonzero(left >= 8 * (number + 1))
        hashes[rows] = _with_word(hashes[rows], words[places[rows] + 8 * number])
    places += left & ~7
    rows = np.flatnonzero(left & 4)
    hashes[rows] = _with_half(hashes[rows], halves[places[rows]].astype(np.uint64))
    places += left & 4
    for number in range(3):
        rows = np.flatnonzero(left & 3 > number)
        byte = data[places[rows] + number].astype(np.uint64)
        hashes[rows] = _turned(hashes[rows] ^ byte * _P5, 11) * _P1
    return _mixed(hashes)


def _of_stripes(words: np.ndarray, places: np.ndarray, stripes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return the state after the whole stripes of texts, which begin at `places` and have one at least."""
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for stripe in range(stripes.max()):
        rows = np.flatnonzero(stripes > stripe)
        at = places[rows] + _STRIPE * stripe
        for number, lane in enumerate(lanes):
            lane[rows] = _rounded(lane[rows], words[at + 8 * number])
    first, second, third, fourth = lanes
    hashes: np.ndarray = _turned(first, 1) + _turned(second, 7) + _turned(third, 12) + _turned(fourth, 18)
    for lane in lanes:
        hashes = (hashes ^ _rounded(np.uint64(0), lane)) * _P1 + _P4
    return hashes


def _everywhere(data: np.ndarray, kind: type[np.unsignedinteger]) -> np.ndarray:
    """Return the little-endian number at each byte of the data, without a copy."""
    dtype = np.dtype(kind).newbyteorder("<")
    return np.ndarray((max(0, len(data) - dtype.itemsize + 1),), dtype, data, strides=(1,))


def _rounded(lane: np.ndarray | np.uint64, word: np.ndarray) -> np.ndarray:
    return _turned(lane + word * _P2, 31) * _P1


def _with_word(hashes: np.ndarray, word: np.ndarray) -> np.ndarray:
    return _turned(hashes ^ _rounded(np.uint64(0), word), 27) * _P1 + _P4


def _with_half(hashes: np.ndarray, half: np.ndarray) -> np.ndarray:
    return _turned(hashes ^ half * _P1, 23) * _P2 + _P3


def _turned(values: np.ndarray, bits: int) -> np.ndarray:
    """Rotate to the left."""
    turned: np.ndarray = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return turned


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Spread each bit over all."""
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    mixed: np.ndarray = hashes ^ (hashes >> np.uint64(32))
    return mixed
