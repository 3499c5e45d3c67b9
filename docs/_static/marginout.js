"use strict";
// Names for controls of the theme and the gallery that come without one, or with one that differs from what they show.
addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll(".search-button__button[aria-label]"))
    if (button.textContent.trim()) button.setAttribute("aria-label", button.textContent.trim().replace(/\s+/g, " "));
  for (const summary of document.querySelectorAll("summary:not([aria-label])"))
    if (!summary.textContent.trim()) {
      const link = summary.closest("li")?.querySelector("a");
      summary.setAttribute("aria-label", `More of ${link ? link.textContent.trim() : "this section"}`);
    }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a"))
    link.setAttribute("aria-label", link.textContent.trim());
});
