"""The keys of a store: one for tokens, and those that webhooks are signed with.

The newest signing key signs. A former one stays published, without its private half, for as long as a
receiver may meet a signature by it: what was under way, the window in which receivers accept a signature,
and the time that they may cache the list of keys.

Keys are made elsewhere, where there is randomness. They survive with the store.

PROTOCOL.md 6.5; rules S1, S2.
"""

from typing import Final

import msgspec

PUBLISHED_MS: Final = 3_600_000
"""How long a key stays published after it was replaced."""


class SigningKey(msgspec.Struct, frozen=True, array_like=True):
    """An Ed25519 key: its raw halves, and when another one replaced it."""

    private: bytes
    """Empty once the key signs no more."""
    public: bytes
    replaced_ms: int | None = None


class Keys(msgspec.Struct, frozen=True, array_like=True):
    """The key of tokens, and the signing keys, the newest first."""

    token_key: bytes
    signing: tuple[SigningKey, ...]

    @property
    def active(self) -> SigningKey:
        """The key that signs."""
        return self.signing[0]


def rotate(keys: Keys, new: SigningKey, now_ms: int) -> Keys:
    """Let another key sign; the former one is published for a while."""
    former = SigningKey(b"", keys.active.public, now_ms)
    return Keys(keys.token_key, (new, former, *published(keys, now_ms)[1:]))


def published(keys: Keys, now_ms: int) -> tuple[SigningKey, ...]:
    """Give the keys that a receiver may need to verify a signature."""
    return tuple(
        key for key in keys.signing if key.replaced_ms is None or now_ms - key.replaced_ms < PUBLISHED_MS
    )
