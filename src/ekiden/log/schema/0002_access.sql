-- Who may do what. Secrets are never here: of a key, a pairing code and a claim only the SHA-256 is kept.

CREATE TABLE access_teams (
    team_id text NOT NULL PRIMARY KEY,
    made_at text NOT NULL
);

-- `kind`: person, agent, device, service or host. `canonical` is the name as it is compared.
CREATE TABLE principals (
    principal_id text NOT NULL PRIMARY KEY,
    team_id text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    canonical text NOT NULL,
    host_id text NOT NULL,
    made_at text NOT NULL
);

CREATE INDEX principals_by_name ON principals (team_id, canonical);

-- `permissions` is JSON: resource pattern to verbs. An empty time means never.
CREATE TABLE keys (
    key_id text NOT NULL PRIMARY KEY,
    team_id text NOT NULL,
    principal_id text NOT NULL,
    secret_digest text NOT NULL,
    permissions text NOT NULL,
    local_line bigint NOT NULL,
    made_at text NOT NULL,
    made_by text NOT NULL,
    used_at text NOT NULL,
    expires_at text NOT NULL,
    revoked_at text NOT NULL
);

CREATE INDEX keys_by_team ON keys (team_id, made_at);
CREATE INDEX keys_by_principal ON keys (principal_id);

-- `state`: open, waiting, confirmed, collected, denied, expired, cancelled.
CREATE TABLE pairings (
    pairing_id text NOT NULL PRIMARY KEY,
    team_id text NOT NULL,
    code_digest text NOT NULL,
    claim_digest text NOT NULL,
    local bigint NOT NULL,
    name text NOT NULL,
    device text NOT NULL,
    words text NOT NULL,
    state text NOT NULL,
    permissions text NOT NULL,
    key_expires_at text NOT NULL,
    made_by text NOT NULL,
    made_at text NOT NULL,
    claimed_at text NOT NULL,
    expires_at text NOT NULL
);

CREATE INDEX pairings_by_state ON pairings (team_id, state);
CREATE UNIQUE INDEX pairings_by_code ON pairings (code_digest);
CREATE INDEX pairings_by_claim ON pairings (claim_digest);

-- Wrong pairing codes, counted by where they came from, for a while.
CREATE TABLE pairing_tries (
    team_id text NOT NULL,
    source text NOT NULL,
    since_s bigint NOT NULL,
    tries bigint NOT NULL,
    PRIMARY KEY (team_id, source)
);
