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

// Of several words Sphinx takes pages that have all, by the score of one: often none, or many alike. Here a page may lack one of the words
// that the best page has, and the scores of its words add up.
// (Sphinx puts this file behind its search, but in one that pages without a search load, too.)
if (typeof Search !== "undefined") {
  const ofWords = Search.performTermsSearch;
  Search.performTermsSearch = (words, excluded) => {
    if (words.size < 2) return ofWords(words, excluded);
    const pages = new Map();
    for (const word of words)
      for (const result of ofWords(new Set([word]), excluded)) {
        const page = pages.get(result[0]) || { result, count: 0, score: 0 };
        pages.set(result[0], page);
        page.count += 1;
        page.score += result[4];
      }
    const most = Math.max(...[...pages.values()].map((page) => page.count));
    const near = [...pages.values()].filter((page) => page.count >= Math.max(most - 1, words.size > 2 ? 1 : most));
    return near.map(({ result, score }) => [...result.slice(0, 4), score, ...result.slice(5)]);
  };
}
