// The words of the page in plain English, after docs/measures.md.

import { h } from "./dom";

interface Word {
  name: string;
  /** Where the word stands in a header or a sentence. */
  at: RegExp;
  text: string;
}

export const WORDS: Word[] = [
  { name: "pass@k", at: /pass@(\d+|k)\b/i, text: "The probability that at least one of k samples of a problem is correct, on average over problems. Pass@1 is accuracy. Pass@k at a large k is coverage: the problems that the model can solve at all." },
  { name: "mean reward", at: /mean reward/i, text: "The average reward of a sample, where the verifier grades or several verifiers are weighted. Truncated completions earn 0." },
  { name: "greedy", at: /\bgreedy\b/i, text: "Accuracy at temperature 0, where the model takes the most likely token at every position." },
  { name: "pass^k", at: /pass\^(\d+|k)/i, text: "The probability that all of k samples of a problem are correct, on average over problems." },
  { name: "maj@k", at: /maj@(\d+|k)\b/i, text: "Majority voting, or self-consistency: the probability that the most frequent answer among k samples is correct." },
  { name: "distinct@k", at: /distinct@(\d+|k)\b|\bdistinct\b/i, text: "The number of different correct answers to a problem among k samples, on average over problems. Two answers that are equal up to order count once. Higher accuracy raises this number too." },
  { name: "distinct among r correct", at: /(distinct )?among \d+ correct/i, text: "The number of different answers among r correct answers to a problem, on the problems where every model has r correct answers. This number measures diversity: higher accuracy alone does not raise it." },
  { name: "curve", at: /\bcurves?\b/i, text: "Pass@k, or another measure, of an objective against its Pass@1 along training: the mean of its seeds at each checkpoint, from the base on. Two curves are compared over the range of Pass@1 that both reach." },
  { name: "band", at: /\bband\b/i, text: "A 95 % interval at each point, for that point alone. Of more than six models, the two highest have one; point at a model for its own." },
  { name: "p (Holm)", at: /p \(Holm\)|\bHolm\b/i, text: "The p-value after Holm's adjustment for all comparisons of the table. A star marks p < .05." },
  { name: "base overtakes", at: /base overtakes/i, text: "The number of samples from which the base solves more problems than the fine-tuned model: a sign that training narrowed the model." },
  { name: "hill 1", at: /hill 1/i, text: "Hill number of order 1, the effective number of distinct correct answers: exp of the entropy of the answers sampled. Ten answers of which one is sampled nearly always count as little more than one." },
  { name: "hill 2", at: /hill 2/i, text: "Hill number of order 2: the inverse of the probability that two correct samples are equal." },
  { name: "unseen", at: /\bunseen\b/i, text: "The probability that a further correct sample is an answer that was not sampled before." },
  { name: "chao 1", at: /chao 1/i, text: "A lower bound on the number of distinct correct answers that the model has in all, sampled or not, estimated from those sampled once and twice." },
  { name: "cover@.5", at: /cover@\.?\d+/i, text: "The share of problems of which at least half of the samples are correct." },
  { name: "nats/token", at: /nats\/token|entropy per token/i, text: "Entropy of the next-token distribution at the tokens that were sampled. Near 0, the model writes nearly the same text in every sample." },
  { name: "KL", at: /\bKL\b/, text: "Kullback-Leibler divergence, in nats: how far a distribution is from another. KL to the base grows as training changes the model." },
  { name: "KL(p*)", at: /KL\(p\*\)/, text: "The divergence of the model from p*, the base conditioned on a correct answer: the distribution of a model that is always correct and as diverse as the base." },
  { name: "narrower", at: /\bnarrower\b/i, text: "Correct answers became more alike: the part of the change of diversity that is due to how alike two correct answers are fell." },
  { name: "cleaner", at: /\bcleaner\b/i, text: "Diversity fell because there are fewer incorrect answers, while Pass@1 rose." },
  { name: "by chance", at: /\bby chance\b|\bbeyond chance\b|beyond what chance/i, text: "What a second draw of the base would lose against the first: samples that happen to miss a problem are no loss." },
  { name: "math:strict", at: /math:strict/, text: "The verifier of mathematics that reads marked answers only: a box, a tag, ####, \"the answer is\"." },
  { name: "equations of the working", at: /equations of the working/i, text: "The values that a completion's equations compute, in order: two correct completions with other values work in another way." },
  { name: "truncated", at: /truncated|clipped/i, text: "Completions that reached the length limit. They count as incorrect." },
  { name: "no answer", at: /no answer/i, text: "Completions in which no answer was found. They count as incorrect." },
  { name: "unjudged", at: /unjudged|not judged/i, text: "Completions that the verifier could not judge. They are left out of every number." },
  { name: "zero-variance groups", at: /zero-variance groups/i, text: "Groups whose completions all have the same reward; with a reward relative to the group, they carry no gradient." },
  { name: "gradients", at: /^gradients$/i, text: "Number of completions that went through a backward pass." },
  { name: "effective", at: /^effective$/i, text: "exp of the entropy over the listed correct answers of a problem: how many of them the model still uses." },
];

/** What a header or a phrase means, where it is one of the words. */
export function meaning(text: string): string | undefined {
  return WORDS.filter((word) => word.at.test(text)).sort((a, b) => position(a, text) - position(b, text))[0]?.text;
}

function position(word: Word, text: string): number {
  return text.search(word.at);
}

/** A sentence whose first mention of each word explains it. */
export function explained(text: string): (Node | string)[] {
  const used = new Set<Word>();
  const parts: (Node | string)[] = [];
  // A number and its sign of percent stay on one line.
  let rest = text.replace(/(\d) %/g, "$1\u00a0%");
  while (rest) {
    let found: { word: Word; at: number; length: number } | undefined;
    for (const word of WORDS) {
      if (used.has(word)) continue;
      const match = word.at.exec(rest);
      if (match && (!found || match.index < found.at || (match.index === found.at && match[0].length > found.length)))
        found = { word, at: match.index, length: match[0].length };
    }
    if (!found) break;
    used.add(found.word);
    parts.push(rest.slice(0, found.at));
    parts.push(h("span.word", { "data-tip": found.word.text, tabindex: 0 }, rest.slice(found.at, found.at + found.length)));
    rest = rest.slice(found.at + found.length);
  }
  parts.push(rest);
  return parts;
}

/** The words that a page uses. */
export function glossary(page: object): HTMLElement {
  const texts: string[] = JSON.stringify(page).match(/"(?:[^"\\]|\\.)*"/g) ?? [];
  const isUsed = (word: Word): boolean => texts.some((text) => word.at.test(text.slice(1, -1)));
  const rows = WORDS.filter(isUsed).flatMap((word) => [h("dt", {}, word.name), h("dd", {}, word.text)]);
  return h("dl.glossary", {}, ...rows);
}
