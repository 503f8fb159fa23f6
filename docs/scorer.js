// Sphinx's scores, but for entries of the index of objects: each has a page, which is found by its title and text.
// They come last, so that they do not push the pages of tasks down.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => (kind === "object" || kind === "index" ? score - 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
