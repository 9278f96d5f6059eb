// The words of both languages: the same keys, the same values to fill in, every plural form that Intl asks for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { en } from "../../src/ekiden/web/words/en.js";
import { zh } from "../../src/ekiden/web/words/zh.js";

const names = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort();
const forms = (entry) => (typeof entry === "string" ? { other: entry } : entry);

test("both languages have the same sentences", () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
});

test("no sentence is empty, and each fills in the same values", () => {
  for (const key of Object.keys(en)) {
    for (const entry of [en[key], zh[key]]) {
      for (const text of Object.values(forms(entry))) {
        assert.ok(text.trim(), key);
        assert.deepEqual(names(text), names(forms(en[key]).other), key);
      }
    }
  }
});

test("counted sentences have every plural form of their language", () => {
  for (const [table, tag] of [[en, "en"], [zh, "zh-CN"]]) {
    const wanted = new Intl.PluralRules(tag).resolvedOptions().pluralCategories;
    for (const [key, entry] of Object.entries(table)) {
      if (typeof entry !== "string") assert.deepEqual(Object.keys(entry).sort(), [...wanted].sort(), `${tag} ${key}`);
      assert.equal(typeof entry !== "string", typeof en[key] !== "string", key);
    }
  }
});

test("the Chinese sentences are Chinese, with Chinese punctuation", () => {
  const same = new Set(["settings.en", "settings.zh"]);
  for (const [key, entry] of Object.entries(zh)) {
    if (same.has(key)) continue;
    for (const text of Object.values(forms(entry))) {
      assert.match(text, /\p{Script=Han}/u, key);
      assert.doesNotMatch(text, /\p{Script=Han}[,:;?!]/u, key);
    }
  }
});
