package @NAME@;

import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.function.Function;

/** A context of a model. It runs one call at a time; other threads wait. */
public final class Session implements AutoCloseable {
  private final Model model;
  private final ByteBuffer memory = ByteBuffer.allocateDirect(8 * @WORDS@ + 8).order(ByteOrder.nativeOrder());
  private final LongBuffer frame = memory.asLongBuffer();
  private final long frameAddress = Native.address(memory);
  private final Model.Text text = new Model.Text();
  private final Object cancelling = new Object();
  private long context;

  Session(Model model, long context) {
    this.model = model;
    this.context = context;
  }

  /** The outputs for these inputs; a ModelException says which input does not fit, or why the run failed. */
  public Outputs run(Inputs inputs) {
    return run(inputs, new Outputs());
  }

  /** The same in the memory of earlier outputs, where it suffices. */
  public synchronized Outputs run(Inputs inputs, Outputs outputs) {
    if (context == 0) throw new ModelException(ModelException.BAD_INPUT, "the session is closed");
    try {
@DESCRIBED@
      if (Native.sizes(frameAddress, text.address) != 0) throw text.failure(ModelException.BAD_INPUT);
@RESULTS@
      int code = Native.run(context, frameAddress);
      if (code != 0) {
        Native.error(context, text.address);
        throw text.failure(code);
      }
@LATE@
      return outputs;
    } finally {
      Reference.reachabilityFence(inputs);
      Reference.reachabilityFence(outputs);
      Reference.reachabilityFence(this);
    }
  }

  /** Frees the memory of the session, after a run that is under way. */
  @Override
  public synchronized void close() {
    synchronized (cancelling) {
      if (context == 0) return;
      Native.close(context);
      context = 0;
    }
    model.release();
  }

  /** Ends the run that is under way, and later ones, with CANCELLED, until cancel(false). Any thread may call it. */
  public void cancel(boolean cancelled) {
    synchronized (cancelling) {
      if (context != 0) Native.cancel(context, cancelled ? 1 : 0);
    }
  }

  private void describe(int at, int place, int rank, Tensor<?> tensor) {
    frame.put(at, tensor == null ? -1 : tensor.elements());
    frame.put(place, tensor == null ? 0 : tensor.address());
    if (tensor == null) return;
    long[] shape = tensor.sizes();
    frame.put(at + 1, shape.length);
    for (int i = 0; i < rank && i < shape.length; i++) frame.put(at + 2 + i, shape[i]);
  }

  private <B extends Buffer> Tensor<B> late(int number, Tensor<B> before, Function<long[], Tensor<B>> maker) {
    int rank = (int) Native.rank(context, number);
    ByteBuffer room = ByteBuffer.allocateDirect(8 * rank + 8).order(ByteOrder.nativeOrder());
    long data = Native.result(context, number, Native.address(room));
    Tensor<B> tensor = Tensor.resized(before, maker, room.asLongBuffer(), 0, rank);
    if (tensor.byteCount() > 0) Native.copy(data, tensor.address(), tensor.byteCount());
    Reference.reachabilityFence(room);
    return tensor;
  }
}
