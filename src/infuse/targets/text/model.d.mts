// Types of model.mjs.

export interface Input<Data> {
  data: Data;
  shape?: readonly number[];
}

export interface Output<Data> {
  data: Data;
  shape: number[];
  dtype: string;
}

export interface Inputs {
  @INPUTS@
}

export interface Outputs {
  @OUTPUTS@
}

export interface Symbols {
  @SYMBOLS@
}

export interface Spec {
  name: string;
  dtype: string;
  shape: (number | string)[];
  late?: boolean;
  optional?: boolean;
}

export type Source = string | URL | Response | ArrayBuffer | ArrayBufferView;

export interface Options {
  wasm?: Source;
  weights?: Source;
  onProgress?: (loaded: number, total: number) => void;
  signal?: AbortSignal;
  threads?: number;
  cache?: boolean;
}

export declare const ARRAYS: Record<string, new (length: number) => ArrayBufferView>;

export declare class Model {
  private constructor();
  readonly inputs: Spec[];
  readonly outputs: Spec[];
  readonly symbols: string[];
  readonly arenaBytes: number;
  readonly threads: number;
  shapes(symbols: Symbols): Record<keyof Inputs, number[]>;
  run(inputs: Inputs, symbols?: Symbols): Outputs;
  close(): void;
}

export declare function load(options?: Options): Promise<Model>;
