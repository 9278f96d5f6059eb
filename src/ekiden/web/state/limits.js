// Every bound of the page, by name, with its unit last. What is dropped at a bound is said on the screen.

export const PAGE_ITEMS = 200;
export const MEND_AFTER_MS = 400;
export const SESSIONS_PAGE = 100;
export const CHANNELS_PAGE = 200;
export const MESSAGES_PAGE = 100;
export const MENTIONS_PAGE = 50;
export const LAGGARDS_PAGE = 20;
export const AUDIT_PAGE = 50;
export const DIRECTORY_PAGES_MAX = 100;
export const EPOCHS_KEPT_MAX = 200;
export const EXPORT_BYTES_MAX = 256 * 1024 * 1024;
export const INVITES_KEPT_MAX = 64;
export const NAMES_OFFERED_MAX = 6;
export const SEARCH_HITS_PAGE = 20;
export const SEARCH_WAIT_MS = 250;

export const RECONNECT_FIRST_MS = 300;
export const RECONNECT_MAX_MS = 15_000;
export const BEATS_MISSED_MAX = 2.5;
export const REQUEST_WAIT_MS = 70_000;
export const STREAM_FRAME_CHARS_MAX = 16 * 1024 * 1024;

export const KEPT_SESSIONS_MAX = 30;
export const KEPT_ITEMS_PER_SESSION_MAX = 200;
export const KEPT_LIST_MAX = 300;
export const KEPT_ITEM_CHARS_MAX = 20_000;
export const OUTBOX_MAX = 50;

export const MARKDOWN_CHARS_MAX = 120_000;
export const MARKDOWN_DEPTH_MAX = 24;
export const TYPED_CHARS_FOLDED = 1200;
export const OUTPUT_LINES_FOLDED = 14;
export const OUTPUT_CHARS_STEP = 120_000;
export const DIFF_LINES_FOLDED = 24;
export const RAW_LINES_PAGE = 100;
export const THREAD_ITEMS_PAGE = 100;
export const ECHO_LOOK_BACK = 60;
export const FIND_PAGES_MAX = 25;

export const PAIRING_POLL_MS = 1_500;
export const DEVICE_NAME_CHARS_MAX = 60;
export const MENTION_CHARS_MAX = 80;
export const SECOND_PRESS_MS = 4_000;
