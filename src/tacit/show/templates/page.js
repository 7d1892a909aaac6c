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

  for (const play of document.querySelectorAll(".play")) {
    const data = JSON.parse(play.dataset.play), actions = data.actions.length;
    const sliders = [...play.querySelectorAll("input[type=range]")];
    const ticks = [...play.querySelectorAll("input[type=checkbox]")];
    const stage = play.querySelector(".stage"), why = play.querySelector(".why");
    stage.innerHTML = "<svg></svg>"; // a page that needs no network names no address, not even this
    const drawing = stage.firstChild.namespaceURI;
    stage.replaceChildren();
    const make = (tag, marks = {}, parent = null) => {
      const made = document.createElementNS(drawing, tag);
      for (const [k, v] of Object.entries(marks)) made.setAttribute(k, v);
      if (parent) parent.append(made);
      return made;
    };
    const percent = (share) => share >= 0.1 ? `${Math.round(100 * share)} %` : `${(100 * share).toFixed(1)} %`;
    const signed = (x) => x ? `${x < 0 ? "\u2212" : "+"}${Math.abs(x).toPrecision(2)}` : "0";
    let moved = 0, cursor = data.order[0];
    const point = () => data.sweeps[moved].points[Number(sliders[moved].value)];

    const explain = () => {
      const now = point(), from = cursor * actions;
      const taken = data.actions.map((name, a) => [now.policy[from + a] / 1000, a, name])
        .filter(([share]) => share > 0.01).sort((x, y) => y[0] - x[0]);
      const words = taken.slice(0, 4).map(([share, a, name]) => {
        const [worth, burden] = [now.worth[from + a], now.burden[from + a]];
        const cost = burden === 0 ? "" : `, costs ${signed(burden)} at its price`;
        return `${name} ${percent(share)} (earns ${signed(worth)}${cost})`;
      });
      why.textContent = `${data.states[cursor]}, ${percent(now.visits[cursor] / 10000)} of its time: `
        + (words.length ? `${words.join("; ")}. Compared with what it does there on average.` : "an end: nothing is done.");
    };

    let redraw;
    if (data.map) {
      const { areas, middles, room, ways, frame: [left, top, width, height] } = data.map;
      const svg = make("svg", { viewBox: `${left - 0.05} ${top - 0.05} ${width + 0.1} ${height + 0.1}`, tabindex: 0, role: "img" }, stage);
      const corners = (s) => areas[s].map((corner) => corner.join(" ")).join(",");
      const places = areas.map((area, s) => make("polygon", { class: "place", points: corners(s), "data-state": s }, svg));
      const arrows = middles.map(([x, y]) => make("g", { class: "arrow", transform: `translate(${x} ${y})` }, svg));
      const here = make("polygon", { class: "here" }, svg);
      const at = (s) => {
        cursor = s;
        if (areas[s]) here.setAttribute("points", corners(s));
        explain();
      };
      redraw = () => {
        const now = point(), most = Math.max(...now.visits, 1);
        places.forEach((place, s) => {
          const share = Math.round(75 * Math.sqrt(now.visits[s] / most));
          place.style.fill = `color-mix(in srgb, var(--accent) ${share}%, var(--cell))`;
          arrows[s].replaceChildren();
          ways[s % ways.length].forEach(([x, y], a) => {
            const length = 0.44 * room[s] * now.policy[s * actions + a] / 1000;
            if (length < 0.01) return;
            if (!x && !y) { make("circle", { class: "head", r: 0.15 * length / 0.44 }, arrows[s]); return; }
            const head = Math.min(0.13, 0.6 * length), neck = length - head;
            make("path", { d: `M0 0L${x * neck} ${y * neck}` }, arrows[s]);
            make("path", { class: "head", d: `M${x * length} ${y * length}L${x * neck - y * head * 0.55} ${y * neck + x * head * 0.55}L${x * neck + y * head * 0.55} ${y * neck - x * head * 0.55}Z` }, arrows[s]);
          });
        });
        svg.setAttribute("aria-label", `Policy and visits. ${sliders[moved].getAttribute("aria-valuetext")}. The arrow keys read one cell after the other.`);
      };
      const under = (event) => {
        const place = event.target.closest(".place");
        if (place) at(Number(place.dataset.state));
      };
      svg.addEventListener("pointermove", under);
      svg.addEventListener("pointerdown", under);
      svg.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
        if (!step) return;
        event.preventDefault();
        const [x, y] = middles[cursor] || middles[0];
        const off = middles.map(([u, v], s) => {
          const along = (u - x) * step[0] + (v - y) * step[1], beside = Math.abs((u - x) * step[1] + (v - y) * step[0]);
          return [along > 0.01 && along >= 0.5 * beside ? along + 2 * beside : Infinity, s]; // the nearest that lies there
        });
        const [far, next] = off.reduce((best, one) => one[0] < best[0] ? one : best);
        if (far < Infinity) at(next);
      });
      at(cursor);
    } else {
      const table = stage.appendChild(document.createElement("table"));
      table.innerHTML = "<thead><tr><th>State</th><th>Time there</th><th>What it does</th></tr></thead><tbody></tbody>";
      const rows = data.order.slice(0, 15).map((s) => {
        const row = table.tBodies[0].insertRow();
        row.tabIndex = 0;
        const head = row.appendChild(document.createElement("th"));
        head.scope = "row";
        head.textContent = data.states[s];
        const bar = row.insertCell().appendChild(document.createElement("span"));
        bar.className = "amount";
        const told = row.insertCell();
        for (const kind of ["focus", "pointerenter"]) row.addEventListener(kind, () => { cursor = s; explain(); });
        return [s, bar, told];
      });
      redraw = () => {
        const now = point(), most = Math.max(...now.visits, 1);
        for (const [s, bar, told] of rows) {
          bar.style.width = `${100 * now.visits[s] / most}%`;
          bar.title = percent(now.visits[s] / 10000);
          told.textContent = data.actions.map((name, a) => [now.policy[s * actions + a] / 1000, name])
            .filter(([share]) => share > 0.01).sort((x, y) => y[0] - x[0]).slice(0, 3)
            .map(([share, name]) => `${name} ${percent(share)}`).join(", ");
        }
      };
    }
    const settle = (k) => {
      moved = k;
      sliders.forEach((slider, i) => {
        if (i !== k) { slider.value = slider.dataset.now; ticks[i].checked = false; }
        const label = slider.dataset.labels.split("\n")[slider.value];
        slider.parentElement.querySelector("output").textContent = label;
        slider.setAttribute("aria-valuetext", label);
      });
      redraw();
      explain();
    };
    sliders.forEach((slider, k) => slider.addEventListener("input", () => { ticks[k].checked = false; settle(k); }));
    ticks.forEach((tick, k) => tick.addEventListener("input", () => {
      sliders[k].value = tick.checked ? sliders[k].max : sliders[k].dataset.now;
      settle(k);
    }));
    play.querySelector("button").addEventListener("click", () => {
      sliders.forEach((slider, k) => { slider.value = slider.dataset.now; ticks[k].checked = false; });
      settle(moved);
    });
    settle(0);
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
