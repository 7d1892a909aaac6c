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
      selector.addEventListener("input", update);
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

  for (const head of document.querySelectorAll("th[aria-sort]")) {
    const table = head.closest("table");
    const key = (row) => {
      const cell = row.cells[head.cellIndex];
      return cell.dataset.number === undefined ? cell.textContent : Number(cell.dataset.number);
    };
    const before = (a, b) => {
      if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1; // no number: the least
      return typeof a === "number" ? a - b : -a.localeCompare(b, "en", { numeric: true });
    };
    head.firstChild.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") !== "descending";
      for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const sign = falling ? -1 : 1; // first the largest, or the first letter
      const rows = [...table.tBodies[0].rows].sort((a, b) => sign * before(key(a), key(b)));
      table.tBodies[0].append(...rows);
    });
  }

  // One label for the whole page says what lies under the pointer, or where the arrow keys are.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  let follow = null; // what the keys point at stays told while the page scrolls to it
  const keys = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  for (const cells of document.querySelectorAll(".cells")) {
    const rows = Number(cells.dataset.rows), columns = Number(cells.dataset.columns);
    const values = cells.dataset.values.split("\n");
    const names = cells.dataset.names?.split("\n");
    const spot = cells.parentElement.querySelector(".spot");
    // Cells off any grid have a middle each; what is nearest to it belongs to it.
    const points = cells.dataset.points?.split("\n").map((pair) => pair.split(" ").map(Number));
    let row = 0, column = 0, here = 0;
    const apart = (from) => {
      const box = cells.getBoundingClientRect();
      return points.map(([x, y]) => [(x - from[0]) * box.width, (y - from[1]) * box.height]);
    };
    const nearest = (ways, counts = () => true) => {
      let best = here, least = Infinity;
      ways.forEach(([x, y], i) => {
        if (counts(x, y) && Math.hypot(x, y) < least) [best, least] = [i, Math.hypot(x, y)];
      });
      return best;
    };

    const show = () => {
      const at = points ? here : row * columns + column;
      tip.textContent = `${names ? names[at] : `row ${row}, column ${column}`}: ${cells.dataset.label} ${values[at]}`;
      tip.hidden = false;
      const box = cells.getBoundingClientRect();
      const [left, top, width, height] = ["x", "y", "width", "height"].map((k) => Number(cells.getAttribute(k)));
      const lay = (x, above, below, frame) => {
        tip.style.left = `${Math.max(4, Math.min(x - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 4))}px`;
        tip.style.top = `${above - tip.offsetHeight - 6 > 4 ? above - tip.offsetHeight - 6 : below + 6}px`;
        for (const [k, v] of Object.entries(frame)) spot.setAttribute(k, v);
      };
      if (points) {
        const [x, y] = points[at], side = 9; // pixels about the middle
        const [wide, tall] = [2 * side * width / box.width, 2 * side * height / box.height];
        const frame = { x: left + x * width - wide / 2, y: top + y * height - tall / 2, width: wide, height: tall };
        const middle = box.top + y * box.height;
        lay(box.left + x * box.width, middle - side, middle + side, frame);
        return;
      }
      const x = box.left + (column + 0.5) * box.width / columns;
      const frame = { x: left + column * width / columns, y: top + row * height / rows, width: width / columns, height: height / rows };
      lay(x, box.top + row * box.height / rows, box.top + (row + 1) * box.height / rows, frame);
    };
    const hide = () => {
      tip.hidden = true;
      follow = null;
      spot.setAttribute("width", 0);
    };
    const point = (event) => {
      follow = null;
      const box = cells.getBoundingClientRect();
      if (points) {
        here = nearest(apart([(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height]));
        show();
        return;
      }
      column = Math.max(0, Math.min(columns - 1, Math.floor((event.clientX - box.left) / box.width * columns)));
      row = Math.max(0, Math.min(rows - 1, Math.floor((event.clientY - box.top) / box.height * rows)));
      show();
    };
    cells.addEventListener("pointermove", point);
    cells.addEventListener("pointerdown", point);
    cells.addEventListener("pointerleave", hide);
    cells.addEventListener("focus", () => { if (cells.matches(":focus-visible")) show(); });
    cells.addEventListener("blur", hide);
    cells.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      if (!(event.key in keys)) return;
      event.preventDefault();
      if (points) { // the nearest one that lies more this way than aside
        const [down, right] = keys[event.key];
        here = nearest(apart(points[here]), (x, y) => x * right + y * down > 0.5 * Math.hypot(x, y));
        follow = show;
        show();
        return;
      }
      row = Math.max(0, Math.min(rows - 1, row + keys[event.key][0]));
      column = Math.max(0, Math.min(columns - 1, column + keys[event.key][1]));
      follow = show;
      show();
    });
  }
  window.addEventListener("scroll", () => { if (follow) follow(); else tip.hidden = true; }, { passive: true });

  // Paper cannot be unfolded.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => { details.open = true; });
  });
  window.addEventListener("afterprint", () => folded.forEach((details) => { details.open = false; }));
});
