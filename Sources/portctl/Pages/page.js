"use strict";

const { made, host, content } = JSON.parse(document.getElementById("data").textContent);

// Makes an element. A child that is a string becomes text, never HTML.
function make(name, className, ...children) {
  const element = document.createElement(name);
  element.className = className;
  element.append(...children);
  return element;
}

// Writes each value as the text of the elements that name it.
function fill(root, values) {
  for (const place of root.querySelectorAll("[data-fill]")) place.textContent = values[place.dataset.fill] ?? "";
}
