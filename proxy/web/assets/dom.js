// Elements are made here and nowhere else, and every text that is shown is set as text: what models and clients write
// is hostile, and is never read as HTML.

/** An element with attributes and children; a child that is a string becomes a text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== "" && value !== null && value !== undefined) {
      made.setAttribute(key, String(value));
    }
  }
  made.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
  return made;
}

// What turns the direction of the text around it, or cannot be seen, is shown by its number.
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

/** A text in which nothing hides. */
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`);
}

/** The element of the page with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Replace the children of an element. */
export function fill(id, children) {
  byId(id).replaceChildren(...children);
}

/** A row of a table. */
export function row(...cells) {
  return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
}

/** A time of day. */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}

/** The tokens of a prompt and of a reply, as far as the server counted them. */
export function tokens(prompt, completion) {
  const [read, written] = [prompt, completion].map((count) => (count ?? 0).toLocaleString());
  return prompt || completion ? `${read} + ${written}` : "";
}
