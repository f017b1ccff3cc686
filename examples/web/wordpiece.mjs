// Texts as tokens of BERT (uncased): what its normalizer, pre-tokenizer and WordPiece of the package
// tokenizers do.

const SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const PUNCTUATION = /[\p{P}!-/:-@[-`{-~]/u;
const SPACE = /\p{White_Space}/u;
const CONTROL = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]|\ufffd/u;
const CHINESE = [
  [0x4e00, 0x9fff], [0x3400, 0x4dbf], [0x20000, 0x2a6df], [0x2a700, 0x2b73f], [0x2b740, 0x2b81f],
  [0x2b920, 0x2ceaf], [0xf900, 0xfaff], [0x2f800, 0x2fa1f],
];
const MOST_CHARACTERS = 100;

const isChinese = (character) => {
  const code = character.codePointAt(0);
  return CHINESE.some(([first, last]) => code >= first && code <= last);
};

/** One kind of space, no controls, no accents, lower case; each Chinese character is a word. */
function normalized(text) {
  const clean = [];
  for (const character of text) {
    if (CONTROL.test(character)) continue;
    if (SPACE.test(character)) clean.push(" ");
    else clean.push(isChinese(character) ? ` ${character} ` : character);
  }
  const letters = clean.join("").normalize("NFD").replace(/\p{Mn}/gu, "");
  return Array.from(letters, (letter) => letter.toLowerCase()).join("");
}

/** The words of a normalized text; each punctuation mark is one. */
function words(text) {
  const found = [];
  let open = "";
  const close = () => { if (open) found.push(open); open = ""; };
  for (const character of text) {
    const isMark = PUNCTUATION.test(character);
    if (isMark || character === " ") close();
    if (isMark) found.push(character);
    else if (character !== " ") open += character;
  }
  close();
  return found;
}

export class WordPiece {
  #numbers;
  #special;

  /** `vocabulary`: tokens in the order of their numbers. */
  constructor(vocabulary) {
    this.#numbers = new Map(vocabulary.map((token, number) => [token, number]));
    this.#special = new RegExp(`(${SPECIAL.map((s) => s.replace(/[[\]]/g, "\\$&")).join("|")})`);
    const missing = SPECIAL.filter((token) => !this.#numbers.has(token));
    if (missing.length) throw new Error(`the vocabulary has no ${missing.join(", ")}`);
  }

  /** The numbers of the longest pieces of a word from its start on; [UNK] where there are none. */
  #pieces(word) {
    const letters = [...word], unknown = [this.#numbers.get("[UNK]")];
    if (letters.length > MOST_CHARACTERS) return unknown;
    const found = [];
    for (let start = 0, end; start < letters.length; start = end) {
      let number;
      for (end = letters.length; end > start; --end) {
        number = this.#numbers.get((start ? "##" : "") + letters.slice(start, end).join(""));
        if (number !== undefined) break;
      }
      if (number === undefined) return unknown;
      found.push(number);
    }
    return found;
  }

  /** The numbers of the tokens of a text between [CLS] and [SEP], `most` at most. */
  encode(text, most = 256) {
    const found = [];
    for (const part of text.split(this.#special)) {
      if (SPECIAL.includes(part)) found.push(this.#numbers.get(part));
      else for (const word of words(normalized(part))) found.push(...this.#pieces(word));
    }
    const [first, last] = ["[CLS]", "[SEP]"].map((token) => this.#numbers.get(token));
    return [first, ...found.slice(0, most - 2), last];
  }
}
