-- Counts and marks of sessions change with every message. Room in the page lets such a change stay there, so that no
-- index needs to hear of it.
ALTER TABLE sessions SET (fillfactor = 50);
