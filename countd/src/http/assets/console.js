// The console: live figures, and a box that selects all dead letters. Every page works without it.
"use strict";
(() => {
  // Milliseconds between two reads of the figures.
  const PAUSE = 5000;
  const numbers = new Intl.NumberFormat("en");

  const list = document.querySelector("[data-figures]");
  let last;
  async function readFigures() {
    try {
      const response = await fetch(list.dataset.figures, { redirect: "error" });
      if (response.ok) {
        const figures = await response.json();
        const now = performance.now();
        for (const element of list.querySelectorAll("[data-figure]")) {
          const value = figures[element.dataset.figure];
          element.textContent = value === null ? "unknown" : numbers.format(value);
        }
        for (const element of list.querySelectorAll("[data-rate]")) {
          const name = element.dataset.rate;
          const rate = last && (figures[name] - last.figures[name]) / ((now - last.now) / 1000);
          if (last) { element.textContent = `${numbers.format(Math.max(0, Math.round(rate)))}/s`; }
        }
        last = { figures, now };
      }
    } catch {
      // The session has ended, or countd is not running: the figures stay as they are.
      return;
    }
    setTimeout(readFigures, PAUSE);
  }
  if (list) { readFigures(); }

  for (const form of document.querySelectorAll("form[data-select-all]")) {
    const heading = form.querySelector("thead th");
    const all = document.createElement("input");
    all.type = "checkbox";
    all.setAttribute("aria-label", "Select all");
    all.addEventListener("change", () => {
      for (const box of form.querySelectorAll('tbody input[type="checkbox"]')) { box.checked = all.checked; }
    });
    heading.prepend(all);
  }
})();
