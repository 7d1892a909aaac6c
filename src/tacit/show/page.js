"use strict";
// Without this script the page shows every alternative; with it, the chosen one.
document.documentElement.classList.add("js");

document.addEventListener("DOMContentLoaded", () => {
  for (const choice of document.querySelectorAll(".choice")) {
    // A choice inside a choice has selectors and options of its own.
    const own = (query) => [...choice.querySelectorAll(query)].filter((e) => e.closest(".choice") === choice);
    const selectors = own("[data-selector]");
    const options = own(".option");
    const nothing = own(".nothing")[0];

    const chosen = (selector) => {
      if (selector.tagName === "FIELDSET") return selector.querySelector("input:checked").value;
      if (selector.type === "range") return selector.dataset.values.split(" ")[selector.value];
      return selector.value;
    };
    const update = () => {
      const at = selectors.map(chosen).join(" ");
      let found = false;
      for (const option of options) {
        const shown = option.dataset.at === at;
        option.classList.toggle("shown", shown);
        found = found || shown;
      }
      nothing.hidden = found;
    };
    for (const selector of selectors) {
      selector.addEventListener("input", () => {
        if (selector.type === "range") {
          const label = selector.dataset.labels.split("\n")[selector.value];
          selector.parentElement.querySelector("output").textContent = label;
          selector.setAttribute("aria-valuetext", label);
        }
        update();
      });
    }
    // A browser may keep what was chosen before a reload.
    update();
  }

  for (const field of document.querySelectorAll("input[data-table]")) {
    const rows = [...document.getElementById(field.dataset.table).tBodies[0].rows];
    const words = rows.map((row) => row.textContent.toLowerCase());
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      rows.forEach((row, i) => { row.hidden = !words[i].includes(wanted); });
      const left = rows.filter((row) => !row.hidden).length;
      field.parentElement.querySelector("output").textContent = wanted ? `${left} of ${rows.length}` : "";
    });
  }

  // Paper cannot be unfolded.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => { details.open = true; });
  });
  window.addEventListener("afterprint", () => folded.forEach((details) => { details.open = false; }));
});
