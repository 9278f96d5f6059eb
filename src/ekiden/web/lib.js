// The one place where the page meets its libraries: everything else imports from here.

import { Component, Fragment, createRef, h, render } from "./vendor/preact-11.2.0/preact.mjs";
import {
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState,
} from "./vendor/preact-11.2.0/hooks.mjs";
import {
  batch, computed, effect, signal, untracked, useComputed, useSignal,
} from "./vendor/signals-2.11.4/signals.mjs";
import htm from "./vendor/htm-3.1.1/htm.mjs";

export const html = htm.bind(h);

export {
  Component, Fragment, batch, computed, createRef, effect, h, render, signal, untracked, useCallback, useComputed,
  useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useSignal, useState,
};
