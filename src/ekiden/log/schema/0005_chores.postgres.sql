-- Messages between nodes that are too large for a notification, for as long as others may still read them.
CREATE UNLOGGED TABLE bus_frames (
    frame_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_s bigint NOT NULL,
    body bytea NOT NULL
);

CREATE INDEX bus_frames_by_age ON bus_frames (at_s);
