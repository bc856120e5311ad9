// Elements are made here and nowhere else, and every text that is shown is set as text: what models and clients write
// is hostile, and is never read as HTML.

/** An element with attributes and children; a child that is a string becomes a text. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same, of SVG. */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(made, attributes, children) {
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

/** Put children in the place of those that an element has; its note for "nothing" goes by whether there are any. */
export function fill(id, children, empty = "") {
  byId(id).replaceChildren(...children);
  if (empty) {
    byId(empty).hidden = children.length > 0;
  }
}

/** A row of a table. */
export function row(...cells) {
  return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
}

/** Characters, words and numbers of a moment. */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}
