// The page's grammar of mentions agrees with the hub's: the same vectors, run by node's own runner.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { mentionsIn } from "../../src/ekiden/web/state/mentions.js";

const VECTORS = JSON.parse(readFileSync(new URL("../relay/mention_vectors.json", import.meta.url), "utf8"));

test("every vector calls whom it should", () => {
  assert.ok(VECTORS.length > 40);
  for (const { why, text, names } of VECTORS) assert.deepEqual(mentionsIn(text), names, why);
});
