// A stream as commands and programs to paste: curl and Python. Tokens never appear in them, only the variable
// MILLSTREAM_TOKEN. Characters that a terminal would act on are escaped.

import { utf8 } from "./contents.js";

// eslint-disable-next-line no-control-regex
const CONTROL = /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const EXAMPLES = { json: '{"hello": "world"}', text: "hello\n", binary: "hello" };
const READERS = { json: ["message", "iter_json"], text: ["text", "iter_text"], binary: ["chunk", "iter_bytes"] };

/** Quote text for POSIX shells; with control characters, for bash and zsh. */
export function shellQuoted(text) {
  if (!CONTROL.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = Array.from(text, (character) => {
    if (character === "\n") return "\\n";
    if (character === "\t") return "\\t";
    if ("\\'".includes(character)) return `\\${character}`;
    if (!CONTROL.test(character)) return character;
    return Array.from(utf8(character), (byte) => `\\x${hex(byte, 2)}`).join("");
  });
  return `$'${escaped.join("")}'`;
}

/** Quote text as a Python string. */
export function pythonQuoted(text) {
  const controls = new RegExp(CONTROL, "g");
  return JSON.stringify(text).replace(controls, (character) => `\\u${hex(character.codePointAt(0), 4)}`);
}

const hex = (code, digits) => code.toString(16).padStart(digits, "0");

/** Snippets for a stream {url, kind, contentType, offset, message, hasToken}, as [label, text] pairs. */
export function snippets(stream) {
  return [
    ["Follow with curl", followWithCurl(stream)],
    ["Append with curl", appendWithCurl(stream)],
    ["Follow in Python", followInPython(stream)],
    ["Append in Python", appendInPython(stream)],
  ];
}

const curlToken = ({ hasToken }) => (hasToken ? ' -H "Authorization: Bearer $MILLSTREAM_TOKEN"' : "");

function followWithCurl(stream) {
  const query = new URLSearchParams({ offset: stream.offset, live: "sse" });
  return `curl -N${curlToken(stream)} ${shellQuoted(`${stream.url}?${query}`)}`;
}

function appendWithCurl(stream) {
  const type = shellQuoted(`Content-Type: ${stream.contentType}`);
  const body = shellQuoted(messageOf(stream));
  return `curl -f -X POST${curlToken(stream)} -H ${type} --data-binary ${body} ${shellQuoted(stream.url)}`;
}

function followInPython(stream) {
  const [name, reader] = READERS[stream.kind];
  const headers = stream.hasToken ? ", headers=headers" : "";
  return lines(
    ...imports(stream, "from millstream import stream"),
    ...pythonToken(stream),
    `url = ${pythonQuoted(stream.url)}`,
    `with stream(url, offset=${pythonQuoted(stream.offset)}${headers}) as response:`,
    `    for ${name} in response.${reader}():`,
    `        print(${name})`,
  );
}

function appendInPython(stream) {
  const headers = stream.hasToken ? ", headers=headers" : "";
  const isJson = stream.kind === "json";
  const quoted = pythonQuoted(messageOf(stream));
  const message = isJson ? `json.loads(${quoted})` : stream.kind === "text" ? quoted : `${quoted}.encode()`;
  return lines(
    ...imports(stream, "from millstream import DurableStream", isJson ? ["import json"] : []),
    ...pythonToken(stream),
    `url = ${pythonQuoted(stream.url)}`,
    `stream = DurableStream(url, content_type=${pythonQuoted(stream.contentType)}${headers})`,
    `stream.append(${message})`,
  );
}

const messageOf = ({ message, kind }) => message || EXAMPLES[kind];

function imports({ hasToken }, ours, others = []) {
  const standard = [...others, ...(hasToken ? ["import os"] : [])];
  return [...standard, ...(standard.length ? [""] : []), ours, ""];
}

function pythonToken({ hasToken }) {
  return hasToken ? [`headers = {"Authorization": "Bearer " + os.environ["MILLSTREAM_TOKEN"]}`] : [];
}

function lines(...all) {
  return `${all.join("\n")}\n`;
}
