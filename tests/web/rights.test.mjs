// What a key may do, and whose signatures count, as the page decides it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Directory } from "../../src/ekiden/web/state/directory.js";
import { allows, mapOf, rowsOf } from "../../src/ekiden/web/state/rights.js";

test("what is not listed is not allowed, and channels have verbs of their own", () => {
  const map = { "channel:build-*": ["read", "status:tests.*"], "private:plans": ["admin"], "session:*": ["read", "post"] };
  for (const [verb, resource, wanted] of [
    ["read", "channel:build-1", true], ["read", "channel:other", false], ["status:tests.unit", "channel:build-1", true],
    ["status:deploy", "channel:build-1", false], ["invite", "private:plans", true], ["status:any", "private:plans", true],
    ["admin", "private:plans", true], ["admin", "private:other", false], ["approve", "private:plans", false],
    ["post", "session:ses_1", false], ["read", "session:ses_1", true],
  ]) assert.equal(allows(map, verb, resource), wanted, `${verb} ${resource}`);
  assert.equal(allows({}, "read", "team"), false);
  assert.equal(allows({ "*": ["post"] }, "post", "channel:build"), true);
});

test("a map survives being shown as rows; rows without verbs or place are left out, doubles join", () => {
  const map = { "channel:build": ["read", "status:tests.*"], "team": ["read"] };
  assert.deepEqual(mapOf(rowsOf(map)), map);
  const rows = [{ pattern: " channel:a ", verbs: ["read"] }, { pattern: "channel:a", verbs: ["post", "read"] }, { pattern: "channel:b", verbs: [] }, { pattern: "", verbs: ["read"] }];
  assert.deepEqual(mapOf(rows), { "channel:a": ["read", "post"] });
});

test("a key that ended keeps its weight only if it ever had one", () => {
  const directory = new Directory("tea_1", "");
  for (const [memberKey, endedAt] of [["mky_old", "2026-01-01T00:00:00Z"], ["mky_slipped_in", "2026-01-02T00:00:00Z"], ["mky_new", ""]]) {
    directory.keys.set(memberKey, { principal: "pri_1", memberKey, endedAt, vouchedBy: memberKey === "mky_new" ? ["mky_old"] : [] });
  }
  const pinned = { mky_old: "compared" };
  assert.deepEqual(directory.judge("pri_1", pinned), { mky_old: "ended", mky_slipped_in: "ended", mky_new: "vouched" });
  assert.deepEqual([...directory.believed("pri_1", pinned).keys()].sort(), ["mky_new", "mky_old"]);
});
