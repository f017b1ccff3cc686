import @NAME@.Inputs;
import @NAME@.Model;
import @NAME@.ModelException;
import @NAME@.Outputs;
import @NAME@.Session;
import @NAME@.Tensor;
import java.io.IOException;
import java.nio.Buffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Function;

/**
 * Runs the model: Example [FOLDER [SIZE...]]. FOLDER may have inputs, the elements of input number i in input<i>.bin (zeros
 * without it; an optional input is absent then); outputs are written beside them. The sizes are those of symbols:
 * @SYMBOL_NAMES@.
 */
public final class Example {
  public static void main(String[] arguments) throws IOException {
    Path folder = Path.of(arguments.length > 0 ? arguments[0] : ".");
    long[] symbols = new long[@SYMBOLS@];
    for (int i = 0; i < symbols.length; i++)
      symbols[i] = i + 1 < arguments.length ? Long.parseLong(arguments[i + 1]) : 2;
    try {
      run(folder, Model.shapes(symbols));
    } catch (ModelException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }

  private static void run(Path folder, long[][] shapes) throws IOException {
    Inputs inputs = new Inputs();
@READ@
    try (Model model = Model.load()) {
      try (Session session = model.session(2)) {
        Outputs outputs = session.run(inputs);
@WRITE@
      }
    }
  }

  private static <B extends Buffer> Tensor<B> read(
      Path folder, int number, long[] shape, Function<long[], Tensor<B>> maker, boolean optional) throws IOException {
    Path file = folder.resolve("input" + number + ".bin");
    if (optional && !Files.exists(file)) return null;
    Tensor<B> tensor = maker.apply(shape);
    if (Files.exists(file)) tensor.content().put(Files.readAllBytes(file));
    return tensor;
  }

  private static void write(Path folder, int number, Tensor<?> tensor) throws IOException {
    StringBuilder sizes = new StringBuilder();
    for (long size : tensor.shape()) sizes.append(" ").append(size);
    System.out.println("output " + number + ":" + sizes);
    byte[] content = new byte[tensor.content().remaining()];
    tensor.content().get(content);
    Files.write(folder.resolve("output" + number + ".bin"), content);
  }
}
