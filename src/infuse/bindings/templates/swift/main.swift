// Runs the model on zeros: example [weights.bin [SIZE...]]. The sizes are those of symbols: @SYMBOL_NAMES@.
import @MODULE@

let words = CommandLine.arguments
var symbols = [Int64](repeating: 2, count: @SYMBOLS@)
for (i, word) in words.dropFirst(2).prefix(@SYMBOLS@).enumerated() { symbols[i] = Int64(word) ?? 2 }
let shapes = try Model.shapes(symbols)
let model = try Model(weights: words.count > 1 ? words[1] : "weights.bin")
let session = try model.session(threads: 2)
let outputs = try session.run(Inputs(@ARGUMENTS@))
@PRINTED@
