// The state machine behind `tg.show`: what is known after each step of a sweep. It knows nothing of the page.
//
// A `Walk` is made of the data of a program (`tapegrad.tools.showing.program`) and of a view:
//
//   "forward"   the forward sweep: values, and the decisions of the program;
//   "reverse"   the forward sweep, then the seed, then each contribution `adjoint += partial * adjoint` from the last
//               instruction to the first. Values are cleared as the sweep passes, unless they are retained;
//   "tangent"   forward mode: values and tangents together, as dual numbers carry them;
//   "both"      forward mode beside reverse mode, and how many operations on derivatives each has taken for the whole Jacobian,
//               counted as by `tg.compare`: one for each element of an instruction;
//   "replay"    the forward sweep at other arguments, up to the first decision that comes out otherwise.
//
// `next` and `back` go one step, `seek` to any. Each step notes what it overwrites, so going back restores every number.
"use strict";

class Walk {
  constructor(data, view, retain) {
    this.data = data;
    this.view = view;
    this.retain = Boolean(retain);
    const count = data.rows.length;
    this.values = new Array(count).fill(null);
    this.tangents = new Array(count).fill(null);
    this.adjoints = new Array(count).fill(null);
    this.cleared = new Array(count).fill(false);
    this.counts = { forward: 0, reverse: 0 };
    this.at = 0;
    this.row = -1; // the row that the last step was at
    this.operand = -1; // the row whose adjoint it added to
    this.said = "";
    this.undone = [];
    if (!data.at) {
      data.at = new Array(count).fill(-1);
      data.reverse.forEach(([row], k) => (data.at[row] = k));
    }
    this.steps = this.plan();
  }

  // The steps of the view, each [kind, row, number of the contribution].
  plan() {
    const steps = [];
    const rows = this.data.rows;
    const last = this.view === "replay" ? this.data.replay.stop : rows.length - 1;
    for (let row = 0; row <= last; row++) steps.push([rows[row].guard ? "guard" : "value", row, 0]);
    if (this.view === "reverse" || this.view === "both") {
      steps.push(["seed", this.data.result, 0]);
      for (const [row, contributions] of this.data.reverse) {
        contributions.forEach((_, k) => steps.push(["add", row, k]));
        if (!this.retain) steps.push(["clear", row, 0]);
      }
    }
    if (this.view !== "forward" && this.view !== "replay") steps.push(["end", this.data.result, 0]);
    return steps;
  }

  get length() {
    return this.steps.length;
  }

  set(array, index, value) {
    this.undone[this.undone.length - 1].push([array, index, array[index]]);
    array[index] = value;
  }

  // One step; false at the end.
  next() {
    if (this.at >= this.length) return false;
    this.undone.push([[this, "row", this.row], [this, "operand", this.operand], [this, "said", this.said]]);
    const [kind, row, k] = this.steps[this.at++];
    this.row = row;
    this.operand = -1;
    this[kind](row, k);
    return true;
  }

  // One step back; false at the beginning.
  back() {
    if (this.at === 0) return false;
    for (const [array, index, value] of this.undone.pop().reverse()) array[index] = value;
    this.at--;
    return true;
  }

  seek(step) {
    while (this.at < step && this.next());
    while (this.at > step && this.back());
  }

  // -- the steps -----------------------------------------------------------------
  guard(row) {
    const guard = this.data.rows[row];
    const failed = this.view === "replay" && row === this.data.replay.stop && this.data.replay.failed;
    this.said = failed ? `${guard.operation}: it comes out otherwise here, so this recording does not hold` : `${guard.operation}`;
    this.set(this.values, row, failed ? "other" : "holds");
  }

  value(row) {
    const { data } = this;
    const value = this.view === "replay" ? data.replay.values[row] : data.rows[row].value;
    this.set(this.values, row, value);
    this.said = `${data.rows[row].operation} gives ${text(value)}`;
    if (this.view === "tangent" || this.view === "both") {
      this.set(this.tangents, row, data.rows[row].tangent);
      this.set(this.counts, "forward", this.counts.forward + data.n * data.rows[row].work);
      this.said += `, tangent ${text(data.rows[row].tangent)}`;
    }
  }

  seed(row) {
    this.set(this.adjoints, row, 1.0);
    this.said = `the seed: the adjoint of the result ${this.data.rows[row].name} is 1`;
  }

  add(row, k) {
    const { data } = this;
    const entry = data.reverse[data.at[row]];
    const [operand, part, partial] = entry[1][k];
    const before = this.adjoints[operand];
    const after = plus(before, part);
    this.set(this.adjoints, operand, after);
    this.operand = operand;
    if (k === 0) this.set(this.counts, "reverse", this.counts.reverse + data.m * data.rows[row].work);
    const factor = partial === undefined ? "" : `${text(partial)} * ${text(this.adjoints[row])} = `;
    this.said = `the adjoint of ${data.rows[operand].name} += ${factor}${text(part)}, which makes it ${text(after)}`;
  }

  clear(row) {
    this.set(this.cleared, row, true);
    this.said = `the sweep has passed ${this.data.rows[row].name}: what the tape kept for it is cleared`;
  }

  // What the sweep was for.
  end(row) {
    const { rows, leaves } = this.data;
    const found = [];
    if (this.view !== "tangent") found.push(...leaves.map((k) => `with respect to ${rows[k].title} ${text(this.adjoints[k]) || 0}`));
    if (this.view !== "reverse") found.push(`along direction= ${text(this.tangents[row]) || 0}`);
    this.said = `the derivatives of ${rows[row].name}: ${found.join(", ")}`;
  }
}

const PERIOD = 400; // instructions that an iteration of a region may have
const ITERATIONS = 3; // from how many iterations on it is one

// Stretches in which the same instructions, at the same lines, come again and again: begin, period, count.
function regions(rows) {
  const keys = rows.map((row) => `${row.guard ? "guard" : row.operation.split(" ")[0]} ${row.line}`);
  const following = new Array(keys.length);
  const last = new Map();
  for (let k = keys.length - 1; k >= 0; k--) {
    following[k] = last.get(keys[k]) ?? k;
    last.set(keys[k], k);
  }
  const found = [];
  for (let begin = 0; begin < keys.length; ) {
    const period = following[begin] - begin;
    let end = begin + period;
    if (period >= 2 && period <= PERIOD) while (end < keys.length && keys[end] === keys[end - period]) end++;
    const count = period ? Math.floor((end - begin) / period) : 1;
    if (count >= ITERATIONS) found.push({ begin, period, count });
    begin += count >= ITERATIONS ? count * period : 1;
  }
  return found;
}

// A sum of numbers, of arrays as flat lists, or of what is only described.
function plus(a, b) {
  if (a === null) return b;
  if (Array.isArray(a) && Array.isArray(b)) return a.map((x, i) => x + b[i]);
  if (typeof a === "number" && typeof b === "number") return a + b;
  return `${text(a)} + ${text(b)}`;
}

// A number in six digits, an array of numbers, or a description.
function text(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") {
    const short = Number(value.toPrecision(6));
    return short !== 0 && Math.abs(short) < 1e-4 ? short.toExponential() : String(short);
  }
  return Array.isArray(value) ? `[${value.map(text).join(", ")}]` : String(value);
}

if (typeof module !== "undefined") module.exports = { Walk, plus, regions, text };
