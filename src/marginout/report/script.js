"use strict";
// Adds the slider: it moves the markers and the numbers that the page already shows for one rate.
(() => {
  const input = document.getElementById("rate");
  if (!input) return;
  const rates = JSON.parse(input.dataset.rates);
  const all = (name) => [...document.querySelectorAll(`[data-${name}]`)];
  const lists = (name) => all(name).map((node) => [node, JSON.parse(node.dataset[name])]);
  const texts = lists("at"), xs = lists("x"), ys = lists("y"), looks = lists("look");
  const fates = all("fate").map((node) => [node, Number(node.dataset.fate)]);
  const move = () => {
    const i = Number(input.value);
    for (const [node, at] of texts) node.textContent = at[i];
    for (const [node, x] of xs)
      for (const name of node.tagName === "line" ? ["x1", "x2"] : ["cx"]) node.setAttribute(name, x[i]);
    for (const [node, y] of ys) node.setAttribute("cy", y[i]);
    for (const [node, look] of looks) node.className = look[i];
    for (const [node, fate] of fates) node.classList.toggle("dead", fate < rates[i]);
    input.setAttribute("aria-valuetext", Math.round(100 * rates[i]) + "%");
  };
  input.addEventListener("input", move);
  for (const node of document.querySelectorAll(".control")) node.hidden = false;
  move(); // a browser may have kept the slider where it was
})();
