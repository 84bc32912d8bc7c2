"""Ed25519 verification in plain Python, so that webhook signatures can be checked without a dependency.

Textbook arithmetic on the twisted Edwards curve -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032). It is slow
and not constant-time, which is fine for checking a few public signatures and for nothing else.
"""

from __future__ import annotations

import hashlib

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)

Point = tuple[int, int]
_IDENTITY: Point = (0, 1)


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether a signature of a message was made by the owner of a public key."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    owner, commitment = _decode(public_key), _decode(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if owner is None or commitment is None or scalar >= _ORDER:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    challenge = int.from_bytes(digest, "little") % _ORDER
    return _times(scalar, _BASE) == _add(commitment, _times(challenge, owner))


def _add(a: Point, b: Point) -> Point:
    product = _D * a[0] * b[0] * a[1] * b[1] % _P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, -1, _P) % _P
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, _P) % _P
    return x, y


def _times(scalar: int, point: Point) -> Point:
    result = _IDENTITY
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point, scalar = _add(point, point), scalar >> 1
    return result


def _x_of(y: int, odd: int) -> int | None:
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P != square:
        x = x * _ROOT_OF_MINUS_ONE % _P
    if x * x % _P != square or (x == 0 and odd):
        return None
    return x if x & 1 == odd else _P - x


def _decode(encoded: bytes) -> Point | None:
    number = int.from_bytes(encoded, "little")
    y, odd = number & ((1 << 255) - 1), number >> 255
    x = _x_of(y, odd) if y < _P else None
    return None if x is None else (x, y)


_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE: Point = (_x_of(_BASE_Y, 0) or 0, _BASE_Y)
