// The orders of the list: by name as the server lists streams, the largest first, the last written first.

export const ORDERS = {
  name: null,
  size: (one, other) => other.bytes - one.bytes,
  written: (one, other) => other.lastWriteMs - one.lastWriteMs,
};
