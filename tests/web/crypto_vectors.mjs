// Runs the vectors of `tests/crypto/vectors.json` through the page's modules, in the page. Gives what differs, and things
// that the page has made for Python to open.

const modules = Promise.all(
  ["crypto", "wrapping", "directory"].map((name) => import(`/assets/state/${name}.js`)),
);

/** RFC 9180, A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode, the first encryption. */
const STANDARD = {
  info: "4f6465206f6e2061204772656369616e2055726e",
  skRm: "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
  pkRm: "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
  enc: "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
  pt: "4265617574792069732074727574682c20747275746820626561757479",
  aad: "436f756e742d30",
  ct: "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
};

const unhex = (text) => Uint8Array.from(text.match(/../g), (pair) => Number.parseInt(pair, 16));

export async function run(vectors) {
  const [crypto_, wrapping, directory] = await modules;
  const differs = [];
  const same = (what, found, wanted) => {
    if (JSON.stringify(found) !== JSON.stringify(wanted)) differs.push(`${what}: ${JSON.stringify(found)}`);
  };
  const refused = async (what, promise) => {
    try {
      await promise;
      differs.push(`${what}: was not refused`);
    } catch (error) {
      if (error.code !== "seal_broken" && error.code !== "directory_broken" && error.code !== "form") {
        differs.push(`${what}: ${error}`);
      }
    }
  };

  for (const { value, text } of vectors.canonical) same("canonical", crypto_.canonical(value), text);
  for (const value of [2 ** 53, NaN, Infinity, 1e30, "\ud800", { "\udc00": 1 }, undefined]) {
    try {
      differs.push(`canonical took ${crypto_.canonical(value)}`);
    } catch (error) {
      same("canonical refuses", error.code, "unspeakable");
    }
  }

  const people = [];
  for (const one of vectors.members) {
    const member = await crypto_.memberFromSeeds(one.sign_seed, one.wrap_seed, { sign: one.sign, wrap: one.wrap });
    same("member key", member.memberKey, one.member_key);
    same("fingerprint", crypto_.fingerprint(member.memberKey), one.fingerprint);
    people.push(member);
  }
  const [anna, ben] = people;
  same("compare", await crypto_.compareCode(ben.public, anna.public), vectors.compare.code);

  for (const { message, status, digest } of vectors.contents) {
    same("content", await (message ? crypto_.messageContent(message) : crypto_.statusContent(status)), digest);
  }
  for (const { kind, fields, text, digest, signature } of vectors.statements) {
    const stated = crypto_.statements[kind](fields);
    same(kind, new TextDecoder().decode(stated), text);
    same(`${kind} digest`, await crypto_.digest(stated), digest);
    same(`${kind} signature`, await crypto_.sign(anna, stated), signature);
    same(`${kind} checked`, await crypto_.signedBy(anna.public.sign, signature, stated), true);
    same(`${kind} of another`, await crypto_.signedBy(ben.public.sign, signature, stated), false);
  }

  for (const one of vectors.sealed) {
    const content = "text_of_x" in one.content ? { text: "x".repeat(one.content.text_of_x) } : one.content;
    const key = crypto_.read(one.key);
    const sealed = await crypto_.seal(key, one.place, content, crypto_.read(one.nonce));
    same("sealed", await crypto_.digest(crypto_.read(sealed.data)), one.sha256);
    if (one.data) same("sealed data", sealed.data, one.data);
    same("opened", await crypto_.openSealed(key, one.place, sealed), content);
    for (const name of Object.keys(one.place)) {
      const moved = { ...one.place, [name]: name === "epoch" ? 4 : `${one.place[name]}x` };
      await refused(`moved ${name}`, crypto_.openSealed(key, moved, sealed));
    }
    await refused("form", crypto_.openSealed(key, one.place, { ...sealed, v: 2 }));
  }
  const file = vectors.file;
  const opened = await crypto_.openFile(crypto_.read(file.data), file.key, file.team, file.channel);
  same("file", new TextDecoder().decode(opened), file.plain);
  await refused("file elsewhere", crypto_.openFile(crypto_.read(file.data), file.key, file.team, "cha_other"));

  const { epoch, key } = vectors.epoch;
  const team = vectors.directory.team;
  same("epoch", new TextDecoder().decode(wrapping.epochStatement(epoch, team)), vectors.epoch.text);
  same("epoch digest", await crypto_.digest(wrapping.epochStatement(epoch, team)), vectors.epoch.digest);
  for (const [at, { wrap, text }] of vectors.wraps.entries()) {
    same("wrap", new TextDecoder().decode(wrapping.wrapStatement(wrap, team, epoch.channel_id)), text);
    same("unwrapped", crypto_.spell(await wrapping.unwrap(people[at], wrap.wrapped, epoch, team)), key);
    await refused("wrap of another", wrapping.unwrap(people[1 - at], wrap.wrapped, epoch, team));
    await refused("wrap of another epoch", wrapping.unwrap(people[at], wrap.wrapped, { ...epoch, epoch: 4 }, team));
    await refused("other key", wrapping.unwrap(people[at], wrap.wrapped, { ...epoch, commitment: "00" }, team));
  }
  const recipient = await crypto_.memberFromSeeds(
    vectors.members[0].sign_seed,
    crypto_.spell(unhex(STANDARD.skRm)),
    { sign: anna.public.sign, wrap: crypto_.spell(unhex(STANDARD.pkRm)) },
  );
  const standard = await wrapping.hpkeOpen(
    unhex(STANDARD.enc + STANDARD.ct),
    recipient.wrapKey,
    unhex(STANDARD.pkRm),
    unhex(STANDARD.info),
    { aead: { id: 1, keyBytes: 16 }, aad: unhex(STANDARD.aad) },
  );
  same("RFC 9180", crypto_.hex(standard), STANDARD.pt);

  const entries = vectors.directory.entries.map((one) => one.entry);
  const reader = new directory.Directory(team, vectors.hub.public);
  for (const { entry, text, hash } of vectors.directory.entries) {
    same("entry", new TextDecoder().decode(directory.entryStatement(entry.entry, team)), text);
    await reader.take([entry]);
    same("head", reader.head, hash);
  }
  const judged = vectors.directory.judged;
  same("judged", reader.judge(judged.principal, judged.pinned), judged.trust);
  for (const shown of [entries.slice(1), [entries[0], entries[2]], [{ ...entries[0], placed_at: "x" }]]) {
    await refused("directory", new directory.Directory(team, vectors.hub.public).take(shown));
  }

  const { invite, text, code_digest, guest, proof } = vectors.invite;
  same("invite", directory.readInvite(text), Object.fromEntries(Object.entries(invite).sort()));
  same("invite spelled", directory.spellInvite(invite), text);
  same("code", await directory.codeDigest(invite.code), code_digest);
  const who = people[guest.member];
  const said = { team, invite: invite.invite, principal: guest.principal, memberKey: who.memberKey, ...who.public };
  same("proof", await directory.proof(invite.secret, said), proof);

  // What the page makes with keys of its own, which never leave it.
  const own = await crypto_.newMember();
  const place = { ...vectors.sealed[0].place, sender: "pri_page" };
  const where = { team, channel: epoch.channel_id, epoch: 4, previous: vectors.epoch.digest, at: epoch.at };
  const members = [
    { principal: "pri_page", memberKey: own.memberKey, wrap: own.public.wrap },
    { principal: "pri_ben", memberKey: ben.memberKey, wrap: ben.public.wrap },
  ];
  const made = await wrapping.openEpoch(own, where, members);
  const back = await wrapping.unwrap(own, made.body.wraps[1].wrapped, made.body.epoch, team);
  same("own wrap", crypto_.spell(back), crypto_.spell(made.key));
  const extractable = await crypto.subtle.exportKey("pkcs8", own.signKey).then(
    () => true,
    () => false,
  );
  same("private keys can be read out", extractable, false);
  const hidden = await crypto_.sealFile(crypto_.bytes("a file of the page"), team, epoch.channel_id);
  return {
    differs,
    member: { ...own.public, member_key: own.memberKey },
    entry: await directory.addEntry(own, { team, principal: "pri_page", label: "page", at: epoch.at }),
    vouch: await directory.vouchEntry(anna, { memberKey: ben.memberKey, ...ben.public }, {
      team,
      principal: "pri_anna",
      at: epoch.at,
    }),
    epoch: made.body,
    key: crypto_.spell(made.key),
    place,
    sealed: await crypto_.seal(made.key, place, { text: "from the page €", title: "" }),
    file: { data: crypto_.spell(hidden.data), key: hidden.key },
  };
}
