// Makes characters visible that hide, reorder or overprint others: ESC becomes ␛, a bidi override ⟨U+202E⟩.
// Tabs and line feeds are kept. The result is still only ever put into text nodes.

// eslint-disable-next-line no-control-regex
const HIDING = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function visible(text) {
  return text.replace(HIDING, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "␡";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Leave those characters out: for what is suggested in a field, which shows characters as they are. */
export function plain(text) {
  return text.replace(HIDING, "");
}
