// A model that Infuse compiled. Its code is a part of the program.
import C@MODULE@
import Foundation

/// Why something failed: a number of the C interface, or -1 where inputs or weights do not fit the model.
public struct ModelError: Error, CustomStringConvertible {
  public static let badInput = -1, outOfMemory = 1, badData = 2, cancelled = 3, badOptions = 4, refused = 5
  public let code: Int
  public let text: String
  public var description: String { text }
}

/// What the model takes. Nil stands for the default of an optional input.
public struct Inputs {
@INPUTS@
  public init(@PARAMETERS@) {
@ASSIGNED@
  }
}

/// What the model gives.
public struct Outputs {
@OUTPUTS@
  public init() {}
}

/// The weights of the model, which any number of sessions share. Threads may share it.
public final class Model {
  fileprivate let loaded: UnsafeMutableRawPointer

  /// Reads the weights from a file; any path for a model that needs none.
  public init(weights: String = "weights.bin") throws {
    var text = Text()
    guard let loaded = text.with({ @P@_binding_load(weights, $0) }) else {
      throw text.failure(ModelError.badInput)
    }
    self.loaded = loaded
  }

  deinit { @P@_binding_unload(loaded) }

  /// A context with this many threads; 0: one a processor.
  public func session(threads: Int = 0) throws -> Session {
    var text = Text()
    var context: UnsafeMutableRawPointer?
    let code = text.with { @P@_binding_open(loaded, Int32(clamping: threads), @ID@, &context, $0) }
    guard code == 0, let context = context else { throw text.failure(Int(code)) }
    return Session(self, context)
  }

  /// The shapes of all inputs for values of the symbols (@SYMBOL_NAMES@).
  public static func shapes(_ symbols: [Int64]) throws -> [[Int]] {
    guard symbols.count == @SYMBOLS@ else {
      throw ModelError(code: ModelError.badInput, text: "the model has @SYMBOLS@ symbols: @SYMBOL_NAMES@")
    }
    var frame = [Int64](repeating: 0, count: @WORDS@ + 1)
    for (i, symbol) in symbols.enumerated() { frame[@SYMBOLS_AT@ + i] = symbol }
    var text = Text()
    if text.with({ @P@_binding_shapes(&frame, $0) }) != 0 { throw text.failure(ModelError.badInput) }
    let shapes: [[Int]] = [
@SHAPES@
    ]
    return shapes
  }
}

/// A context of a model. It runs one call at a time; other threads wait.
public final class Session {
  private let model: Model
  private let context: UnsafeMutableRawPointer
  private let lock = NSLock()
  private let frame = UnsafeMutablePointer<Int64>.allocate(capacity: @WORDS@ + 1)

  fileprivate init(_ model: Model, _ context: UnsafeMutableRawPointer) {
    self.model = model
    self.context = context
    frame.initialize(repeating: 0, count: @WORDS@ + 1)
  }

  deinit {
    @P@_binding_close(context)
    frame.deallocate()
  }

  /// The outputs for these inputs; a ModelError says which input does not fit, or why the run failed.
  public func run(_ inputs: Inputs) throws -> Outputs {
    var outputs = Outputs()
    try run(inputs, into: &outputs)
    return outputs
  }

  /// The same in the memory of earlier outputs, where it suffices.
  public func run(_ inputs: Inputs, into outputs: inout Outputs) throws {
    lock.lock()
    defer { lock.unlock() }
    var text = Text()
@DESCRIBED@
    if text.with({ @P@_binding_sizes(frame, $0) }) != 0 { throw text.failure(ModelError.badInput) }
@RESULTS@
    let code = withExtendedLifetime((inputs, outputs)) { @P@_binding_run(context, frame) }
    if code != 0 {
      throw ModelError(code: Int(code), text: String(cString: @P@_binding_error(context)))
    }
@LATE@
  }

  /// Ends the run that is under way, and later ones, until cancel(false). Any thread may call it.
  public func cancel(_ cancelled: Bool = true) {
    @P@_binding_cancel(context, cancelled ? 1 : 0)
  }

  private func describe<T>(_ at: Int, _ place: Int, _ rank: Int, _ tensor: Tensor<T>?) {
    frame[at] = -1
    frame[place] = 0
    guard let tensor = tensor else { return }
    frame[at] = Int64(tensor.count)
    frame[at + 1] = Int64(tensor.shape.count)
    frame[place] = tensor.address
    for (axis, size) in tensor.shape.prefix(rank).enumerated() { frame[at + 2 + axis] = Int64(size) }
  }

  private func sizes(_ at: Int, _ rank: Int) -> [Int] {
    (0..<rank).map { Int(frame[at + $0]) }
  }

  private func late<T>(_ number: Int32, _ before: Tensor<T>) -> Tensor<T> {
    let rank = Int(@P@_binding_rank(context, number))
    var sizes = [Int64](repeating: 0, count: rank + 1)
    let data = @P@_binding_result(context, number, &sizes)
    let tensor = before.resized(sizes.prefix(rank).map { Int($0) })
    if tensor.count > 0, let data = data {
      memcpy(tensor.elements.baseAddress!, data, tensor.count * MemoryLayout<T>.stride)
    }
    return tensor
  }
}

/// Memory for the text of an error.
private struct Text {
  private var bytes = [CChar](repeating: 0, count: 512)

  mutating func with<R>(_ call: (UnsafeMutablePointer<CChar>) -> R) -> R {
    bytes.withUnsafeMutableBufferPointer { call($0.baseAddress!) }
  }

  func failure(_ code: Int) -> ModelError {
    ModelError(code: code, text: String(cString: bytes))
  }
}
