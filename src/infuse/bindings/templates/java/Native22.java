package @NAME@;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;

/** Functions of the library, by the foreign function interface. Memory is passed by address. */
final class Native {
  private static final MethodHandle LOAD, COPIED, UNLOAD, OPEN, CLOSE, SIZES, SHAPES, RUN, ERROR, RANK,
      RESULT, CANCEL;

  static {
    Library.load();
    LOAD = function("load", JAVA_LONG, JAVA_LONG, JAVA_LONG);
    COPIED = function("copied", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    UNLOAD = function("unload", null, JAVA_LONG);
    OPEN = function("open", JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    CANCEL = function("cancel", null, JAVA_LONG, JAVA_INT);
    CLOSE = function("close", null, JAVA_LONG);
    SIZES = function("sizes", JAVA_INT, JAVA_LONG, JAVA_LONG);
    SHAPES = function("shapes", JAVA_INT, JAVA_LONG, JAVA_LONG);
    RUN = function("run", JAVA_INT, JAVA_LONG, JAVA_LONG);
    ERROR = function("error_text", null, JAVA_LONG, JAVA_LONG);
    RANK = function("rank", JAVA_LONG, JAVA_LONG, JAVA_INT);
    RESULT = function("result", JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG);
  }

  private Native() {}

  private static MethodHandle function(String name, MemoryLayout result, MemoryLayout... arguments) {
    FunctionDescriptor type =
        result == null ? FunctionDescriptor.ofVoid(arguments) : FunctionDescriptor.of(result, arguments);
    MemorySegment symbol = SymbolLookup.loaderLookup().find("@P@_binding_" + name).orElseThrow();
    return Linker.nativeLinker().downcallHandle(symbol, type);
  }

  private static AssertionError impossible(Throwable error) {
    return new AssertionError(error);
  }

  static long address(ByteBuffer buffer) {
    return MemorySegment.ofBuffer(buffer).address();
  }

  static long load(long path, long text) {
    try {
      return (long) LOAD.invokeExact(path, text);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static long copied(long data, long bytes, long text) {
    try {
      return (long) COPIED.invokeExact(data, bytes, text);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static void unload(long loaded) {
    try {
      UNLOAD.invokeExact(loaded);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  /** Stores the context at `place`, which is 8 bytes of zeros. */
  static int open(long loaded, int threads, long id, long place, long text) {
    try {
      return (int) OPEN.invokeExact(loaded, threads, id, place, text);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static void close(long context) {
    try {
      CLOSE.invokeExact(context);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static void cancel(long context, int cancelled) {
    try {
      CANCEL.invokeExact(context, cancelled);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static int sizes(long frame, long text) {
    try {
      return (int) SIZES.invokeExact(frame, text);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static int shapes(long frame, long text) {
    try {
      return (int) SHAPES.invokeExact(frame, text);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static int run(long context, long frame) {
    try {
      return (int) RUN.invokeExact(context, frame);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static void error(long context, long text) {
    try {
      ERROR.invokeExact(context, text);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static long rank(long context, int number) {
    try {
      return (long) RANK.invokeExact(context, number);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static long result(long context, int number, long sizes) {
    try {
      return (long) RESULT.invokeExact(context, number, sizes);
    } catch (Throwable error) {
      throw impossible(error);
    }
  }

  static void copy(long from, long to, long bytes) {
    MemorySegment target = MemorySegment.ofAddress(to).reinterpret(bytes);
    target.copyFrom(MemorySegment.ofAddress(from).reinterpret(bytes));
  }
}
