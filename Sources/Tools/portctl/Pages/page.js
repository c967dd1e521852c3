"use strict";

const { made, host, content } = JSON.parse(document.getElementById("data").textContent);

// Makes an element. A child that is a string becomes text, never HTML.
function make(name, className, ...children) {
  const element = document.createElement(name);
  element.className = className;
  element.append(...children);
  return element;
}

// A text whose backticks enclose code.
function marked(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, place) => place % 2 ? make("code", "", part) : part) : [text];
}

// Writes each value as the text of the elements that name it.
function fill(root, values) {
  for (const place of root.querySelectorAll("[data-fill]")) place.textContent = values[place.dataset.fill] ?? "";
}
