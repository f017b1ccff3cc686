/// Elements in row-major order, with a shape. Halves and bfloat16 are UInt16 of their bits.
public final class Tensor<Element> {
  public let shape: [Int]
  public let elements: UnsafeMutableBufferPointer<Element>
  private let memory: UnsafeMutableRawPointer

  /// Zeros.
  public init(zeros shape: [Int]) {
    self.shape = shape
    let count = shape.reduce(1, *)
    let bytes = count * MemoryLayout<Element>.stride
    memory = UnsafeMutableRawPointer.allocate(byteCount: bytes + 64, alignment: 64)
    memory.initializeMemory(as: UInt8.self, repeating: 0, count: bytes + 64)
    elements = UnsafeMutableBufferPointer(start: memory.bindMemory(to: Element.self, capacity: count), count: count)
  }

  /// These elements, copied.
  public convenience init(_ elements: [Element], shape: [Int]) {
    precondition(elements.count == shape.reduce(1, *), "the number of elements is not that of the shape")
    self.init(zeros: shape)
    _ = self.elements.initialize(from: elements)
  }

  deinit { memory.deallocate() }

  public var count: Int { elements.count }

  public subscript(index: Int) -> Element {
    get { elements[index] }
    set { elements[index] = newValue }
  }

  var address: Int64 { Int64(Int(bitPattern: memory)) }

  func resized(_ shape: [Int]) -> Tensor {
    shape == self.shape ? self : Tensor(zeros: shape)
  }
}
