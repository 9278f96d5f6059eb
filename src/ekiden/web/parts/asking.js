// The two ways in which a part asks: the door for what it shows, and the person once more before an act.

import { useEffect, useState } from "../lib.js";

/**
 * What the door answers, asked for when the part appears and whenever one of `when` changes.
 * @template T
 * @param {() => Promise<T>} read
 * @param {readonly unknown[]} when
 * @returns {{ told: T | undefined, problem: any, load: () => Promise<void>, setTold: (told: T) => void }}
 */
export function useTold(read, when) {
  const [told, setTold] = useState(/** @type {any} */ (undefined));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const load = async () => {
    try {
      setTold(await read());
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  useEffect(() => {
    load();
  }, [...when]);
  return { told, problem, load, setTold };
}

/**
 * An act that is pressed for twice: the first time only asks (`sure`). After the act, also one that failed, it asks again.
 * @param {() => Promise<unknown>} act
 * @returns {{ sure: boolean, problem: any, press: () => Promise<void> }}
 */
export function useSure(act) {
  const [sure, setSure] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const press = async () => {
    setSure(!sure);
    if (!sure) return;
    try {
      await act();
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  return { sure, problem, press };
}
