// Hex dumps: position, hex digits, and printable characters.

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function hexLines(bytes, start, width) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += width) {
    const row = bytes.subarray(at, at + width);
    const codes = Array.from(row, (byte, index) => (index === 8 ? ` ${HEX[byte]}` : HEX[byte])).join(" ");
    const printable = Array.from(row, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·"));
    const place = ((start ?? 0) + at).toString(16).padStart(8, "0");
    lines.push(`${place}  ${codes.padEnd(width * 3 + (width > 8 ? 0 : -1))}  ${printable.join("")}`);
  }
  return lines.join("\n");
}

/** All bytes as hex digits; *Append* takes them as they are. */
export function hexDigits(bytes) {
  return Array.from(bytes, (byte) => HEX[byte]).join(" ");
}

/** Parse hex as typed by the user; null if it is not hex. */
export function parseHex(text) {
  const digits = text.replace(/[\s:_-]|0x/g, "");
  if (digits.length % 2 || /[^0-9a-f]/i.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
