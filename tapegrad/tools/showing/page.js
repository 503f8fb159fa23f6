// The page of `tg.show`: draws what a `Walk` knows. Source at the left, the tape in the middle, its graph at the right.
"use strict";

const VIEWS = { forward: "forward sweep", reverse: "reverse mode", tangent: "forward mode", both: "both modes", replay: "replay" };
const HEIGHT = 21; // of a row of the tape, in pixels
const DRAWN = 40; // nodes of the graph, at most
const SHORT = 120; // rows of a tape whose boxes are open at first
const element = (id) => document.getElementById(id);
const escaped = (string) => String(string).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

class Page {
  constructor(data) {
    this.data = data;
    data.regions = regions(data.rows);
    data.users = data.rows.map(() => []);
    data.rows.forEach((row, k) => row.operands.forEach((o) => data.users[o].push(k)));
    // Boxes of a short tape are open.
    this.open = new Set(data.rows.length <= SHORT ? data.regions : []);
    element("title").textContent = data.title;
    for (const [view, name] of Object.entries(VIEWS)) {
      if (view === "replay" && !data.replay) continue;
      const button = document.createElement("button");
      button.textContent = name;
      button.dataset.view = view;
      button.onclick = () => this.show(view);
      element("views").append(button);
    }
    element("next").onclick = () => this.go(1);
    element("back").onclick = () => this.go(-1);
    element("first").onclick = () => this.seek(0);
    element("last").onclick = () => this.seek(this.walk.length);
    element("step").oninput = (event) => this.seek(Number(event.target.value));
    element("retain").onchange = () => this.show(this.walk.view, this.walk.at);
    element("tape").onscroll = () => this.table();
    document.onkeydown = (event) => {
      if (event.key === "ArrowRight") this.go(1);
      else if (event.key === "ArrowLeft") this.go(-1);
      else return;
      event.preventDefault();
    };
    this.sources();
    // A link may say where to begin: #reverse,12.
    const [view, step] = location.hash.slice(1).split(",");
    this.show(VIEWS[view] && (view !== "replay" || data.replay) ? view : "forward", Number(step) || 0);
  }

  show(view, at = 0) {
    this.walk = new Walk(this.data, view, element("retain").checked);
    for (const button of element("views").children) button.setAttribute("aria-pressed", button.dataset.view === view);
    element("step").max = this.walk.length;
    this.seek(Math.min(at, this.walk.length));
  }

  go(by) {
    this.seek(this.walk.at + by);
  }

  seek(step) {
    this.walk.seek(step);
    element("step").value = this.walk.at;
    element("number").textContent = `step ${this.walk.at} of ${this.walk.length}`;
    element("said").firstChild.textContent = this.walk.said || "Step with the arrow keys, the buttons or the slider.";
    const { forward, reverse } = this.walk.counts;
    const { n, m } = this.data;
    element("counts").innerHTML =
      this.walk.view === "both"
        ? `${n} input${n === 1 ? "" : "s"}, ${m} result${m === 1 ? "" : "s"}. Operations on derivatives, one for each element of an instruction: forward mode <b>${forward}</b> (${n} tangents at once), ` +
          `reverse mode <b>${reverse}</b> (${m} sweep${m === 1 ? "" : "s"} back)`
        : "";
    this.follow();
    this.table();
    this.line();
    this.graph();
  }

  // -- source --------------------------------------------------------------------
  sources() {
    element("source").innerHTML = this.data.sources
      .map((source, s) => `<pre><strong>${escaped(source.name)}</strong>${source.lines.map(([number, line]) => `<span id="s${s}l${number}"><i>${number}</i>${escaped(line)}</span>`).join("")}</pre>`)
      .join("");
  }

  line() {
    for (const old of document.querySelectorAll("pre span.here")) old.classList.remove("here");
    const row = this.data.rows[this.walk.row];
    const span = row && row.line && element(`s${row.line[0]}l${row.line[1]}`);
    if (!span) return;
    span.classList.add("here");
    span.scrollIntoView({ block: "nearest" });
  }

  // -- the tape --------------------------------------------------------------------
  // What is listed: numbers of rows, and regions that are closed.
  listed() {
    if (this.list && this.listOf === this.open.size) return this.list;
    this.list = [];
    this.listOf = this.open.size;
    const { rows, regions } = this.data;
    let next = 0;
    for (let row = 0; row < rows.length; row++) {
      while (next < regions.length && regions[next].begin < row) next++;
      const region = regions[next];
      if (region && region.begin === row) {
        this.list.push(region);
        if (!this.open.has(region)) row += region.period * region.count - 1;
        else this.list.push(row);
      } else this.list.push(row);
    }
    this.place = new Map();
    this.list.forEach((item, k) => this.place.set(typeof item === "number" ? item : `r${item.begin}`, k));
    return this.list;
  }

  // The position in the list of a row, or of the region that hides it.
  position(row) {
    this.listed();
    if (this.place.has(row)) return this.place.get(row);
    const region = this.data.regions.find((r) => r.begin <= row && row < r.begin + r.period * r.count);
    return region ? this.place.get(`r${region.begin}`) : 0;
  }

  follow() {
    if (this.walk.row < 0) return;
    const tape = element("tape");
    const y = this.position(this.walk.row) * HEIGHT;
    if (y < tape.scrollTop || y > tape.scrollTop + tape.clientHeight - 3 * HEIGHT) tape.scrollTop = Math.max(0, y - tape.clientHeight / 2);
  }

  table() {
    const list = this.listed();
    const tape = element("tape");
    const first = Math.max(0, Math.floor(tape.scrollTop / HEIGHT) - 5);
    const last = Math.min(list.length, first + Math.ceil((tape.clientHeight || 600) / HEIGHT) + 12);
    const view = this.walk.view;
    const columns = { tangent: view === "tangent" || view === "both", adjoint: view === "reverse" || view === "both" };
    const head = `<tr><th>slot</th><th>operation</th><th>value</th>${columns.tangent ? "<th>tangent</th>" : ""}${columns.adjoint ? "<th>adjoint</th>" : ""}</tr>`;
    const body = list.slice(first, last).map((item) => (typeof item === "number" ? this.entry(item, columns) : this.region(item)));
    const space = (count) => `<tr style="height:${count * HEIGHT}px"></tr>`;
    element("rows").innerHTML = head + space(first) + body.join("") + space(list.length - last);
    for (const tr of document.querySelectorAll("tr.region")) {
      tr.onclick = () => {
        const region = this.data.regions[Number(tr.dataset.region)];
        if (!this.open.delete(region)) this.open.add(region);
        this.list = null;
        this.table();
      };
    }
  }

  entry(row, columns) {
    const { walk } = this;
    const entry = this.data.rows[row];
    const kind = row === walk.row ? "here" : row === walk.operand || (walk.row >= 0 && this.data.rows[walk.row].operands.includes(row)) ? "operand" : "";
    const value = walk.values[row];
    const style = walk.cleared[row] ? "cleared" : value === "other" ? "other" : "value";
    const cells = [`<td>${entry.name}</td>`, `<td title="${escaped(entry.shape)}">${escaped(entry.operation)}</td>`, `<td class="${style}">${escaped(text(value))}</td>`];
    if (columns.tangent) cells.push(`<td class="tangent">${escaped(text(walk.tangents[row]))}</td>`);
    if (columns.adjoint) cells.push(`<td class="adjoint">${escaped(text(walk.adjoints[row]))}</td>`);
    return `<tr data-row="${row}" class="${kind} ${entry.guard ? "guard" : ""}">${cells.join("")}</tr>`;
  }

  region(region) {
    const inside = this.walk.row - region.begin;
    const here = inside >= 0 && inside < region.period * region.count;
    const said = here ? `, at iteration ${Math.floor(inside / region.period)}` : "";
    const sign = this.open.has(region) ? "▾" : "▸";
    return `<tr class="region ${here && !this.open.has(region) ? "here" : ""}" data-region="${this.data.regions.indexOf(region)}"><td colspan="5">${sign} ${region.count} iterations of ${region.period} instructions${said}</td></tr>`;
  }

  // -- the graph ---------------------------------------------------------------------
  // The rows that are drawn: all of a small tape, else those around the current one.
  drawn() {
    const { rows, users } = this.data;
    const real = rows.map((_, k) => k).filter((k) => !rows[k].guard);
    if (real.length <= DRAWN) return real;
    const found = new Set();
    let edge = [this.walk.row >= 0 && !rows[this.walk.row].guard ? this.walk.row : this.data.result];
    for (let depth = 0; depth < 4 && found.size < DRAWN; depth++) {
      const further = [];
      for (const k of edge) {
        if (found.size >= DRAWN) break;
        if (found.has(k)) continue;
        found.add(k);
        further.push(...rows[k].operands, ...users[k].slice(0, 3));
      }
      edge = further;
    }
    return [...found].sort((a, b) => a - b);
  }

  graph() {
    const { rows } = this.data;
    const { walk } = this;
    const drawn = this.drawn();
    const here = new Set(drawn);
    const layers = [];
    const depth = new Map();
    for (const k of drawn) depth.set(k, 1 + Math.max(-1, ...rows[k].operands.filter((o) => here.has(o)).map((o) => depth.get(o))));
    // What has no operands stands just above its first use.
    for (const k of [...drawn].reverse()) {
      const below = this.data.users[k].filter((u) => here.has(u)).map((u) => depth.get(u));
      if (below.length && !rows[k].operands.some((o) => here.has(o))) depth.set(k, Math.min(...below) - 1);
      (layers[depth.get(k)] = layers[depth.get(k)] || []).unshift(k);
    }
    const [w, h, gap, drop] = [100, 48, 14, 40];
    const width = Math.max(...layers.map((layer) => layer.length)) * (w + gap) + gap;
    const spot = new Map();
    layers.forEach((layer, d) => layer.forEach((k, i) => spot.set(k, [(width - layer.length * (w + gap)) / 2 + i * (w + gap) + gap / 2, gap + d * (h + drop)])));
    const parts = [];
    const labels = [];
    for (const k of drawn) {
      const entry = this.data.at[k] >= 0 ? this.data.reverse[this.data.at[k]][1] : [];
      rows[k].operands.forEach((o, i) => {
        if (!here.has(o) || rows[k].operands.indexOf(o) < i) return;
        const [x0, y0, x1, y1] = [spot.get(o)[0] + w / 2, spot.get(o)[1] + h, spot.get(k)[0] + (w * (i + 1)) / (rows[k].operands.length + 1), spot.get(k)[1]];
        const active = k === walk.row && (walk.operand < 0 || o === walk.operand);
        parts.push(`<path class="${active ? "here" : ""}" d="M${x0},${y0} C${x0},${y0 + drop / 2} ${x1},${y1 - drop / 2} ${x1},${y1}"/>`);
        const partial = entry.filter(([operand]) => operand === o).map(([, , p]) => text(p)).filter(Boolean);
        // Above its arrow's end, in three lines; there is room for four.
        if (walk.view !== "replay" && walk.values[k] !== null && partial.length && i < 4) labels.push(`<text class="edge" x="${x1 + 3}" y="${y1 - 5 - 11 * (i % 3)}">${escaped(partial.join(" + "))}</text>`);
      });
    }
    for (const k of drawn) {
      const [x, y] = spot.get(k);
      const kind = k === walk.row ? "here" : k === walk.operand ? "operand" : "";
      const short = (string) => (string.length > 13 ? `${string.slice(0, 12)}…` : string);
      const second = walk.adjoints[k] !== null ? ["adjoint", walk.adjoints[k]] : ["tangent", walk.tangents[k]];
      parts.push(
        `<g class="${kind}"><rect x="${x}" y="${y}" width="${w}" height="${h}"/><text x="${x + 6}" y="${y + 14}">${escaped(short(rows[k].title))}</text>` +
          `<text class="value" x="${x + 6}" y="${y + 28}">${escaped(short(walk.cleared[k] ? "cleared" : text(walk.values[k])))}</text>` +
          `<text class="${second[0]}" x="${x + 6}" y="${y + 42}">${escaped(short(text(second[1])))}</text></g>`,
      );
    }
    const height = layers.length * (h + drop) + gap;
    element("graph").innerHTML = `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="graph of the tape">${parts.concat(labels).join("")}</svg>`;
    const current = element("graph").querySelector("g.here");
    if (current && drawn.length > 12) current.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

// The data are compressed JSON.
const bytes = Uint8Array.from(atob(element("data").textContent), (c) => c.charCodeAt(0));
new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json().then((data) => new Page(data));
